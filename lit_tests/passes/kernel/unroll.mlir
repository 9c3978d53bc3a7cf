// RUN: tcopt %s --split-input-file -p unroll | filecheck %s

// A marked loop becomes one copy of its body for each round, values handed from copy to copy.
func.func private @sum(%a: memref<4xf32>) -> f32 {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %zero = arith.constant 0.0 : f32
  %r = scf.for %i = %c0 to %c4 step %c2 iter_args(%s = %zero) -> (f32) {
    %x = memref.load %a[%i] : memref<4xf32>
    %y = arith.addf %s, %x : f32
    scf.yield %y : f32
  } {unroll}
  func.return %r : f32
}
// CHECK-LABEL: func.func private @sum
// CHECK-NOT:   scf.for
// CHECK:       %zero = arith.constant
// CHECK-NEXT:  %[[I:.*]] = arith.constant 0 : index
// CHECK-NEXT:  %x = memref.load %a[%[[I]]] : memref<4xf32>
// CHECK-NEXT:  %y = arith.addf %zero, %x : f32
// CHECK-NEXT:  %[[J:.*]] = arith.constant 2 : index
// CHECK-NEXT:  %x_1 = memref.load %a[%[[J]]] : memref<4xf32>
// CHECK-NEXT:  %y_1 = arith.addf %y, %x_1 : f32
// CHECK-NEXT:  func.return %y_1 : f32
