// RUN: tcopt %s --verify-diagnostics --split-input-file | filecheck %s

// Four panels of 16 hold 50 columns.
// CHECK: %y = graph.packed_matmul %x, %w {columns = 50} : tensor<2x3x50xf32>
// CHECK: %z = graph.packed_matmul %t, %w {columns = 64, transpose_a} : tensor<3x64xf32>
func.func @panels(%x: tensor<2x3x8xf32>, %t: tensor<8x3xf32>, %w: tensor<4x8x16xf32>) -> (tensor<2x3x50xf32>, tensor<3x64xf32>) {
  %y = graph.packed_matmul %x, %w {columns = 50} : tensor<2x3x50xf32>
  %z = graph.packed_matmul %t, %w {columns = 64, transpose_a} : tensor<3x64xf32>
  return %y, %z : tensor<2x3x50xf32>, tensor<3x64xf32>
}

// -----

// Panels may interleave groups of rows, here four pairs.
// CHECK: %y = graph.packed_matmul %x, %w {columns = 50, result_element = f32} : tensor<3x50xf32>
func.func @groups(%x: tensor<3x8xbf16>, %w: tensor<4x4x16x2xbf16>) -> tensor<3x50xf32> {
  %y = graph.packed_matmul %x, %w {columns = 50, result_element = f32} : tensor<3x50xf32>
  return %y : tensor<3x50xf32>
}

// -----

// Batched matrices have panels for each matrix, and broadcast.
// CHECK: %y = graph.packed_matmul %x, %w {columns = 50, batch = 2} : tensor<5x2x3x50xf32>
func.func @batch(%x: tensor<2x3x8xf32>, %w: tensor<5x1x4x8x16xf32>) -> tensor<5x2x3x50xf32> {
  %y = graph.packed_matmul %x, %w {columns = 50, batch = 2} : tensor<5x2x3x50xf32>
  return %y : tensor<5x2x3x50xf32>
}

// -----

// The panels must have the depth of the left operand.
// CHECK: contracted extents differ: 8 in lhs, 6 in panels
func.func @depth(%x: tensor<3x8xf32>, %w: tensor<4x6x16xf32>) {
  %y = graph.packed_matmul %x, %w {columns = 64} : tensor<3x64xf32>
  return
}

// -----

// The last panel must hold at least one column.
// CHECK: 4 panels of 16 do not hold 48 columns
func.func @count(%x: tensor<3x8xf32>, %w: tensor<4x8x16xf32>) {
  %y = graph.packed_matmul %x, %w {columns = 48} : tensor<3x48xf32>
  return
}
