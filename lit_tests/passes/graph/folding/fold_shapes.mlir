// RUN: tcopt %s -p fold-shapes | filecheck %s

// Consecutive reshapes merge; an unsqueeze of a squeeze cancels.
// CHECK-LABEL: func.func @reshapes
// CHECK-NEXT: return %x
func.func @reshapes(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = graph.reshape %x : tensor<2x1x3xf32>
  %1 = graph.transpose %0 {perm = [1, 0, 2]} : tensor<1x2x3xf32>
  %2 = graph.reshape %1 : tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
}

// An explicit broadcast before an elementwise operator is removed, because the operator broadcasts.
// CHECK-LABEL: func.func @broadcast
// CHECK-NEXT: graph.mul %x, %s : tensor<4x8xf32>
func.func @broadcast(%x: tensor<4x8xf32>, %s: tensor<8xf32>) -> tensor<4x8xf32> {
  %0 = graph.broadcast_to %s : tensor<4x8xf32>
  %1 = graph.mul %x, %0 : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// A broadcast that determines the result's shape stays; of two, one is removed.
// CHECK-LABEL: func.func @needed
// CHECK-NEXT: %[[B:.*]] = graph.broadcast_to %t : tensor<4x8xf32>
// CHECK-NEXT: graph.mul %s, %[[B]] : tensor<4x8xf32>
func.func @needed(%s: tensor<8xf32>, %t: tensor<8xf32>) -> tensor<4x8xf32> {
  %0 = graph.broadcast_to %s : tensor<4x8xf32>
  %1 = graph.broadcast_to %t : tensor<4x8xf32>
  %2 = graph.mul %0, %1 : tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// A reshape moves after a unary operator that can fuse with the matmul before it.
// CHECK-LABEL: func.func @sink
// CHECK-NEXT: %[[M:.*]] = graph.matmul %x, %w : tensor<4x6xf32>
// CHECK-NEXT: %[[R:.*]] = graph.relu %[[M]] : tensor<4x6xf32>
// CHECK-NEXT: graph.reshape %[[R]] : tensor<2x2x6xf32>
func.func @sink(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> tensor<2x2x6xf32> {
  %0 = graph.matmul %x, %w : tensor<4x6xf32>
  %1 = graph.reshape %0 : tensor<2x2x6xf32>
  %2 = graph.relu %1 : tensor<2x2x6xf32>
  return %2 : tensor<2x2x6xf32>
}
