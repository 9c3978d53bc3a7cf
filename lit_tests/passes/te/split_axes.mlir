// RUN: tcopt %s -p split-axes --split-input-file | filecheck %s

// Channels whose group is read become a group axis and a channel axis, in users and results too.
// CHECK-LABEL: te.func @conv(%x: tensor<8x9xf32>, %w: tensor<6x4xf32>, %b: tensor<6xf32>) -> tensor<2x3x9xf32> {
// CHECK-NEXT:    %conv = te.compute "conv" [%o = 2, %oi = 3, %p = 9] reduce [%c = 4] sum : tensor<2x3x9xf32> {
// CHECK-NEXT:      te.read %x[%o * 4 + %c, %p] : tensor<8x9xf32>
// CHECK-NEXT:      te.read %w[%o * 3 + %oi, %c] : tensor<6x4xf32>
// CHECK:         %add = te.compute "add" [%i = 2, %ii = 3, %p = 9] : tensor<2x3x9xf32> {
// CHECK-NEXT:      te.read %conv[%i, %ii, %p] : tensor<2x3x9xf32>
// CHECK-NEXT:      te.read %b[%i * 3 + %ii] : tensor<6xf32>
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    [[Y:%.*]] = te.call @conv(%x, %w, %b) : {{.*}} -> tensor<2x3x9xf32>
// CHECK-NEXT:    graph.reshape [[Y]] : tensor<6x9xf32>
te.func @conv(%x: tensor<8x9xf32>, %w: tensor<6x4xf32>, %b: tensor<6xf32>) -> tensor<6x9xf32> {
  %conv = te.compute "conv" [%o = 6, %p = 9] reduce [%c = 4] sum : tensor<6x9xf32> {
    %0 = te.read %x[%o floordiv 3 * 4 + %c, %p] : tensor<8x9xf32>
    %1 = te.read %w[%o, %c] : tensor<6x4xf32>
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  }
  %add = te.compute "add" [%i = 6, %p = 9] : tensor<6x9xf32> {
    %0 = te.read %conv[%i, %p] : tensor<6x9xf32>
    %1 = te.read %b[%i] : tensor<6xf32>
    %2 = arith.addf %0, %1 : f32
    te.yield %2 : f32
  }
  te.return %add : tensor<6x9xf32>
}
func.func @main(%x: tensor<8x9xf32>, %w: tensor<6x4xf32>, %b: tensor<6xf32>) -> tensor<6x9xf32> {
  %y = te.call @conv(%x, %w, %b) : (tensor<8x9xf32>, tensor<6x4xf32>, tensor<6xf32>) -> tensor<6x9xf32>
  func.return %y : tensor<6x9xf32>
}

// -----

// A border around the result keeps its guarded reads; an axis that its group size does not divide
// is not split.
// CHECK-LABEL: te.func @border(
// CHECK:         te.compute "conv" [%o = 2, %oi = 2, %p = 4]
// CHECK:         te.compute "pad" [%o = 2, %oi = 2, %p = 6] : tensor<2x2x6xf32> {
// CHECK-NEXT:      te.read %conv[%o, %oi, %p - 1] else 0.000000e+00 : tensor<2x2x4xf32>
// CHECK-LABEL: te.func @uneven(
// CHECK-NEXT:    te.compute "conv" [%o = 5, %p = 4]
te.func @border(%x: tensor<2x4xf32>, %w: tensor<4x1xf32>) -> tensor<4x6xf32> {
  %conv = te.compute "conv" [%o = 4, %p = 4] reduce [%c = 1] sum : tensor<4x4xf32> {
    %0 = te.read %x[%o floordiv 2 + %c, %p] : tensor<2x4xf32>
    %1 = te.read %w[%o, %c] : tensor<4x1xf32>
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  }
  %pad = te.compute "pad" [%o = 4, %p = 6] : tensor<4x6xf32> {
    %0 = te.read %conv[%o, %p - 1] else 0.0 : tensor<4x4xf32>
    te.yield %0 : f32
  }
  te.return %pad : tensor<4x6xf32>
}
te.func @uneven(%x: tensor<3x4xf32>, %w: tensor<5x1xf32>) -> tensor<5x4xf32> {
  %conv = te.compute "conv" [%o = 5, %p = 4] reduce [%c = 1] sum : tensor<5x4xf32> {
    %0 = te.read %x[%o floordiv 2 + %c, %p] : tensor<3x4xf32>
    %1 = te.read %w[%o, %c] : tensor<5x1xf32>
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  }
  te.return %conv : tensor<5x4xf32>
}

// -----

// Stages that are not contractions keep their axes.
// CHECK-LABEL: te.func @spread(
// CHECK-NEXT:    te.compute "y" [%i = 6]
te.func @spread(%x: tensor<2xf32>) -> tensor<6xf32> {
  %y = te.compute "y" [%i = 6] : tensor<6xf32> {
    %0 = te.read %x[%i floordiv 3] : tensor<2xf32>
    te.yield %0 : f32
  }
  te.return %y : tensor<6xf32>
}

// -----

// Columns of a matrix in panels are not split: their remainder is an index too.
// CHECK-LABEL: te.func @panels(
// CHECK-NEXT:    te.compute "y" [%i = 2, %j = 6] reduce [%k = 4] sum : tensor<2x6xf32>
te.func @panels(%x: tensor<2x4xf32>, %w: tensor<2x4x3xf32>) -> tensor<2x6xf32> {
  %y = te.compute "y" [%i = 2, %j = 6] reduce [%k = 4] sum : tensor<2x6xf32> {
    %0 = te.read %x[%i, %k] : tensor<2x4xf32>
    %1 = te.read %w[%j floordiv 3, %k, %j mod 3] : tensor<2x4x3xf32>
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  }
  te.return %y : tensor<2x6xf32>
}
