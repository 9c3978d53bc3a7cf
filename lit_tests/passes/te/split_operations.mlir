// RUN: tcopt %s -p split-operations --split-input-file | filecheck %s

// Each operation is a stage that overwrites the previous stage; a conversion is a separate stage.
// CHECK-LABEL: te.func @scaled
// CHECK-NEXT:    %y = te.compute "extsi" [%i = 8] : tensor<8xi32> {
// CHECK-NEXT:      %0 = te.read %x[%i] : tensor<8xi8>
// CHECK-NEXT:      %1 = arith.extsi %0 : i8 to i32
// CHECK-NEXT:      te.yield %1 : i32
// CHECK-NEXT:    }
// CHECK-NEXT:    %y_1 = te.compute "addi" [%i = 8] : tensor<8xi32> {
// CHECK-NEXT:      %0 = te.read %y[%i] : tensor<8xi32>
// CHECK-NEXT:      %1 = te.read %b[%i] : tensor<8xi32>
// CHECK-NEXT:      %2 = arith.addi %0, %1 : i32
// CHECK-NEXT:      te.yield %2 : i32
// CHECK-NEXT:    }
// CHECK-NEXT:    %y_2 = te.compute "maxsi" [%i = 8] : tensor<8xi32> {
// CHECK:         %y_3 = te.compute "y" [%i = 8] : tensor<8xi8> {
// CHECK-NEXT:      %0 = te.read %y_2[%i] : tensor<8xi32>
// CHECK-NEXT:      %1 = arith.trunci %0 : i32 to i8
module attributes {tcopt.target = #target.vdla<inp_bytes = 2048, wgt_bytes = 8192, acc_bytes = 8192, uop_bytes = 1024>} {
te.func @scaled(%x: tensor<8xi8>, %b: tensor<8xi32>) -> tensor<8xi8> {
  %y = te.compute "y" [%i = 8] : tensor<8xi8> {
    %0 = te.read %x[%i] : tensor<8xi8>
    %1 = arith.extsi %0 : i8 to i32
    %2 = te.read %b[%i] : tensor<8xi32>
    %3 = arith.addi %1, %2 : i32
    %4 = arith.constant 0 : i32
    %5 = arith.maxsi %3, %4 : i32
    %6 = arith.trunci %5 : i32 to i8
    te.yield %6 : i8
  }
  te.return %y : tensor<8xi8>
}
}

// -----

// A value with later users is not overwritten: the operation works on a copy, which is zero plus
// the value. Zeros do not depend on the sums, so they come first.
// CHECK-LABEL: te.func @twice
// CHECK-NEXT:    %y = te.compute "zero" [%i = 8] : tensor<8xi32> {
// CHECK:         %s = te.compute "s" [%i = 8] reduce [%k = 4] sum : tensor<8xi32> {
// CHECK:         %y_1 = te.compute "copy" [%i = 8] : tensor<8xi32> {
// CHECK-NEXT:      %0 = te.read %y[%i] : tensor<8xi32>
// CHECK-NEXT:      %1 = te.read %s[%i] : tensor<8xi32>
// CHECK-NEXT:      %2 = arith.addi %0, %1 : i32
// CHECK:         %y_2 = te.compute "shli" [%i = 8] : tensor<8xi32> {
// CHECK-NEXT:      %0 = te.read %y_1[%i] : tensor<8xi32>
// CHECK:         te.compute "y" [%i = 8] : tensor<8xi32> {
// CHECK-NEXT:      %0 = te.read %s[%i] : tensor<8xi32>
// CHECK-NEXT:      %1 = te.read %y_2[%i] : tensor<8xi32>
module attributes {tcopt.target = #target.vdla<inp_bytes = 2048, wgt_bytes = 8192, acc_bytes = 8192, uop_bytes = 1024>} {
te.func @twice(%x: tensor<8x4xi32>) -> tensor<8xi32> {
  %s = te.compute "s" [%i = 8] reduce [%k = 4] sum : tensor<8xi32> {
    %0 = te.read %x[%i, %k] : tensor<8x4xi32>
    te.yield %0 : i32
  }
  %y = te.compute "y" [%i = 8] : tensor<8xi32> {
    %0 = te.read %s[%i] : tensor<8xi32>
    %1 = arith.constant 3 : i32
    %2 = arith.shli %0, %1 : i32
    %3 = arith.addi %0, %2 : i32
    te.yield %3 : i32
  }
  te.return %y : tensor<8xi32>
}
}

// -----

// Float stages are unchanged: the unit computes on integers.
// CHECK-LABEL: te.func @floats
// CHECK-NEXT:    te.compute "y" [%i = 8] : tensor<8xf32> {
module attributes {tcopt.target = #target.vdla<inp_bytes = 2048, wgt_bytes = 8192, acc_bytes = 8192, uop_bytes = 1024>} {
te.func @floats(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = te.compute "y" [%i = 8] : tensor<8xf32> {
    %0 = te.read %x[%i] : tensor<8xf32>
    %1 = arith.addf %0, %0 : f32
    %2 = arith.mulf %1, %0 : f32
    te.yield %2 : f32
  }
  te.return %y : tensor<8xf32>
}
}

// -----

// Stages for a target that is not an accelerator are unchanged.
// CHECK-LABEL: te.func @host
// CHECK-NEXT:    te.compute "y" [%i = 8] : tensor<8xi32> {
te.func @host(%x: tensor<8xi32>) -> tensor<8xi32> {
  %y = te.compute "y" [%i = 8] : tensor<8xi32> {
    %0 = te.read %x[%i] : tensor<8xi32>
    %1 = arith.addi %0, %0 : i32
    %2 = arith.muli %1, %0 : i32
    te.yield %2 : i32
  }
  te.return %y : tensor<8xi32>
}

// -----

// Operations on more than 32 bits stay with the conversion back to 32 bits: the unit does both in
// one operation.
// CHECK-LABEL: te.func @product
// CHECK-NEXT:    %{{.*}} = te.compute "z" [%i = 16] : tensor<16xi32> {
// CHECK:         %{{.*}} = te.compute "trunci" [%i = 16] : tensor<16xi32> {
// CHECK:           arith.muli %{{.*}}, %{{.*}} : i64
// CHECK:           arith.shrsi %{{.*}}, %{{.*}} : i64
// CHECK:           arith.trunci %{{.*}} : i64 to i32
// CHECK:         te.compute "y" [%i = 16] : tensor<16xi32> {
// CHECK:           arith.addi %{{.*}}, %{{.*}} : i32
te.func @product(%x: tensor<16xi32>, %m: tensor<16xi32>) -> tensor<16xi32> attributes {tcopt.target = #target.vdla<results = "i8", features = "alu,load_i8,mulh", inp_bytes = 2048, wgt_bytes = 8192, acc_bytes = 8192, uop_bytes = 1024>} {
  %z = te.compute "z" [%i = 16] : tensor<16xi32> {
    %0 = te.read %x[%i] : tensor<16xi32>
    te.yield %0 : i32
  }
  %y = te.compute "y" [%i = 16] : tensor<16xi32> {
    %0 = te.read %z[%i] : tensor<16xi32>
    %1 = te.read %m[%i] : tensor<16xi32>
    %2 = arith.extsi %0 : i32 to i64
    %3 = arith.extsi %1 : i32 to i64
    %4 = arith.muli %2, %3 : i64
    %c = arith.constant 31 : i64
    %5 = arith.shrsi %4, %c : i64
    %6 = arith.trunci %5 : i64 to i32
    %one = arith.constant 1 : i32
    %7 = arith.addi %6, %one : i32
    te.yield %7 : i32
  }
  te.return %y : tensor<16xi32>
}
