// RUN: tcopt %s --split-input-file -p dce | filecheck %s

// Unused values, unused loop-carried values and buffers that are never read are removed.
func.func private @dead(%n: index, %x: f32, %m: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %unused = arith.mulf %x, %x : f32
  %buffer = memref.alloca() : memref<8xf32>
  %r, %s = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x, %b = %x) -> (f32, f32) {
    %y = arith.addf %a, %x : f32
    memref.store %y, %buffer[%i] : memref<8xf32>
    %z = arith.mulf %y, %y : f32
    scf.yield %y, %z : f32, f32
  }
  memref.store %r, %m[%c0] : memref<8xf32>
  func.return
}
// CHECK-LABEL: func.func private @dead
// CHECK-NOT:   mulf
// CHECK-NOT:   alloca
// CHECK:       %r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x) -> (f32) {
// CHECK-NEXT:    %y = arith.addf %a, %x : f32
// CHECK-NEXT:    scf.yield %y : f32
// CHECK-NEXT:  }
// CHECK-NEXT:  memref.store %r, %m[%c0] : memref<8xf32>
