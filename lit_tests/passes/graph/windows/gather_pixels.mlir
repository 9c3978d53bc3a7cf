// RUN: tcopt %s -p gather-pixels | filecheck %s

// Of an input that single elements are taken from, those are sliced out first.
// CHECK-LABEL: func.func @input
// CHECK-NEXT: %[[S:.*]] = graph.slice %x {starts = [0, 0, 0, 0], steps = [1, 1, 2, 2]} : tensor<1x4x4x3xf32>
// CHECK-NEXT: graph.conv %[[S]], %w : tensor<1x8x4x3xf32>
func.func @input(%x: tensor<1x4x7x6xf32>, %w: tensor<8x4x1x1xf32>) -> tensor<1x8x4x3xf32> {
  %0 = graph.conv %x, %w {strides = [2, 2]} : tensor<1x8x4x3xf32>
  return %0 : tensor<1x8x4x3xf32>
}

// Strides and dilations with a common factor use as few: those from the first that no pad is.
// CHECK-LABEL: func.func @dilated
// CHECK-NEXT: %[[S:.*]] = graph.slice %x {starts = [0, 0, 0, 1], steps = [1, 1, 2, 3]} : tensor<1x4x8x5xf32>
// CHECK-NEXT: graph.conv %[[S]], %w {pads = [0, 2, 0, 2], dilations = [2, 1]} : tensor<1x8x4x7xf32>
func.func @dilated(%x: tensor<1x4x15x16xf32>, %w: tensor<8x4x3x3xf32>) -> tensor<1x8x4x7xf32> {
  %0 = graph.conv %x, %w {strides = [2, 3], pads = [0, 5, 0, 4], dilations = [4, 3]} : tensor<1x8x4x7xf32>
  return %0 : tensor<1x8x4x7xf32>
}

// Of a single place each tap uses one element.
// CHECK-LABEL: func.func @place
// CHECK-NEXT: %[[S:.*]] = graph.slice %x {starts = [0, 0, 0, 2], steps = [1, 1, 4, 5]} : tensor<1x4x3x2xf32>
// CHECK-NEXT: graph.conv %[[S]], %w {pads = [0, 1, 0, 0]} : tensor<1x8x1x1xf32>
func.func @place(%x: tensor<1x4x10x8xf32>, %w: tensor<8x4x3x3xf32>) -> tensor<1x8x1x1xf32> {
  %0 = graph.conv %x, %w {strides = [2, 3], pads = [0, 3, 0, 1], dilations = [4, 5]} : tensor<1x8x1x1xf32>
  return %0 : tensor<1x8x1x1xf32>
}

// What is computed element by element is so after the slice, which the same kernel then takes.
// CHECK-LABEL: func.func @elementwise
// CHECK-NEXT: graph.relu
// CHECK-NEXT: %[[S:.*]] = graph.slice %r {starts = [0, 0, 0, 0], steps = [1, 1, 2, 2]} : tensor<1x4x4x3xf32>
// CHECK-NEXT: graph.conv %[[S]], %w : tensor<1x8x4x3xf32>
func.func @elementwise(%x: tensor<1x4x7x6xf32>, %w: tensor<8x4x1x1xf32>) -> tensor<1x8x4x3xf32> {
  %r = graph.relu %x : tensor<1x4x7x6xf32>
  %0 = graph.conv %r, %w {strides = [2, 2]} : tensor<1x8x4x3xf32>
  return %0 : tensor<1x8x4x3xf32>
}

// What else is computed here, or used twice, is read in place, and so are windows of several
// elements.
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
