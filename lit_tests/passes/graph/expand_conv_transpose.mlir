// RUN: tcopt %s -p 'set-target{cpu=haswell},expand-conv-transpose' | filecheck %s
// RUN: tcopt %s -p expand-conv-transpose | filecheck %s --check-prefix=NONE

// A transposed convolution is one whose channels are the phases of the result, and their weaving:
// stride 2 and 4 taps make 2x2 phases of 2x2 taps.
// CHECK-LABEL: func.func @few_channels
// CHECK-NEXT: %[[A:.*]] = graph.reshape %w : tensor<8x3x2x2x2x2xf32>
// CHECK-NEXT: %[[B:.*]] = graph.transpose %[[A]] {perm = [3, 5, 1, 0, 2, 4]} : tensor<2x2x3x8x2x2xf32>
// CHECK-NEXT: %[[C:.*]] = graph.reshape %[[B]] : tensor<12x8x2x2xf32>
// CHECK-NEXT: %[[D:.*]] = graph.slice %[[C]] {{.*}} : tensor<12x8x2x2xf32>
// CHECK-NEXT: %[[P:.*]] = graph.conv %x, %[[D]] {pads = [1, 1, 1, 1]} : tensor<1x12x5x5xf32>
// CHECK-NEXT: graph.interleave %[[P]] {strides = [2, 2], starts = [1, 1], output = [8, 8]} : tensor<1x3x8x8xf32>
func.func @few_channels(%x: tensor<1x8x4x4xf32>, %w: tensor<8x3x4x4xf32>) -> tensor<1x3x8x8xf32> {
  %0 = graph.conv_transpose %x, %w {strides = [2, 2], pads = [1, 1, 1, 1]} : tensor<1x3x8x8xf32>
  return %0 : tensor<1x3x8x8xf32>
}

// Channels that fill vectors stay for convert-layout, unless there is no target.
// CHECK-LABEL: func.func @full
// CHECK-NEXT: graph.conv_transpose
// NONE-LABEL: func.func @full
// NONE: graph.conv
// NONE: graph.interleave
func.func @full(%x: tensor<1x8x4x4xf32>, %w: tensor<8x16x4x4xf32>) -> tensor<1x16x8x8xf32> {
  %0 = graph.conv_transpose %x, %w {strides = [2, 2], pads = [1, 1, 1, 1]} : tensor<1x16x8x8xf32>
  return %0 : tensor<1x16x8x8xf32>
}

// Phases of different extents are computed together.
// CHECK-LABEL: func.func @uneven
// CHECK: graph.conv {{.*}} : tensor<1x64x5x5xf32>
// CHECK-NEXT: graph.interleave
func.func @uneven(%x: tensor<1x8x4x4xf32>, %w: tensor<8x16x3x3xf32>) -> tensor<1x16x9x9xf32> {
  %0 = graph.conv_transpose %x, %w {strides = [2, 2]} : tensor<1x16x9x9xf32>
  return %0 : tensor<1x16x9x9xf32>
}
