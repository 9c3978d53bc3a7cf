// RUN: tcopt %s --split-input-file --verify-diagnostics | filecheck %s
// RUN: tcopt %s --split-input-file --verify-diagnostics -p fold-constants | filecheck %s --check-prefix=FOLD

// Two blocks of 16 channels share a word; each bit plane has its own words.
// CHECK-LABEL: func.func @image
// CHECK: graph.pack_bits %x {bits = 2} : tensor<1x5x7x2x2xui32>
func.func @image(%x: tensor<1x4x5x7x16xui8>) -> tensor<1x5x7x2x2xui32> {
  %0 = graph.pack_bits %x {bits = 2} : tensor<1x5x7x2x2xui32>
  return %0 : tensor<1x5x7x2x2xui32>
}

// -----

// Three blocks do not fill words of two, so each block has its own word.
// CHECK-LABEL: func.func @odd
// CHECK: graph.pack_bits %x {bits = 1} : tensor<2x5x3x1xui32>
func.func @odd(%x: tensor<2x3x5x16xi8>) -> tensor<2x5x3x1xui32> {
  %0 = graph.pack_bits %x {bits = 1} : tensor<2x5x3x1xui32>
  return %0 : tensor<2x5x3x1xui32>
}

// -----

// The values 1, 2 and -1 have the lowest bits 1, 0, 1 and the next bits 0, 1, 1.
// FOLD-LABEL: func.func @constant
// FOLD: graph.constant dense<[[[5, 6]]]> : tensor<1x1x2xui32>
func.func @constant() -> tensor<1x1x2xui32> {
  %x = graph.constant dense<[[[1, 2, -1]]]> : tensor<1x1x3xi8>
  %0 = graph.pack_bits %x {bits = 2} : tensor<1x1x2xui32>
  return %0 : tensor<1x1x2xui32>
}

// -----

func.func @floats(%x: tensor<1x1x16xf32>) -> tensor<1x1x1xui32> {
  // expected-error @+1 {{packs integers of 8 or 16 bits, not f32}}
  %0 = graph.pack_bits %x {bits = 1} : tensor<1x1x1xui32>
  return %0 : tensor<1x1x1xui32>
}

// -----

func.func @no_such_bit(%x: tensor<1x1x16xi8>) -> tensor<1x1x9xui32> {
  // expected-error @+1 {{cannot pack 9 bits of i8}}
  %0 = graph.pack_bits %x {bits = 9} : tensor<1x1x9xui32>
  return %0 : tensor<1x1x9xui32>
}

// -----

func.func @long_rows(%x: tensor<1x1x64xi8>) -> tensor<1x1x1xui32> {
  // expected-error @+1 {{[1, 1, 64] should be [N, C, positions..., b], b up to 32}}
  %0 = graph.pack_bits %x {bits = 1} : tensor<1x1x1xui32>
  return %0 : tensor<1x1x1xui32>
}
