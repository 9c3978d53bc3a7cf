// RUN: tcopt %s --split-input-file -p cse | filecheck %s

// Equal arithmetic is done once, also when the second is in an inner region.
func.func private @arithmetic(%i: index, %p: i1, %m: memref<8xindex>) {
  %c4 = arith.constant 4 : index
  %0 = arith.addi %i, %c4 : index
  scf.if %p {
    %1 = arith.addi %i, %c4 : index
    memref.store %1, %m[%1] : memref<8xindex>
  }
  memref.store %0, %m[%0] : memref<8xindex>
  func.return
}
// CHECK-LABEL: func.func private @arithmetic
// CHECK:       %0 = arith.addi %i, %c4 : index
// CHECK-NEXT:  scf.if %p {
// CHECK-NEXT:    memref.store %0, %m[%0] : memref<8xindex>
// CHECK-NEXT:  }

// -----

// A load is repeated only after something may have written.
func.func private @loads(%i: index, %m: memref<8xf32>) {
  %0 = memref.load %m[%i] : memref<8xf32>
  %1 = memref.load %m[%i] : memref<8xf32>
  %2 = arith.addf %0, %1 : f32
  memref.store %2, %m[%i] : memref<8xf32>
  %3 = memref.load %m[%i] : memref<8xf32>
  memref.store %3, %m[%i] : memref<8xf32>
  func.return
}
// CHECK-LABEL: func.func private @loads
// CHECK:       %0 = memref.load
// CHECK-NEXT:  %1 = arith.addf %0, %0 : f32
// CHECK-NEXT:  memref.store %1
// CHECK-NEXT:  %2 = memref.load
