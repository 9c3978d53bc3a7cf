// RUN: tcopt %s -p decompose | filecheck %s

// A batch normalization becomes a scale and a shift computed from its parameters.
// CHECK-LABEL: func.func @batch_norm
// CHECK-NEXT: %[[E:.*]] = graph.constant dense<1.000000e-03> : tensor<f32>
// CHECK-NEXT: %[[V:.*]] = graph.add %v, %[[E]] : tensor<8xf32>
// CHECK-NEXT: %[[R:.*]] = graph.rsqrt %[[V]] : tensor<8xf32>
// CHECK-NEXT: %[[F:.*]] = graph.mul %s, %[[R]] : tensor<8xf32>
// CHECK-NEXT: %[[M:.*]] = graph.mul %m, %[[F]] : tensor<8xf32>
// CHECK-NEXT: %[[S:.*]] = graph.sub %b, %[[M]] : tensor<8xf32>
// CHECK-NEXT: %[[FC:.*]] = graph.reshape %[[F]] : tensor<8x1x1xf32>
// CHECK-NEXT: %[[SC:.*]] = graph.reshape %[[S]] : tensor<8x1x1xf32>
// CHECK-NEXT: %[[X:.*]] = graph.mul %x, %[[FC]] : tensor<1x8x4x4xf32>
// CHECK-NEXT: graph.add %[[X]], %[[SC]] : tensor<1x8x4x4xf32>
func.func @batch_norm(%x: tensor<1x8x4x4xf32>, %s: tensor<8xf32>, %b: tensor<8xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>) -> tensor<1x8x4x4xf32> {
  %0 = graph.batch_norm %x, %s, %b, %m, %v {epsilon = 0.001} : tensor<1x8x4x4xf32>
  return %0 : tensor<1x8x4x4xf32>
}

// A global pooling becomes a reduction.
// CHECK-LABEL: func.func @global_pool
// CHECK-NEXT: graph.reduce %x {kind = mean, axes = [2, 3], keepdims} : tensor<1x8x1x1xf32>
func.func @global_pool(%x: tensor<1x8x7x7xf32>) -> tensor<1x8x1x1xf32> {
  %0 = graph.pool %x {kind = average, kernel = [7, 7], strides = [2, 2]} : tensor<1x8x1x1xf32>
  return %0 : tensor<1x8x1x1xf32>
}

// A depthwise 1x1 convolution becomes a multiplication; strides become a slice.
// CHECK-LABEL: func.func @factors
// CHECK-NEXT: %[[X:.*]] = graph.slice %x {starts = [0, 0, 0, 0], steps = [1, 1, 2, 2]} : tensor<1x8x4x4xf32>
// CHECK-NEXT: %[[F:.*]] = graph.reshape %w : tensor<8x1x1xf32>
// CHECK-NEXT: graph.mul %[[X]], %[[F]] : tensor<1x8x4x4xf32>
func.func @factors(%x: tensor<1x8x7x7xf32>, %w: tensor<8x1x1x1xf32>) -> tensor<1x8x4x4xf32> {
  %0 = graph.conv %x, %w {strides = [2, 2], groups = 8} : tensor<1x8x4x4xf32>
  return %0 : tensor<1x8x4x4xf32>
}

// A column-major right operand is transposed if many rows read it.
// CHECK-LABEL: func.func @many_rows
// CHECK-NEXT: %[[T:.*]] = graph.transpose %k {perm = [0, 2, 1]} : tensor<2x64x32xf32>
// CHECK-NEXT: graph.matmul %q, %[[T]] : tensor<2x4x32xf32>
func.func @many_rows(%q: tensor<2x4x64xf32>, %k: tensor<2x32x64xf32>) -> tensor<2x4x32xf32> {
  %0 = graph.matmul %q, %k {transpose_b} : tensor<2x4x32xf32>
  return %0 : tensor<2x4x32xf32>
}

// If few rows read it, only the part of the transpose that does not move the reduction axis is
// done; an operand whose reduction axis stays last is not transposed.
// CHECK-LABEL: func.func @few_rows
// CHECK:      %[[K:.*]] = graph.transpose %k {perm = [0, 2, 1, 3]} : tensor<2x8x32x64xf32>
// CHECK-NEXT: graph.matmul %q, %[[K]] {transpose_b} : tensor<2x8x3x32xf32>
// CHECK-NEXT: graph.matmul %q, %v {transpose_b} : tensor<2x8x3x32xf32>
// CHECK-NEXT: %[[V:.*]] = graph.transpose %v {perm = [1, 0, 2, 3]} : tensor<8x2x32x64xf32>
// CHECK-NEXT: graph.matmul %p, %[[V]] : tensor<8x2x3x64xf32>
func.func @few_rows(%q: tensor<2x8x3x64xf32>, %k: tensor<2x32x8x64xf32>, %v: tensor<2x8x32x64xf32>, %p: tensor<8x2x3x32xf32>) -> (tensor<2x8x3x32xf32>, tensor<2x8x3x32xf32>, tensor<8x2x3x64xf32>) {
  %t = graph.transpose %k {perm = [0, 2, 3, 1]} : tensor<2x8x64x32xf32>
  %0 = graph.matmul %q, %t : tensor<2x8x3x32xf32>
  %1 = graph.matmul %q, %v {transpose_b} : tensor<2x8x3x32xf32>
  %u = graph.transpose %v {perm = [1, 0, 2, 3]} : tensor<8x2x32x64xf32>
  %2 = graph.matmul %p, %u : tensor<8x2x3x64xf32>
  return %0, %1, %2 : tensor<2x8x3x32xf32>, tensor<2x8x3x32xf32>, tensor<8x2x3x64xf32>
}

// A constant right operand is transposed at compile time, however few rows there are.
// CHECK-LABEL: func.func @constant_weights
// CHECK:      %[[T:.*]] = graph.transpose %{{.*}} {perm = [1, 0]} : tensor<2x3xf32>
// CHECK-NEXT: graph.matmul %x, %[[T]] : tensor<1x3xf32>
func.func @constant_weights(%x: tensor<1x2xf32>) -> tensor<1x3xf32> {
  %w = graph.constant dense<1.0> : tensor<3x2xf32>
  %0 = graph.matmul %x, %w {transpose_b} : tensor<1x3xf32>
  return %0 : tensor<1x3xf32>
}

// Other operators are unchanged.
// CHECK-LABEL: func.func @rest
// CHECK-NEXT: graph.pool
// CHECK-NEXT: graph.softmax
func.func @rest(%x: tensor<1x8x7x7xf32>) -> tensor<1x8x3x3xf32> {
  %0 = graph.pool %x {kind = average, kernel = [3, 3], strides = [2, 2]} : tensor<1x8x3x3xf32>
  %1 = graph.softmax %0 {axis = 1} : tensor<1x8x3x3xf32>
  return %1 : tensor<1x8x3x3xf32>
}

// A single non-constant column is read as a transposed row.
// CHECK-LABEL: func.func @column
// CHECK-NEXT: %[[R:.*]] = graph.reshape %v : tensor<1x64xf32>
// CHECK-NEXT: graph.matmul %x, %[[R]] {transpose_b} : tensor<48x1xf32>
func.func @column(%x: tensor<48x64xf32>, %v: tensor<64x1xf32>) -> tensor<48x1xf32> {
  %0 = graph.matmul %x, %v : tensor<48x1xf32>
  return %0 : tensor<48x1xf32>
}

// The tanh of a softplus takes one exponential, even if the softplus has other users.
// CHECK-LABEL: func.func @mish
// CHECK:      %[[T:.*]] = graph.tanh_softplus %x : tensor<8xf32>
// CHECK-NEXT: graph.mul %x, %[[T]] : tensor<8xf32>
func.func @mish(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = graph.softplus %x : tensor<8xf32>
  %1 = graph.tanh %0 : tensor<8xf32>
  %2 = graph.mul %x, %1 : tensor<8xf32>
  return %2, %0 : tensor<8xf32>, tensor<8xf32>
}

// A single constant column is read as a transposed row too.
// CHECK-LABEL: func.func @known_column
// CHECK:      %[[R:.*]] = graph.reshape %w : tensor<1x64xf32>
// CHECK-NEXT: graph.matmul %x, %[[R]] {transpose_b} : tensor<16x1xf32>
func.func @known_column(%x: tensor<16x64xf32>) -> tensor<16x1xf32> {
  %w = graph.constant @w : tensor<64x1xf32>
  %0 = graph.matmul %x, %w : tensor<16x1xf32>
  return %0 : tensor<16x1xf32>
}

// Repeated rows broadcast along a new axis; repeats along the outermost axis alone stay a tile.
// CHECK-LABEL: func.func @tile
// CHECK-NEXT: %0 = graph.reshape %x : tensor<1x2x1x5xf32>
// CHECK-NEXT: %1 = graph.broadcast_to %0 : tensor<3x2x4x5xf32>
// CHECK-NEXT: %y = graph.reshape %1 : tensor<6x20xf32>
// CHECK-NEXT: %z = graph.tile %x {reps = [3, 1]} : tensor<6x5xf32>
func.func @tile(%x: tensor<2x5xf32>) -> (tensor<6x20xf32>, tensor<6x5xf32>) {
  %y = graph.tile %x {reps = [3, 4]} : tensor<6x20xf32>
  %z = graph.tile %x {reps = [3, 1]} : tensor<6x5xf32>
  return %y, %z : tensor<6x20xf32>, tensor<6x5xf32>
}

// Padding of images with few channels last is applied to flattened rows; zero padding needs no such
// form.
// CHECK-LABEL: func.func @pad
// CHECK-NEXT: %0 = graph.reshape %x : tensor<1x8x24xf32>
// CHECK-NEXT: %1 = graph.pad %0 {low = [0, 2, 3], high = [0, 0, 6], mode = reflect, unit = 3} : tensor<1x10x33xf32>
// CHECK-NEXT: %y = graph.reshape %1 : tensor<1x10x11x3xf32>
// CHECK-NEXT: %z = graph.pad %x
func.func @pad(%x: tensor<1x8x8x3xf32>) -> (tensor<1x10x11x3xf32>, tensor<1x8x10x3xf32>) {
  %y = graph.pad %x {low = [0, 2, 1, 0], high = [0, 0, 2, 0], mode = reflect} : tensor<1x10x11x3xf32>
  %z = graph.pad %x {low = [0, 0, 1, 0], high = [0, 0, 1, 0]} : tensor<1x8x10x3xf32>
  return %y, %z : tensor<1x10x11x3xf32>, tensor<1x8x10x3xf32>
}
