// RUN: tcopt %s --split-input-file -p licm | filecheck %s

// Arithmetic leaves a whole nest; a load stays where the loop stores.
func.func private @nest(%a: memref<8x8xf32>, %s: f32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    scf.for %j = %c0 to %n step %c1 {
      %v = arith.mulf %s, %s : f32
      %k = arith.addi %i, %c1 : index
      %x = memref.load %a[%c0, %c0] : memref<8x8xf32>
      %y = arith.addf %x, %v : f32
      memref.store %y, %a[%k, %j] : memref<8x8xf32>
    }
  }
  func.return
}
// CHECK-LABEL: func.func private @nest
// CHECK:       %v = arith.mulf %s, %s : f32
// CHECK-NEXT:  scf.for %i
// CHECK-NEXT:    %k = arith.addi %i, %c1 : index
// CHECK-NEXT:    scf.for %j
// CHECK-NEXT:      %x = memref.load

// -----

// A load leaves a loop that writes nothing and surely runs.
func.func private @load(%a: memref<8xf32>, %b: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %zero = arith.constant 0.0 : f32
  %r = scf.for %i = %c0 to %c8 step %c1 iter_args(%s = %zero) -> (f32) {
    %x = memref.load %a[%c1] : memref<8xf32>
    %y = arith.addf %s, %x : f32
    scf.yield %y : f32
  }
  memref.store %r, %b[%c0] : memref<8xf32>
  func.return
}
// CHECK-LABEL: func.func private @load
// CHECK:       %x = memref.load %a[%c1] : memref<8xf32>
// CHECK-NEXT:  %r = scf.for
