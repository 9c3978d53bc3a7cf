// RUN: tcopt %s --load %p/custom_pass.py -p raise-silu | filecheck %s

// The product of a value and its sigmoid becomes a silu.
// CHECK-LABEL: func.func @same
// CHECK-NEXT: graph.sigmoid %x : tensor<4x8xf32>
// CHECK-NEXT: graph.silu %x : tensor<4x8xf32>
func.func @same(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = graph.sigmoid %x : tensor<4x8xf32>
  %1 = graph.mul %x, %0 : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// The gate of another value stays a product.
// CHECK-LABEL: func.func @other
// CHECK-NEXT: graph.sigmoid %x : tensor<4x8xf32>
// CHECK-NEXT: graph.mul %y, %{{.*}} : tensor<4x8xf32>
func.func @other(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = graph.sigmoid %x : tensor<4x8xf32>
  %1 = graph.mul %y, %0 : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
