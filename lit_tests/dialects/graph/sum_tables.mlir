// RUN: tcopt %s --split-input-file --verify-diagnostics | filecheck %s
// RUN: tcopt %s --split-input-file --verify-diagnostics -p fold-constants | filecheck %s --check-prefix=FOLD

// Sixty of 64 channels are in ten tables of 64 entries; the sums have two bytes.
// CHECK-LABEL: func.func @image
// CHECK: graph.sum_tables %x {numbers = 6, groups = 5, steps = 2, bits = 11} : tensor<1x5x7x2x5x2x64xui8>
func.func @image(%x: tensor<1x4x5x7x16xui8>) -> tensor<1x5x7x2x5x2x64xui8> {
  %0 = graph.sum_tables %x {numbers = 6, groups = 5, steps = 2, bits = 11} : tensor<1x5x7x2x5x2x64xui8>
  return %0 : tensor<1x5x7x2x5x2x64xui8>
}

// -----

// All sums of subsets of two values: none, the first, the second, both. With `exclusive`, values
// not added are subtracted, and a bias keeps the sums non-negative.
// FOLD-LABEL: func.func @constant
// FOLD: graph.constant dense<[[[[[0, 1, 10, 11]]]]]> : tensor<1x1x1x1x4xui8>
// FOLD: graph.constant dense<[[[[[0, 2, 20, 22]]]]]> : tensor<1x1x1x1x4xui8>
func.func @constant() -> (tensor<1x1x1x1x4xui8>, tensor<1x1x1x1x4xui8>) {
  %x = graph.constant dense<[[[1, 10]]]> : tensor<1x1x2xi8>
  %0 = graph.sum_tables %x {numbers = 2, groups = 1, steps = 1, bits = 7} : tensor<1x1x1x1x4xui8>
  %1 = graph.sum_tables %x {numbers = 2, groups = 1, steps = 1, bits = 7, bias = 11, exclusive} : tensor<1x1x1x1x4xui8>
  return %0, %1 : tensor<1x1x1x1x4xui8>, tensor<1x1x1x1x4xui8>
}

// -----

// The low 7 bits of 300 are 44, the bits above them 2.
// FOLD-LABEL: func.func @parts
// FOLD: graph.constant dense<[[[[[0, 44], [0, 2]]]]]> : tensor<1x1x1x2x2xui8>
func.func @parts() -> tensor<1x1x1x2x2xui8> {
  %x = graph.constant dense<[[[300]]]> : tensor<1x1x1xi16>
  %0 = graph.sum_tables %x {numbers = 1, groups = 1, steps = 1, bits = 9} : tensor<1x1x1x2x2xui8>
  return %0 : tensor<1x1x1x2x2xui8>
}

// -----

func.func @floats(%x: tensor<1x1x16xf32>) -> tensor<1x1x1x1x16xui8> {
  // expected-error @+1 {{adds up integers of 8 or 16 bits, not f32}}
  %0 = graph.sum_tables %x {numbers = 4, groups = 1, steps = 1, bits = 7} : tensor<1x1x1x1x16xui8>
  return %0 : tensor<1x1x1x1x16xui8>
}

// -----

func.func @too_many(%x: tensor<1x1x15xi8>) -> tensor<1x2x2x1x16xui8> {
  // expected-error @+1 {{tables of 16 values do not fit the 15 values of x}}
  %0 = graph.sum_tables %x {numbers = 4, groups = 2, steps = 2, bits = 7} : tensor<1x2x2x1x16xui8>
  return %0 : tensor<1x2x2x1x16xui8>
}

// -----

func.func @long(%x: tensor<1x1x16xi8>) -> tensor<1x1x1x1x256xui8> {
  // expected-error @+1 {{tables of 8 numbers with entries of 7 bits: at most 6 and 11}}
  %0 = graph.sum_tables %x {numbers = 8, groups = 1, steps = 1, bits = 7} : tensor<1x1x1x1x256xui8>
  return %0 : tensor<1x1x1x1x256xui8>
}
