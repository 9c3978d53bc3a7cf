// RUN: tcopt %s -p 'set-target{cpu=haswell},fuse-ops' | filecheck %s
// RUN: tcopt %s -p fuse-ops | filecheck %s --check-prefix=UNKNOWN

// A product stores its result head by head; without a target the vector width is unknown, so it
// does not.
// CHECK-LABEL: func.func @heads
// CHECK-NEXT: %[[Y:.*]] = graph.group kind = complex_out_fusable {
// CHECK-NEXT:   graph.matmul
// CHECK-NEXT:   graph.reshape
// CHECK-NEXT:   graph.transpose
// CHECK-NEXT:   graph.yield
// CHECK-NEXT: } : tensor<3x5x16xf32>
// CHECK-NEXT: return %[[Y]]
// UNKNOWN-LABEL: func.func @heads
// UNKNOWN:      graph.matmul
// UNKNOWN-NEXT: graph.yield
// UNKNOWN:      graph.transpose
func.func @heads(%x: tensor<5x4xf32>, %w: tensor<4x48xf32>) -> tensor<3x5x16xf32> {
  %0 = graph.matmul %x, %w : tensor<5x48xf32>
  %1 = graph.reshape %0 : tensor<5x3x16xf32>
  %2 = graph.transpose %1 {perm = [1, 0, 2]} : tensor<3x5x16xf32>
  return %2 : tensor<3x5x16xf32>
}

// If a vector would cross a head's end, the result is stored in order and permuted by another
// kernel.
// CHECK-LABEL: func.func @odd
// CHECK:       graph.matmul
// CHECK-NEXT:  graph.yield
// CHECK:       kind = injective
// CHECK-NEXT:  graph.transpose
func.func @odd(%x: tensor<5x4xf32>, %w: tensor<4x60xf32>) -> tensor<3x5x20xf32> {
  %0 = graph.matmul %x, %w : tensor<5x60xf32>
  %1 = graph.reshape %0 : tensor<5x3x20xf32>
  %2 = graph.transpose %1 {perm = [1, 0, 2]} : tensor<3x5x20xf32>
  return %2 : tensor<3x5x20xf32>
}

// A blocked convolution writes plain channels and the border that the next one reads.
// CHECK-LABEL: func.func @plain
// CHECK-NEXT: graph.group kind = complex_out_fusable
// CHECK-NEXT:   graph.blocked_conv
// CHECK-NEXT:   graph.relu
// CHECK-NEXT:   graph.layout_transform
// CHECK-NEXT:   graph.pad
// CHECK-NEXT:   graph.yield
func.func @plain(%x: tensor<1x2x6x6x8xf32>, %w: tensor<3x2x3x3x8x8xf32>) -> tensor<1x24x6x6xf32> {
  %0 = graph.blocked_conv %x, %w : tensor<1x3x4x4x8xf32>
  %1 = graph.relu %0 : tensor<1x3x4x4x8xf32>
  %2 = graph.layout_transform %1 {src = "NCHW8c", dst = "NCHW"} : tensor<1x24x4x4xf32>
  %3 = graph.pad %2 {low = [0, 0, 1, 1], high = [0, 0, 1, 1]} : tensor<1x24x6x6xf32>
  return %3 : tensor<1x24x6x6xf32>
}

// A transform that drops padding channels is not a permutation; a result with a second user is
// stored in order.
// CHECK-LABEL: func.func @cropped
// CHECK:       graph.blocked_conv
// CHECK-NEXT:  graph.yield
// CHECK:       graph.layout_transform
// CHECK:       graph.matmul
// CHECK-NEXT:  graph.yield
// CHECK:       graph.transpose
func.func @cropped(%x: tensor<1x2x6x6x8xf32>, %w: tensor<3x2x3x3x8x8xf32>, %a: tensor<8x4xf32>, %b: tensor<4x16xf32>) -> (tensor<1x20x4x4xf32>, tensor<16x8xf32>, tensor<8x16xf32>) {
  %0 = graph.blocked_conv %x, %w : tensor<1x3x4x4x8xf32>
  %1 = graph.layout_transform %0 {src = "NCHW8c", dst = "NCHW"} : tensor<1x20x4x4xf32>
  %2 = graph.matmul %a, %b : tensor<8x16xf32>
  %3 = graph.transpose %2 {perm = [1, 0]} : tensor<16x8xf32>
  return %1, %3, %2 : tensor<1x20x4x4xf32>, tensor<16x8xf32>, tensor<8x16xf32>
}
