// RUN: tcopt %s -p expand-borders | filecheck %s

// The sides of a dimension cover only the interior of earlier ones, so corners are written once.
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

// A long last dimension is written in vectors and a remainder.
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

// A parallel loop that stores to the buffer also writes the border next to its elements.
// CHECK-LABEL: loop.func @planes(
// CHECK:         loop.for %[[I:.*]] = 0 to 4 parallel {
// CHECK:           %[[Z:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      loop.for %[[L:.*]] = 0 to 4 vectorized {
// CHECK-NEXT:        loop.store %[[Z]], %y[%[[I]], 0, %[[L]]] : memref<4x5x4xf32>
// CHECK:             loop.store %[[Z]], %y[%[[I]], 4, %{{.*}}] : memref<4x5x4xf32>
// CHECK-NOT:     loop.for
loop.func @planes(%x: memref<4x3x4xf32>, %y: memref<4x5x4xf32>) {
  loop.for %i = 0 to 4 parallel {
    loop.for %j = 0 to 3 {
      loop.for %l = 0 to 4 {
        %0 = loop.load %x[%i, %j, %l] : memref<4x3x4xf32>
        loop.store %0, %y[%i, %j + 1, %l] : memref<4x5x4xf32>
      }
    }
  }
  loop.border %y outside [0 to 4, 1 to 4, 0 to 4] = 0.0 : memref<4x5x4xf32>
}

// If there are more iterations than planes, the rows of a plane are divided among them; excess
// iterations are idle.
// CHECK-LABEL: loop.func @rows(
// CHECK:         loop.for %[[I:.*]] = 0 to 7 parallel {
// CHECK:           loop.guard ([%[[I]] floordiv 3] in 2) {
// CHECK-NEXT:        loop.for %[[R:.*]] = 0 to 3 {
// CHECK-NEXT:          loop.guard ([%[[R]] * 3 + %[[I]] mod 3] in 7) {
// CHECK-NEXT:            loop.for %[[L:.*]] = 0 to 4 vectorized {
// CHECK-NEXT:              loop.store %{{.*}}, %y[%[[I]] floordiv 3, %[[R]] * 3 + %[[I]] mod 3, 0, %[[L]]]
loop.func @rows(%x: memref<2x7x4xf32>, %y: memref<2x7x8x4xf32>) {
  loop.for %i = 0 to 7 parallel {
    loop.for %l = 0 to 4 {
      %0 = loop.load %x[0, %i, %l] : memref<2x7x4xf32>
      loop.store %0, %y[0, %i, 0, %l] : memref<2x7x8x4xf32>
    }
  }
  loop.border %y outside [0 to 2, 0 to 7, 1 to 8, 0 to 4] = 0.0 : memref<2x7x8x4xf32>
}

// If there are fewer iterations than planes, each takes several; a single line is written by one of
// them.
// CHECK-LABEL: loop.func @few(
// CHECK:         loop.for %[[I:.*]] = 0 to 3 parallel {
// CHECK:           loop.for %[[K:.*]] = 0 to 2 {
// CHECK-NEXT:        loop.guard ([%[[K]] * 3 + %[[I]]] in 5) {
// CHECK-NEXT:          loop.for %[[L:.*]] = 0 to 4 vectorized {
// CHECK-NEXT:            loop.store %{{.*}}, %y[%[[K]] * 3 + %[[I]], 1, %[[L]]] : memref<5x2x4xf32>
// CHECK:           loop.guard ([%[[I]]] in 1) {
// CHECK-NEXT:        loop.for %[[L:.*]] = 0 to 4 vectorized {
// CHECK-NEXT:          loop.store %{{.*}}, %z[%[[L]] + 4] : memref<8xf32>
loop.func @few(%x: memref<5x4xf32>, %y: memref<5x2x4xf32>, %z: memref<8xf32>) {
  loop.for %i = 0 to 3 parallel {
    loop.for %l = 0 to 4 {
      %0 = loop.load %x[%i, %l] : memref<5x4xf32>
      loop.store %0, %y[%i, 0, %l] : memref<5x2x4xf32>
      loop.store %0, %z[%l] : memref<8xf32>
    }
  }
  loop.border %y outside [0 to 5, 0 to 1, 0 to 4] = 0.0 : memref<5x2x4xf32>
  loop.border %z outside [0 to 4] = 0.0 : memref<8xf32>
}

// Borders end with the sizes of the buffer.
// CHECK-LABEL: loop.func @sized(
// CHECK:         loop.for %[[N:.*]] = 0 to 8 limit %{{.*}} {
// CHECK:           loop.store %{{.*}}, %y[%[[N]], 0, %{{.*}}]
// CHECK:         %[[END:.*]] = loop.index [%s0]
// CHECK-NEXT:    loop.for %[[N:.*]] = 0 to 8 limit %[[END]] {
// CHECK:           %[[WIDTH:.*]] = loop.index [%s1 + 2]
// CHECK-NEXT:      loop.for %[[I:.*]] = 0 to 7 limit %[[WIDTH]] {
// CHECK-NEXT:        loop.store %{{.*}}, %y[%[[N]], 4, %[[I]]]
// CHECK:           loop.store %{{.*}}, %y[%{{.*}}, %{{.*}}, %s1 + 1]
loop.func @sized(%y: memref<8x5x7xf32, #size.dims<s0[1:8], 5, s1[1:5] + 2>>, %s0: index, %s1: index)
    attributes {size.symbols = #size.dims<s0[1:8], s1[1:5]>} {
  loop.border %y outside [0 to s0[1:8], 1 to 4, 1 to s1[1:5] + 1] = 0.0
    : memref<8x5x7xf32, #size.dims<s0[1:8], 5, s1[1:5] + 2>>
}
