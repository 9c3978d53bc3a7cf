// RUN: tcopt %s -p 'set-target{gpu=opencl},convert-layout,pack-matmul,pack-dots' --split-input-file | filecheck %s

// On a GPU with byte dot products, 8-bit convolutions use blocks of four channels; weights use
// blocks of four input by four output channels.
// CHECK:      graph.layout_transform %x {src = "NCHW", dst = "NCHW4c"} : tensor<1x2x4x4x4xui8>
// CHECK:      graph.transpose {{.*}} : tensor<4x2x3x3x1x4x4xi8>
// CHECK:      graph.blocked_conv {{.*}} {pads = [1, 1, 1, 1], result_element = i32} : tensor<1x4x4x4x4xi32>
// CHECK:      graph.requantize {{.*}} : tensor<1x4x4x4x4xi16>
func.func @bytes(%x: tensor<1x8x4x4xui8>) -> tensor<1x16x4x4xi16> {
  %s = graph.constant dense<0.1> : tensor<f32>
  %z = graph.constant dense<0> : tensor<i8>
  %w = graph.constant dense<3> : tensor<16x8x3x3xi8>
  %y = graph.conv %x, %w {pads = [1, 1, 1, 1], result_element = i32} : tensor<1x16x4x4xi32>
  %d = graph.requantize %y, %s, %z {centered} : tensor<1x16x4x4xi16>
  func.return %d : tensor<1x16x4x4xi16>
}

// -----

// 8-bit matrices are one panel with four rows interleaved.
// CHECK: graph.layout_transform %w {src = "KN", dst = "NK10n"} : tensor<1x8x10xi8>
// CHECK: graph.transpose {{.*}} : tensor<1x2x10x4xi8>
// CHECK: graph.packed_matmul {{.*}} {columns = 10, result_element = i32} : tensor<5x10xi32>
func.func @matrix(%x: tensor<5x8xi8>) -> tensor<5x10xi32> {
  %w = graph.constant dense<3> : tensor<8x10xi8>
  %y = graph.matmul %x, %w {result_element = i32} : tensor<5x10xi32>
  func.return %y : tensor<5x10xi32>
}

// -----

// All else is unchanged, such as float layers and groups that are not whole blocks.
// CHECK-NOT: graph.layout_transform
func.func @others(%x: tensor<1x8x4x4xf32>, %g: tensor<1x6x4x4xi8>) -> (tensor<1x8x4x4xf32>, tensor<1x6x4x4xi32>) {
  %w = graph.constant dense<3.0> : tensor<8x8x1x1xf32>
  %v = graph.constant dense<3> : tensor<6x3x1x1xi8>
  %y = graph.conv %x, %w : tensor<1x8x4x4xf32>
  %z = graph.conv %g, %v {groups = 2, result_element = i32} : tensor<1x6x4x4xi32>
  func.return %y, %z : tensor<1x8x4x4xf32>, tensor<1x6x4x4xi32>
}
