// RUN: tcopt %s -p 'set-target{cpu=haswell},separate-pools' | filecheck %s
// RUN: tcopt %s -p 'set-target{gpu=opencl},separate-pools' | filecheck %s --check-prefix=GPU

// Rows are pooled first, then columns; the rounding up of the output size is preserved.
// CHECK-LABEL: func.func @maximum
// CHECK-NEXT: %[[R:.*]] = graph.pool %x {kind = max, kernel = [5, 1], strides = [2, 1], pads = [2, 0, 1, 0]} : tensor<1x8x8x16xf32>
// CHECK-NEXT: %y = graph.pool %[[R]] {kind = max, kernel = [1, 5], strides = [1, 2], pads = [0, 2, 0, 1]} : tensor<1x8x8x8xf32>
// GPU-LABEL: func.func @maximum
// GPU: kernel = [5, 5]
func.func @maximum(%x: tensor<1x8x16x16xf32>) -> tensor<1x8x8x8xf32> {
  %y = graph.pool %x {kind = max, kernel = [5, 5], strides = [2, 2], pads = [2, 2, 1, 1]} : tensor<1x8x8x8xf32>
  return %y : tensor<1x8x8x8xf32>
}

// Averages of averages count the same elements.
// CHECK-LABEL: func.func @average
// CHECK-NEXT: %[[R:.*]] = graph.pool %x {kind = average, kernel = [3, 3, 1], pads = [1, 1, 0, 1, 1, 0]} : tensor<1x8x6x6x6xf32>
// CHECK-NEXT: graph.pool %[[R]] {kind = average, kernel = [1, 1, 3], pads = [0, 0, 1, 0, 0, 1]} : tensor<1x8x6x6x6xf32>
func.func @average(%x: tensor<1x8x6x6x6xf32>) -> tensor<1x8x6x6x6xf32> {
  %y = graph.pool %x {kind = average, kernel = [3, 3, 3], pads = [1, 1, 1, 1, 1, 1]} : tensor<1x8x6x6x6xf32>
  return %y : tensor<1x8x6x6x6xf32>
}

// Small windows stay, as do strides without overlap and sums that would be rounded twice.
// CHECK-LABEL: func.func @kept
// CHECK: kernel = [2, 2]
// CHECK: kernel = [3, 3]
// CHECK: kernel = [5, 5]
func.func @kept(%x: tensor<1x8x16x16xf32>, %h: tensor<1x8x16x16xf16>) -> (tensor<1x8x15x15xf32>, tensor<1x8x7x7xf32>, tensor<1x8x12x12xf16>) {
  %a = graph.pool %x {kind = max, kernel = [2, 2]} : tensor<1x8x15x15xf32>
  %b = graph.pool %x {kind = max, kernel = [3, 3], strides = [2, 2]} : tensor<1x8x7x7xf32>
  %c = graph.pool %h {kind = average, kernel = [5, 5]} : tensor<1x8x12x12xf16>
  return %a, %b, %c : tensor<1x8x15x15xf32>, tensor<1x8x7x7xf32>, tensor<1x8x12x12xf16>
}

// A pooling in an existing group is unchanged.
// CHECK-LABEL: func.func @placed
// CHECK: kernel = [5, 5]
func.func @placed(%x: tensor<1x8x16x16xf32>) -> tensor<1x8x12x12xf32> {
  %g = graph.group kind = complex_out_fusable {
    %y = graph.pool %x {kind = max, kernel = [5, 5]} : tensor<1x8x12x12xf32>
    graph.yield %y : tensor<1x8x12x12xf32>
  } : tensor<1x8x12x12xf32>
  return %g : tensor<1x8x12x12xf32>
}
