// RUN: tcopt %s -p canonicalize --print-debuginfo | filecheck %s

// Identity operators are removed, and with them code that becomes dead.
// CHECK-LABEL: func.func @reshape
// CHECK-NEXT: graph.add %x, %y : tensor<4x8xf32>
// CHECK-NEXT: func.return
func.func @reshape(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = graph.reshape %x : tensor<4x8xf32>
  %1 = graph.add %0, %y : tensor<4x8xf32>
  %2 = graph.relu %1 : tensor<4x8xf32>
  %3 = graph.relu %2 : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// A chain of transposes becomes one, with the location of the last.
// CHECK-LABEL: func.func @transposes
// CHECK-NEXT: graph.transpose %x {perm = [1, 2, 0]} : tensor<3x4x2xf32>{{.*}}canonicalize.mlir":21:3
// CHECK-NEXT: func.return
func.func @transposes(%x: tensor<2x3x4xf32>) -> tensor<3x4x2xf32> {
  %0 = graph.transpose %x {perm = [1, 0, 2]} : tensor<3x2x4xf32>
  %1 = graph.transpose %0 {perm = [0, 2, 1]} : tensor<3x4x2xf32>
  return %1 : tensor<3x4x2xf32>
}

// Arithmetic on constants folds; a loop with unused results is removed.
// CHECK-LABEL: func.func @sum
// CHECK-NEXT: %[[FIVE:.*]] = arith.constant 5 : i32
// CHECK-NEXT: func.return %[[FIVE]] : i32
func.func @sum(%n: index) -> i32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = arith.constant 2 : i32
  %b = arith.constant 3 : i32
  %0 = arith.addi %a, %b : i32
  %1 = scf.for %i = %c0 to %n step %c1 iter_args(%s = %a) -> (i32) {
    %2 = arith.addi %s, %b : i32
    scf.yield %2 : i32
  }
  return %0 : i32
}
