// RUN: tcopt %s -p merge-axes --split-input-file | filecheck %s

// Axes that all reads traverse together merge, and axes of extent 1 disappear.
// CHECK-LABEL: te.func @scale(%x: tensor<8x16xf32>, %b: tensor<8xf32>) -> tensor<8x16xf32> {
// CHECK-NEXT:    %y = te.compute "y" [%c = 8, %h_w = 16] : tensor<8x16xf32> {
// CHECK-NEXT:      te.read %x[%c, %h_w] : tensor<8x16xf32>
// CHECK-NEXT:      te.read %b[%c] : tensor<8xf32>
// CHECK-LABEL: func.func @main
// CHECK-DAG:     [[X:%.*]] = graph.reshape %x : tensor<8x16xf32>
// CHECK-DAG:     [[B:%.*]] = graph.reshape %b : tensor<8xf32>
// CHECK:         [[Y:%.*]] = te.call @scale([[X]], [[B]]) : (tensor<8x16xf32>, tensor<8xf32>) -> tensor<8x16xf32>
// CHECK-NEXT:    graph.reshape [[Y]] : tensor<1x8x4x4xf32>
te.func @scale(%x: tensor<1x8x4x4xf32>, %b: tensor<8x1x1xf32>) -> tensor<1x8x4x4xf32> {
  %y = te.compute "y" [%n = 1, %c = 8, %h = 4, %w = 4] : tensor<1x8x4x4xf32> {
    %0 = te.read %x[%n, %c, %h, %w] : tensor<1x8x4x4xf32>
    %1 = te.read %b[%c, 0, 0] : tensor<8x1x1xf32>
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  }
  te.return %y : tensor<1x8x4x4xf32>
}
func.func @main(%x: tensor<1x8x4x4xf32>, %b: tensor<8x1x1xf32>) -> tensor<1x8x4x4xf32> {
  %y = te.call @scale(%x, %b) : (tensor<1x8x4x4xf32>, tensor<8x1x1xf32>) -> tensor<1x8x4x4xf32>
  func.return %y : tensor<1x8x4x4xf32>
}

// -----

// Reduce axes merge with each other, not with spatial ones.
// CHECK-LABEL: te.func @mean(%x: tensor<8x16xf32>) -> tensor<8xf32> {
// CHECK-NEXT:    te.compute "s" [%c = 8] reduce [%h_w = 16] sum : tensor<8xf32> {
// CHECK-NEXT:      te.read %x[%c, %h_w] : tensor<8x16xf32>
te.func @mean(%x: tensor<8x4x4xf32>) -> tensor<8xf32> {
  %s = te.compute "s" [%c = 8] reduce [%h = 4, %w = 4] sum : tensor<8xf32> {
    %0 = te.read %x[%c, %h, %w] : tensor<8x4x4xf32>
    te.yield %0 : f32
  }
  te.return %s : tensor<8xf32>
}

// -----

// A slice of the outer axis becomes an offset in the merged one; a transpose keeps its axes
// separate.
// CHECK-LABEL: te.func @slice(%x: tensor<40xf32>) -> tensor<20xf32> {
// CHECK:           te.read %x[%i_j + 5] : tensor<40xf32>
// CHECK-LABEL: te.func @transpose(%x: tensor<8x5x6xf32>) -> tensor<5x8x6xf32> {
// CHECK-NEXT:    te.compute "t" [%i = 5, %j = 8, %k_l = 6] : tensor<5x8x6xf32> {
// CHECK-NEXT:      te.read %x[%j, %i, %k_l] : tensor<8x5x6xf32>
te.func @slice(%x: tensor<8x5xf32>) -> tensor<4x5xf32> {
  %y = te.compute "y" [%i = 4, %j = 5] : tensor<4x5xf32> {
    %0 = te.read %x[%i + 1, %j] : tensor<8x5xf32>
    te.yield %0 : f32
  }
  te.return %y : tensor<4x5xf32>
}
te.func @transpose(%x: tensor<8x5x2x3xf32>) -> tensor<5x8x2x3xf32> {
  %t = te.compute "t" [%i = 5, %j = 8, %k = 2, %l = 3] : tensor<5x8x2x3xf32> {
    %0 = te.read %x[%j, %i, %k, %l] : tensor<8x5x2x3xf32>
    te.yield %0 : f32
  }
  te.return %t : tensor<5x8x2x3xf32>
}

// -----

// Axes that one stage keeps separate are separate in all: the sum needs its own rows.
// CHECK-LABEL: te.func @rows(%x: tensor<4x6xf32>) -> tensor<4xf32> {
// CHECK:         te.compute "twice" [%i = 4, %j_k = 6]
// CHECK:         te.compute "sum" [%i = 4] reduce [%j_k = 6] sum
te.func @rows(%x: tensor<4x2x3xf32>) -> tensor<4xf32> {
  %t = te.compute "twice" [%i = 4, %j = 2, %k = 3] : tensor<4x2x3xf32> {
    %0 = te.read %x[%i, %j, %k] : tensor<4x2x3xf32>
    %1 = arith.addf %0, %0 : f32
    te.yield %1 : f32
  }
  %s = te.compute "sum" [%i = 4] reduce [%j = 2, %k = 3] sum : tensor<4xf32> {
    %0 = te.read %t[%i, %j, %k] : tensor<4x2x3xf32>
    te.yield %0 : f32
  }
  te.return %s : tensor<4xf32>
}

// -----

// Padding, slices of an inner axis, and axes used as values prevent merging.
// CHECK-LABEL: te.func @kept(%x: tensor<4x5xf32>) -> tensor<6x5xf32> {
// CHECK:         te.compute "pad" [%i = 6, %j = 5]
// CHECK:         te.compute "y" [%i = 6, %j = 5]
te.func @kept(%x: tensor<4x5xf32>) -> tensor<6x5xf32> {
  %p = te.compute "pad" [%i = 6, %j = 5] : tensor<6x5xf32> {
    %0 = te.read %x[%i - 1, %j] else 0.0 : tensor<4x5xf32>
    te.yield %0 : f32
  }
  %y = te.compute "y" [%i = 6, %j = 5] : tensor<6x5xf32> {
    %0 = te.read %p[%i, %j] : tensor<6x5xf32>
    %1 = arith.index_cast %j : index to i32
    %2 = arith.sitofp %1 : i32 to f32
    %3 = arith.addf %0, %2 : f32
    te.yield %3 : f32
  }
  te.return %y : tensor<6x5xf32>
}

// -----

// Contractions merge only the two innermost axes, along which vectors are.
// CHECK-LABEL: te.func @pixels(%x: tensor<4x12xf32>, %w: tensor<2x4x1x1xf32>) -> tensor<1x2x12xf32> {
// CHECK-NEXT:    te.compute "s" [%n = 1, %o = 2, %y_{{.*}} = 12] reduce [%c = 4] sum : tensor<1x2x12xf32> {
// CHECK-NEXT:      te.read %x[%c, %y_{{.*}}] : tensor<4x12xf32>
// CHECK-NEXT:      te.read %w[%o, %c, 0, 0] : tensor<2x4x1x1xf32>
te.func @pixels(%x: tensor<4x3x4xf32>, %w: tensor<2x4x1x1xf32>) -> tensor<1x2x3x4xf32> {
  %s = te.compute "s" [%n = 1, %o = 2, %y = 3, %x0 = 4] reduce [%c = 4] sum : tensor<1x2x3x4xf32> {
    %0 = te.read %x[%c, %y, %x0] : tensor<4x3x4xf32>
    %1 = te.read %w[%o, %c, 0, 0] : tensor<2x4x1x1xf32>
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  }
  te.return %s : tensor<1x2x3x4xf32>
}

// -----

// Reduce axes of contractions stay separate.
// CHECK-LABEL: te.func @product(%x: tensor<2x3x4xf32>, %w: tensor<2x3x4xf32>) -> tensor<2xf32> {
te.func @product(%x: tensor<2x3x4xf32>, %w: tensor<2x3x4xf32>) -> tensor<2xf32> {
  %s = te.compute "s" [%i = 2] reduce [%j = 3, %k = 4] sum : tensor<2xf32> {
    %0 = te.read %x[%i, %j, %k] : tensor<2x3x4xf32>
    %1 = te.read %w[%i, %j, %k] : tensor<2x3x4xf32>
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  }
  te.return %s : tensor<2xf32>
}

// -----

// Accelerator memories have entries of fixed size, so axes stay separate.
// CHECK-LABEL: te.func @in_entries(%x: tensor<8x16xi8>) -> tensor<8x16xi32>
te.func @in_entries(%x: tensor<8x16xi8>) -> tensor<8x16xi32> attributes {tcopt.target = #target.vdla<results = "i8", features = "alu,load_i8", inp_bytes = 2048, wgt_bytes = 8192, acc_bytes = 8192, uop_bytes = 1024>} {
  %c = te.compute "c" [%i = 8, %j = 16] : tensor<8x16xi32> {
    %0 = te.read %x[%i, %j] : tensor<8x16xi8>
    %1 = arith.extsi %0 : i8 to i32
    te.yield %1 : i32
  }
  te.return %c : tensor<8x16xi32>
}

// -----

// All rows of a matrix product are one axis for threads.
// CHECK-LABEL: te.func @rows(%x: tensor<1120x16xf32>, %w: tensor<16x8xf32>, %b: tensor<8xf32>) -> tensor<1120x8xf32> {
module attributes {tcopt.target = #target.gpu<api = "cuda", arch = "sm_80", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
te.func @rows(%x: tensor<35x32x16xf32>, %w: tensor<16x8xf32>, %b: tensor<8xf32>) -> tensor<35x32x8xf32> {
  %m = te.compute "m" [%i = 35, %j = 32, %n = 8] reduce [%k = 16] sum : tensor<35x32x8xf32> {
    %0 = te.read %x[%i, %j, %k] : tensor<35x32x16xf32>
    %1 = te.read %w[%k, %n] : tensor<16x8xf32>
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  }
  %y = te.compute "y" [%i = 35, %j = 32, %n = 8] : tensor<35x32x8xf32> {
    %0 = te.read %m[%i, %j, %n] : tensor<35x32x8xf32>
    %1 = te.read %b[%n] : tensor<8xf32>
    %2 = arith.addf %0, %1 : f32
    te.yield %2 : f32
  }
  te.return %y : tensor<35x32x8xf32>
}
}
