// RUN: tcopt %s -p fold-scale | filecheck %s

// Scale and shift after a convolution with bias fold into the kernel and a single add.
// CHECK-LABEL: func.func @conv
// CHECK-NEXT: %[[W:.*]] = graph.constant dense<[{{\[\[\[}}2.000000e+00{{.*}}4.000000e+00{{.*}}9.000000e+00{{.*}}1.200000e+01]]]]> : tensor<2x2x1x1xf32>
// CHECK-NEXT: %[[C:.*]] = graph.conv %x, %[[W]] : tensor<1x2x4x4xf32>
// CHECK-NEXT: %[[B:.*]] = graph.constant dense<[{{\[\[}}3.000000e+00]], {{\[\[}}4.000000e+00]]]> : tensor<2x1x1xf32>
// CHECK-NEXT: graph.add %[[C]], %[[B]] : tensor<1x2x4x4xf32>
// CHECK-NEXT: return
func.func @conv(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = graph.constant dense<[[[[1.0]], [[2.0]]], [[[3.0]], [[4.0]]]]> : tensor<2x2x1x1xf32>
  %b = graph.constant dense<1.0> : tensor<2x1x1xf32>
  %s = graph.constant dense<[[[2.0]], [[3.0]]]> : tensor<2x1x1xf32>
  %t = graph.constant dense<1.0> : tensor<f32>
  %0 = graph.conv %x, %w : tensor<1x2x4x4xf32>
  %1 = graph.add %0, %b : tensor<1x2x4x4xf32>
  %2 = graph.mul %1, %s : tensor<1x2x4x4xf32>
  %3 = graph.add %2, %t : tensor<1x2x4x4xf32>
  return %3 : tensor<1x2x4x4xf32>
}

// Division by a constant is a scale; the columns of a matrix are its channels.
// CHECK-LABEL: func.func @matmul
// CHECK-NEXT: %[[W:.*]] = graph.constant dense<{{\[\[}}5.000000e-01, 1.000000e+00], [1.000000e+00, 2.000000e+00]]> : tensor<2x2xf32>
// CHECK-NEXT: graph.matmul %x, %[[W]] : tensor<3x2xf32>
// CHECK-NEXT: return
func.func @matmul(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %w = graph.constant dense<[[1.0, 2.0], [2.0, 4.0]]> : tensor<2x2xf32>
  %s = graph.constant dense<2.0> : tensor<f32>
  %0 = graph.matmul %x, %w : tensor<3x2xf32>
  %1 = graph.div %0, %s : tensor<3x2xf32>
  return %1 : tensor<3x2xf32>
}

// A scale that varies inside a channel stays, and so does one of a value with other users.
// CHECK-LABEL: func.func @not_by_channel
// CHECK: graph.mul
// CHECK: graph.mul
func.func @not_by_channel(%x: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
  %w = graph.constant dense<[[1.0, 2.0], [2.0, 4.0]]> : tensor<2x2xf32>
  %s = graph.constant dense<[[2.0], [3.0]]> : tensor<2x1xf32>
  %t = graph.constant dense<2.0> : tensor<f32>
  %0 = graph.matmul %x, %w : tensor<2x2xf32>
  %1 = graph.mul %0, %s : tensor<2x2xf32>
  %2 = graph.matmul %x, %w {transpose_b} : tensor<2x2xf32>
  %3 = graph.mul %2, %t : tensor<2x2xf32>
  return %1, %2, %3 : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}

// Division by a scalar stays a division: it may be a quantisation scale, where rounding matters.
// CHECK-LABEL: func.func @one_number
// CHECK:         graph.div
func.func @one_number(%x: tensor<f32>) -> tensor<f32> {
  %c = graph.constant dense<255.0> : tensor<f32>
  %0 = graph.div %x, %c : tensor<f32>
  func.return %0 : tensor<f32>
}

// Division by a subnormal stays, because its reciprocal overflows.
// CHECK-LABEL: func.func @tiny_divisor
// CHECK:         graph.div
func.func @tiny_divisor(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = graph.constant dense<1.0e-39> : tensor<f32>
  %0 = graph.div %x, %c : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
