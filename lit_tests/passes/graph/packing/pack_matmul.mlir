// RUN: tcopt %s -p pack-matmul --split-input-file | filecheck %s

// A panel is as wide as the target's register tile; both products share one packed weight.
// CHECK-LABEL: func.func @twice
// CHECK-NEXT: %w = graph.constant @w
// CHECK-NEXT: %[[P:.*]] = graph.layout_transform %w {src = "KN", dst = "NK48n"} : tensor<16x768x48xf32>
// CHECK-NEXT: %a = graph.packed_matmul %x, %[[P]] {columns = 768} : tensor<128x768xf32>
// CHECK-NEXT: %b = graph.packed_matmul %a, %[[P]] {columns = 768} : tensor<128x768xf32>
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "skylake-avx512", vector_bits = 512, registers = 32, l1 = 32768, l2 = 1048576, cores = 2>} {
func.func @twice(%x: tensor<128x768xf32>) -> tensor<128x768xf32> {
  %w = graph.constant @w : tensor<768x768xf32>
  %a = graph.matmul %x, %w : tensor<128x768xf32>
  %b = graph.matmul %a, %w : tensor<128x768xf32>
  return %b : tensor<128x768xf32>
}

// Either operand may be transposed; the last panel is padded with columns. The two rows of the result
// need wide panels, so that there are enough accumulators to hide the latency of a multiply-add.
// CHECK-LABEL: func.func @transposed
// CHECK:      %[[P:.*]] = graph.layout_transform %w {src = "NK", dst = "NK64n"} : tensor<4x32x64xf32>
// CHECK-NEXT: graph.packed_matmul %x, %[[P]] {columns = 200, transpose_a} : tensor<2x200xf32>
func.func @transposed(%x: tensor<32x2xf32>) -> tensor<2x200xf32> {
  %w = graph.constant @w : tensor<200x32xf32>
  %a = graph.matmul %x, %w {transpose_a, transpose_b} : tensor<2x200xf32>
  return %a : tensor<2x200xf32>
}

// Variable operands, batched operands and matrices with few columns are unchanged.
// CHECK-LABEL: func.func @kept
// CHECK-NOT: packed_matmul
// CHECK: return
func.func @kept(%x: tensor<2x4x4xf32>, %w: tensor<4x64xf32>) -> (tensor<2x4x64xf32>, tensor<2x4x64xf32>, tensor<2x4x3xf32>) {
  %v = graph.constant @v : tensor<2x4x64xf32>
  %u = graph.constant @u : tensor<4x3xf32>
  %a = graph.matmul %x, %w : tensor<2x4x64xf32>
  %b = graph.matmul %x, %v : tensor<2x4x64xf32>
  %c = graph.matmul %x, %u : tensor<2x4x3xf32>
  return %a, %b, %c : tensor<2x4x64xf32>, tensor<2x4x64xf32>, tensor<2x4x3xf32>
}
}

// -----

// Without a target the tile is unknown, so nothing is packed.
// CHECK-LABEL: func.func @anywhere
// CHECK: graph.matmul
func.func @anywhere(%x: tensor<8x16xf32>) -> tensor<8x32xf32> {
  %w = graph.constant @w : tensor<16x32xf32>
  %a = graph.matmul %x, %w : tensor<8x32xf32>
  return %a : tensor<8x32xf32>
}

// -----

// A GPU with byte dot products uses a single panel for bytes; floats are unchanged.
// CHECK-LABEL: func.func @bytes
// CHECK:       %[[P:.*]] = graph.layout_transform %w {src = "KN", dst = "NK24n"} : tensor<1x16x24xi8>
// CHECK-NEXT:  graph.packed_matmul %x, %[[P]] {columns = 24, result_element = i32} : tensor<8x24xi32>
// CHECK:       graph.matmul
module attributes {tcopt.target = #target.gpu<api = "opencl", features = "dp4a", warp = 4, max_threads = 64, registers = 64, shared = 4096, vector_bits = 128>} {
func.func @bytes(%x: tensor<8x16xui8>, %z: tensor<8x16xf32>) -> (tensor<8x24xi32>, tensor<8x24xf32>) {
  %w = graph.constant @w : tensor<16x24xi8>
  %v = graph.constant @v : tensor<16x24xf32>
  %a = graph.matmul %x, %w {result_element = i32} : tensor<8x24xi32>
  %b = graph.matmul %z, %v : tensor<8x24xf32>
  return %a, %b : tensor<8x24xi32>, tensor<8x24xf32>
}
}

// -----

// A computed right operand is packed in pairs for a dot product, for each matrix of a batch; a
// single row, which reads each element once, and floats are read unpacked.
// CHECK-LABEL: func.func @computed
// CHECK-NEXT:  %[[X:.*]] = graph.pad %x {low = [0, 0, 0], high = [0, 0, 1]
// CHECK-NEXT:  %[[P:.*]] = graph.layout_transform %w {src = "AKN", dst = "ANK32n2k"} : tensor<3x2x10x32x2xi16>
// CHECK-NEXT:  graph.packed_matmul %[[X]], %[[P]] {columns = 50, batch = 1, result_element = i32} : tensor<3x8x50xi32>
// CHECK-NEXT:  graph.matmul
// CHECK-NEXT:  graph.matmul
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "skylake-avx512", vector_bits = 512, registers = 32, l1 = 32768, l2 = 1048576, cores = 2>} {
func.func @computed(%x: tensor<3x8x19xi16>, %w: tensor<3x19x50xi16>, %r: tensor<3x1x19xi16>, %f: tensor<3x8x19xf32>, %g: tensor<3x19x50xf32>) -> (tensor<3x8x50xi32>, tensor<3x1x50xi32>, tensor<3x8x50xf32>) {
  %a = graph.matmul %x, %w {result_element = i32} : tensor<3x8x50xi32>
  %b = graph.matmul %r, %w {result_element = i32} : tensor<3x1x50xi32>
  %c = graph.matmul %f, %g : tensor<3x8x50xf32>
  return %a, %b, %c : tensor<3x8x50xi32>, tensor<3x1x50xi32>, tensor<3x8x50xf32>
}
}
