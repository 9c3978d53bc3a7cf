// RUN: tcopt %s -p split-reductions --split-input-file | filecheck %s

// A sum in four parts: a new axis indexes the parts, and a second sum reduces it.
// CHECK-LABEL: func.func @sum
// CHECK:       [[V:%.+]] = graph.reshape %x {{.*}}: tensor<4x16384xf32>
// CHECK-NEXT:  [[P:%.+]] = graph.reduce [[V]] {kind = sum, axes = [1]} : tensor<4xf32>
// CHECK-NEXT:  graph.reduce [[P]] {kind = sum, axes = [0]} : tensor<f32>
// CHECK-NOT:   tune.parts
func.func @sum(%x: tensor<65536xf32>) -> tensor<f32> {
  %0 = graph.reduce %x {kind = sum, axes = [0], tune.parts = 4} : tensor<f32>
  return %0 : tensor<f32>
}

// -----

// The longest axis is split; squares apply to the elements only, and kept dimensions stay.
// CHECK-LABEL: func.func @squares
// CHECK:       graph.reshape %x {{.*}}: tensor<3x8x2x5000xf32>
// CHECK-NEXT:  graph.reduce %{{.*}} {kind = sum_square, axes = [1, 3]} : tensor<3x2xf32>
// CHECK-NEXT:  graph.reduce %{{.*}} {kind = sum, axes = [1]} : tensor<3xf32>
// CHECK-NEXT:  graph.reshape %{{.*}} : tensor<3x1x1xf32>
func.func @squares(%x: tensor<3x8x10000xf32>) -> tensor<3x1x1xf32> {
  %0 = graph.reduce %x {kind = sum_square, axes = [1, 2], keepdims, tune.parts = 2} : tensor<3x1x1xf32>
  return %0 : tensor<3x1x1xf32>
}

// -----

// Reductions that do not divide evenly, have another type or are not selected are unchanged.
// CHECK-LABEL: func.func @whole
// CHECK-NEXT:  graph.reduce %x {kind = sum, axes = [0]} : tensor<f32>
// CHECK-NEXT:  graph.reduce %h {kind = sum, axes = [0]} : tensor<f16>
// CHECK-NEXT:  graph.reduce %x {kind = log_sum_exp, axes = [0]} : tensor<f32>
// CHECK-NEXT:  graph.reduce %x {kind = max, axes = [0]} : tensor<f32>
// CHECK-NEXT:  graph.reduce %x {kind = min, axes = [0]} : tensor<f32>
func.func @whole(%x: tensor<65537xf32>, %h: tensor<65536xf16>)
    -> (tensor<f32>, tensor<f16>, tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = graph.reduce %x {kind = sum, axes = [0], tune.parts = 4} : tensor<f32>
  %1 = graph.reduce %h {kind = sum, axes = [0], tune.parts = 4} : tensor<f16>
  %2 = graph.reduce %x {kind = log_sum_exp, axes = [0], tune.parts = 4} : tensor<f32>
  %3 = graph.reduce %x {kind = max, axes = [0], tune.parts = 1} : tensor<f32>
  %4 = graph.reduce %x {kind = min, axes = [0]} : tensor<f32>
  return %0, %1, %2, %3, %4 : tensor<f32>, tensor<f16>, tensor<f32>, tensor<f32>, tensor<f32>
}
