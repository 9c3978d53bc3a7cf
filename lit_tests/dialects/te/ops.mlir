// RUN: tcopt %s | tcopt | filecheck %s
// RUN: tcopt %s --print-op-generic | tcopt | filecheck %s

// A stage has named axes; a reduction folds its terms with a combiner.
// CHECK-LABEL: te.func @fc(%x: tensor<1x512xf32>, %w: tensor<1000x512xf32>) -> tensor<1x1000xf32> {
// CHECK-NEXT:    %mm = te.compute "mm" [%i = 1, %j = 1000] reduce [%k = 512] sum : tensor<1x1000xf32> {
// CHECK-NEXT:      %l = te.read %x[%i, %k] : tensor<1x512xf32>
// CHECK-NEXT:      %r = te.read %w[%j, %k] : tensor<1000x512xf32>
// CHECK-NEXT:      %p = arith.mulf %l, %r : f32
// CHECK-NEXT:      te.yield %p : f32
// CHECK-NEXT:    }
// CHECK-NEXT:    te.return %mm : tensor<1x1000xf32>
// CHECK-NEXT:  }
te.func @fc(%x: tensor<1x512xf32>, %w: tensor<1000x512xf32>) -> tensor<1x1000xf32> {
  %mm = te.compute "mm" [%i = 1, %j = 1000] reduce [%k = 512] sum : tensor<1x1000xf32> {
    %l = te.read %x[%i, %k] : tensor<1x512xf32>
    %r = te.read %w[%j, %k + 0] : tensor<1000x512xf32>
    %p = arith.mulf %l, %r : f32
    te.yield %p : f32
  }
  te.return %mm : tensor<1x1000xf32>
}

// A guarded read returns its default out of bounds; defaults may be infinite.
// CHECK-LABEL: te.func @pad
// CHECK:         te.read %x[%h - 1] else 5.000000e-01 : tensor<8xf32>
// CHECK:         te.read %x[%h - 1] else -inf : tensor<8xf32>
// CHECK:         te.read %x[%h * -1] else nan : tensor<8xf32>
// CHECK:         te.read %n[%h - 1] else -3 : tensor<8xi8>
te.func @pad(%x: tensor<8xf32>, %n: tensor<8xi8>) -> (tensor<10xf32>, tensor<10xi8>) {
  %0 = te.compute "pad" [%h = 10] : tensor<10xf32> {
    %a = te.read %x[%h - 1] else 0.5 : tensor<8xf32>
    %b = te.read %x[%h - 1] else -inf : tensor<8xf32>
    %c = te.read %x[%h * -1] else nan : tensor<8xf32>
    %d = arith.maximumf %a, %b : f32
    %e = arith.maximumf %c, %d : f32
    te.yield %e : f32
  }
  %1 = te.compute "pad_i8" [%h = 10] : tensor<10xi8> {
    %a = te.read %n[%h - 1] else -3 : tensor<8xi8>
    te.yield %a : i8
  }
  te.return %0, %1 : tensor<10xf32>, tensor<10xi8>
}

// Indices may use division and data, which must be bounded; an index expression is also a value.
// CHECK-LABEL: te.func @indices
// CHECK:         %row = te.read %rows[%i floordiv 4] : tensor<2xi64>
// CHECK:         %at = arith.index_cast %near : i64 to index
// CHECK-NEXT:    %e = te.read %x[%at, %i mod 4] : tensor<9x4xf32>
// CHECK-NEXT:    %position = te.index [%i * 2 + 2]
te.func @indices(%x: tensor<9x4xf32>, %rows: tensor<2xi64>) -> tensor<8xf32> {
  %0 = te.compute "gather" [%i = 8] : tensor<8xf32> {
    %row = te.read %rows[%i floordiv 4] : tensor<2xi64>
    %first = arith.constant 0 : i64
    %last = arith.constant 8 : i64
    %least = arith.maxsi %row, %first : i64
    %near = arith.minsi %least, %last : i64
    %at = arith.index_cast %near : i64 to index
    %e = te.read %x[%at, %i mod 4] : tensor<9x4xf32>
    %position = te.index [%i * 2 + 2]
    te.yield %e : f32
  }
  te.return %0 : tensor<8xf32>
}

// A scalar stage has no axes; attributes of stages and functions are preserved.
// CHECK-LABEL: te.func @scalar(%x: tensor<3xi8>) -> tensor<i8> attributes {kind = "fused"} {
// CHECK-NEXT:    %y = te.compute "max" [] reduce [%k = 3] umax : tensor<i8> attributes {note} {
te.func @scalar(%x: tensor<3xi8>) -> tensor<i8> attributes {kind = "fused"} {
  %y = te.compute "max" [] reduce [%k = 3] umax : tensor<i8> attributes {note} {
    %0 = te.read %x[%k] : tensor<3xi8>
    te.yield %0 : i8
  }
  te.return %y : tensor<i8>
}

// The host function calls functions of stages.
// CHECK-LABEL: func.func @main
// CHECK:         %y = te.call @scalar(%x) : (tensor<3xi8>) -> tensor<i8>
func.func @main(%x: tensor<3xi8>) -> tensor<i8> {
  %y = te.call @scalar(%x) : (tensor<3xi8>) -> tensor<i8>
  return %y : tensor<i8>
}
