// RUN: tcopt %s --verify-diagnostics --split-input-file | filecheck %s
// RUN: tcopt %s -p fold-constants --verify-diagnostics --split-input-file | filecheck %s --check-prefix=FOLD

// A convolution with 3 x 3 windows of two channels has sums of 18 products.
// CHECK: %y = graph.window_matmul %x, %w {kernel = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]} : tensor<2x5x4x4xf32>
func.func @strided(%x: tensor<2x2x8x8xf32>, %w: tensor<1x5x18xf32>) -> tensor<2x5x4x4xf32> {
  %y = graph.window_matmul %x, %w {kernel = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]} : tensor<2x5x4x4xf32>
  return %y : tensor<2x5x4x4xf32>
}

// -----

// Each of two phases along the second dimension has weights of its own.
// CHECK: %y = graph.window_matmul %x, %w {kernel = [1, 2], phases = [1, 2], starts = [0, 1]} : tensor<1x6x4x2xf32>
func.func @phases(%x: tensor<1x3x4x4xf32>, %w: tensor<2x3x6xf32>) -> tensor<1x6x4x2xf32> {
  %y = graph.window_matmul %x, %w {kernel = [1, 2], phases = [1, 2], starts = [0, 1]} : tensor<1x6x4x2xf32>
  return %y : tensor<1x6x4x2xf32>
}

// -----

// CHECK: weights [1, 5, 17] should be [1, O, 18]
func.func @depth(%x: tensor<2x2x8x8xf32>, %w: tensor<1x5x17xf32>) -> tensor<2x5x6x6xf32> {
  %y = graph.window_matmul %x, %w {kernel = [3, 3]} : tensor<2x5x6x6xf32>
  return %y : tensor<2x5x6x6xf32>
}

// -----

// CHECK: kernel and phases do not fit data of rank 4
func.func @rank(%x: tensor<2x2x8x8xf32>, %w: tensor<1x5x6xf32>) -> tensor<2x5x6x8xf32> {
  %y = graph.window_matmul %x, %w {kernel = [3]} : tensor<2x5x6x8xf32>
  return %y : tensor<2x5x6x8xf32>
}

// -----

// CHECK: starts [0, 2] are not phases of [1, 2]
func.func @starts(%x: tensor<1x3x4x4xf32>, %w: tensor<2x3x6xf32>) -> tensor<1x6x4x2xf32> {
  %y = graph.window_matmul %x, %w {kernel = [1, 2], phases = [1, 2], starts = [0, 2]} : tensor<1x6x4x2xf32>
  return %y : tensor<1x6x4x2xf32>
}

// -----

// Constant operands are folded.
// FOLD-LABEL: func.func @constants
// FOLD-NEXT: graph.constant dense<1.100000e+01> : tensor<1x1x1xf32>
func.func @constants() -> tensor<1x1x1xf32> {
  %x = graph.constant dense<[[[1.0, 2.0]]]> : tensor<1x1x2xf32>
  %w = graph.constant dense<[[[3.0, 4.0]]]> : tensor<1x1x2xf32>
  %y = graph.window_matmul %x, %w {kernel = [2]} : tensor<1x1x1xf32>
  return %y : tensor<1x1x1xf32>
}
