// RUN: tcopt %s --split-input-file -p simplify-kernel | filecheck %s
// RUN: tcopt %s --split-input-file -p simplify-kernel,simplify-kernel | filecheck %s

// Constants fold through arithmetic, branches and loops that run once.
func.func private @fold(%m: memref<8xf32>, %x: f32) {
  %c2 = arith.constant 2 : index
  %c4 = arith.muli %c2, %c2 : index
  %c3 = arith.constant 3 : index
  scf.for %i = %c2 to %c4 step %c4 {
    %k = arith.addi %i, %c3 : index
    %p = arith.cmpi slt, %k, %c4 : index
    scf.if %p {
      memref.store %x, %m[%i] : memref<8xf32>
    } else {
      memref.store %x, %m[%k] : memref<8xf32>
    }
  }
  func.return
}
// CHECK-LABEL: func.func private @fold
// CHECK-NEXT:  %[[K:.*]] = arith.constant 5 : index
// CHECK-NEXT:  memref.store %x, %m[%[[K]]] : memref<8xf32>
// CHECK-NEXT:  func.return

// -----

// A mask known to be all ones makes an access a plain one.
func.func private @mask(%m: memref<16xf32>, %p: vector<16xf32>) -> f32 {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %k = vector.create_mask %c16 : vector<16xi1>
  %v = vector.maskedload %m[%c0], %k, %p : memref<16xf32>, vector<16xi1>, vector<16xf32> into vector<16xf32>
  vector.maskedstore %m[%c0], %k, %v : memref<16xf32>, vector<16xi1>, vector<16xf32>
  %r = vector.extract %v[0] : f32 from vector<16xf32>
  func.return %r : f32
}
// CHECK-LABEL: func.func private @mask
// CHECK:       vector.load %m[%c0] : memref<16xf32>, vector<16xf32>
// CHECK-NEXT:  vector.store
