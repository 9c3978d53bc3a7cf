// RUN: tcopt %s -p expand-borders | filecheck %s

// Sides of a later dimension lie between those of the ones before; corners are written once.
// CHECK-LABEL: loop.func @image(%y: memref<2x4x5x4xf32>) {
// CHECK-NEXT:    %[[Z:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:    loop.for %[[C:.*]] = 0 to 2 {
// CHECK-NEXT:      loop.for %[[W:.*]] = 0 to 5 {
// CHECK-NEXT:        loop.for %[[L:.*]] = 0 to 4 vectorized {
// CHECK-NEXT:          loop.store %[[Z]], %y[%[[C]], 0, %[[W]], %[[L]]] : memref<2x4x5x4xf32>
// CHECK:               loop.store %[[Z]], %y[%{{.*}}, 3, %{{.*}}, %{{.*}}] : memref<2x4x5x4xf32>
// CHECK:         loop.for %[[C:.*]] = 0 to 2 {
// CHECK-NEXT:      loop.for %[[H:.*]] = 0 to 2 {
// CHECK-NEXT:        loop.for %[[L:.*]] = 0 to 4 vectorized {
// CHECK-NEXT:          loop.store %[[Z]], %y[%[[C]], %[[H]] + 1, 0, %[[L]]] : memref<2x4x5x4xf32>
// CHECK-NOT:     loop.store
loop.func @image(%y: memref<2x4x5x4xf32>) {
  loop.border %y outside [0 to 2, 1 to 3, 1 to 5, 0 to 4] = 0.0 : memref<2x4x5x4xf32>
}

// A long last dimension is written in vectors and a rest.
// CHECK-LABEL: loop.func @line(%y: memref<20xf32>) {
// CHECK:         loop.for %[[I:.*]] = 0 to 2 {
// CHECK-NEXT:      loop.for %[[L:.*]] = 0 to 4 vectorized {
// CHECK-NEXT:        loop.store %{{.*}}, %y[%[[I]] * 4 + %[[L]]] : memref<20xf32>
// CHECK:         loop.for %[[L:.*]] = 0 to 2 vectorized {
// CHECK-NEXT:      loop.store %{{.*}}, %y[%[[L]] + 8] : memref<20xf32>
// CHECK:         loop.store %{{.*}}, %y[19] : memref<20xf32>
loop.func @line(%y: memref<20xf32>) {
  loop.border %y outside [10 to 19] = -1.0 : memref<20xf32>
}
