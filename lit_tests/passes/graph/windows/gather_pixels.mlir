// RUN: tcopt %s -p gather-pixels | filecheck %s

// A strided 1x1 convolution of an argument reads a slice with the same strides.
// CHECK-LABEL: func.func @input
// CHECK-NEXT: %[[S:.*]] = graph.slice %x {starts = [0, 0, 0, 0], steps = [1, 1, 2, 2]} : tensor<1x4x4x3xf32>
// CHECK-NEXT: graph.conv %[[S]], %w : tensor<1x8x4x3xf32>
func.func @input(%x: tensor<1x4x7x6xf32>, %w: tensor<8x4x1x1xf32>) -> tensor<1x8x4x3xf32> {
  %0 = graph.conv %x, %w {strides = [2, 2]} : tensor<1x8x4x3xf32>
  return %0 : tensor<1x8x4x3xf32>
}

// If stride and dilation share a factor, the data is sliced by it, starting with the first element
// that is not padding.
// CHECK-LABEL: func.func @dilated
// CHECK-NEXT: %[[S:.*]] = graph.slice %x {starts = [0, 0, 0, 1], steps = [1, 1, 2, 3]} : tensor<1x4x8x5xf32>
// CHECK-NEXT: graph.conv %[[S]], %w {pads = [0, 2, 0, 2], dilations = [2, 1]} : tensor<1x8x4x7xf32>
func.func @dilated(%x: tensor<1x4x15x16xf32>, %w: tensor<8x4x3x3xf32>) -> tensor<1x8x4x7xf32> {
  %0 = graph.conv %x, %w {strides = [2, 3], pads = [0, 5, 0, 4], dilations = [4, 3]} : tensor<1x8x4x7xf32>
  return %0 : tensor<1x8x4x7xf32>
}

// For a single output pixel, each tap reads one element.
// CHECK-LABEL: func.func @place
// CHECK-NEXT: %[[S:.*]] = graph.slice %x {starts = [0, 0, 0, 2], steps = [1, 1, 4, 5]} : tensor<1x4x3x2xf32>
// CHECK-NEXT: graph.conv %[[S]], %w {pads = [0, 1, 0, 0]} : tensor<1x8x1x1xf32>
func.func @place(%x: tensor<1x4x10x8xf32>, %w: tensor<8x4x3x3xf32>) -> tensor<1x8x1x1xf32> {
  %0 = graph.conv %x, %w {strides = [2, 3], pads = [0, 3, 0, 1], dilations = [4, 5]} : tensor<1x8x1x1xf32>
  return %0 : tensor<1x8x1x1xf32>
}

// The slice of an elementwise producer is taken before the convolution, in the producer's kernel.
// CHECK-LABEL: func.func @elementwise
// CHECK-NEXT: graph.relu
// CHECK-NEXT: %[[S:.*]] = graph.slice %r {starts = [0, 0, 0, 0], steps = [1, 1, 2, 2]} : tensor<1x4x4x3xf32>
// CHECK-NEXT: graph.conv %[[S]], %w : tensor<1x8x4x3xf32>
func.func @elementwise(%x: tensor<1x4x7x6xf32>, %w: tensor<8x4x1x1xf32>) -> tensor<1x8x4x3xf32> {
  %r = graph.relu %x : tensor<1x4x7x6xf32>
  %0 = graph.conv %r, %w {strides = [2, 2]} : tensor<1x8x4x3xf32>
  return %0 : tensor<1x8x4x3xf32>
}

// Other producers, values with several users, and windows of adjacent elements are read in place.
// CHECK-LABEL: func.func @others
// CHECK-NEXT: graph.conv %x, %u
// CHECK-NEXT: graph.conv %{{.*}}, %w {strides = [2, 2]}
// CHECK-NEXT: graph.relu
// CHECK-NEXT: graph.conv %r, %w {strides = [2, 2]}
// CHECK-NEXT: graph.conv %r, %v {strides = [2, 2]}
func.func @others(%x: tensor<1x4x7x6xf32>, %u: tensor<4x4x1x1xf32>, %w: tensor<8x4x1x1xf32>, %v: tensor<8x4x2x2xf32>) -> (tensor<1x8x4x3xf32>, tensor<1x8x4x3xf32>, tensor<1x8x3x3xf32>) {
  %c = graph.conv %x, %u : tensor<1x4x7x6xf32>
  %0 = graph.conv %c, %w {strides = [2, 2]} : tensor<1x8x4x3xf32>
  %r = graph.relu %x : tensor<1x4x7x6xf32>
  %1 = graph.conv %r, %w {strides = [2, 2]} : tensor<1x8x4x3xf32>
  %2 = graph.conv %r, %v {strides = [2, 2]} : tensor<1x8x3x3xf32>
  return %0, %1, %2 : tensor<1x8x4x3xf32>, tensor<1x8x4x3xf32>, tensor<1x8x3x3xf32>
}
