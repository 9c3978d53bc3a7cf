// RUN: tcopt %s --split-input-file -p promote-registers | filecheck %s

// A buffer that a loop updates becomes a loop-carried value.
func.func private @accumulate(%a: memref<8x16xf32>, %b: memref<16xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %zero = arith.constant dense<0.0> : vector<16xf32>
  %acc = memref.alloca() : memref<16xf32>
  vector.store %zero, %acc[%c0] : memref<16xf32>, vector<16xf32>
  scf.for %k = %c0 to %c8 step %c1 {
    %x = vector.load %a[%k, %c0] : memref<8x16xf32>, vector<16xf32>
    %y = vector.load %acc[%c0] : memref<16xf32>, vector<16xf32>
    %z = arith.addf %x, %y : vector<16xf32>
    vector.store %z, %acc[%c0] : memref<16xf32>, vector<16xf32>
  }
  %r = vector.load %acc[%c0] : memref<16xf32>, vector<16xf32>
  vector.store %r, %b[%c0] : memref<16xf32>, vector<16xf32>
  func.return
}
// CHECK-LABEL: func.func private @accumulate
// CHECK-NOT:   memref.alloca
// CHECK:       %acc = scf.for %k = %c0 to %c8 step %c1 iter_args(%acc_1 = %zero) -> (vector<16xf32>) {
// CHECK-NEXT:    %x = vector.load %a[%k, %c0]
// CHECK-NEXT:    %z = arith.addf %x, %acc_1 : vector<16xf32>
// CHECK-NEXT:    scf.yield %z : vector<16xf32>
// CHECK-NEXT:  }
// CHECK-NEXT:  vector.store %acc, %b[%c0] : memref<16xf32>, vector<16xf32>

// -----

// A branch that stores yields the new value; otherwise the old one is yielded.
func.func private @branch(%p: i1, %x: f32, %b: memref<1xf32>) {
  %c0 = arith.constant 0 : index
  %m = memref.alloca() : memref<1xf32>
  memref.store %x, %m[%c0] : memref<1xf32>
  scf.if %p {
    %y = memref.load %m[%c0] : memref<1xf32>
    %z = arith.addf %y, %y : f32
    memref.store %z, %m[%c0] : memref<1xf32>
  }
  %r = memref.load %m[%c0] : memref<1xf32>
  memref.store %r, %b[%c0] : memref<1xf32>
  func.return
}
// CHECK-LABEL: func.func private @branch
// CHECK:       %m = scf.if %p -> (f32) {
// CHECK-NEXT:    %z = arith.addf %x, %x : f32
// CHECK-NEXT:    scf.yield %z : f32
// CHECK-NEXT:  } else {
// CHECK-NEXT:    scf.yield %x : f32
// CHECK-NEXT:  }
// CHECK-NEXT:  memref.store %m, %b[%c0] : memref<1xf32>

// -----

// Parts of a vector slot are extracted and inserted; a masked store is a select.
func.func private @parts(%x: f32, %v: vector<4xf32>, %k: vector<4xi1>, %b: memref<4xf32>) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %m = memref.alloca() : memref<4xf32>
  vector.store %v, %m[%c0] : memref<4xf32>, vector<4xf32>
  memref.store %x, %m[%c2] : memref<4xf32>
  vector.maskedstore %m[%c0], %k, %v : memref<4xf32>, vector<4xi1>, vector<4xf32>
  %r = vector.load %m[%c2] : memref<4xf32>, vector<2xf32>
  vector.store %r, %b[%c0] : memref<4xf32>, vector<2xf32>
  func.return
}
// CHECK-LABEL: func.func private @parts
// CHECK:       %0 = vector.insert %x, %v [2] : f32 into vector<4xf32>
// CHECK-NEXT:  %1 = arith.select %k, %v, %0 : vector<4xi1>, vector<4xf32>
// CHECK-NEXT:  %r = vector.extract_strided_slice %1 {offsets = [2 : i64], sizes = [2 : i64], strides = [1 : i64]}

// -----

// A computed index keeps a buffer in memory.
func.func private @computed(%i: index, %x: f32) {
  %m = memref.alloca() : memref<4xf32>
  memref.store %x, %m[%i] : memref<4xf32>
  func.return
}
// CHECK-LABEL: func.func private @computed
// CHECK:       memref.store %x, %m[%i] : memref<4xf32>

// -----

// Shared memory is not promoted.
// CHECK-LABEL: func.func private @shared
// CHECK:         memref.alloca() : memref<1xf32, 3 : i64>
// CHECK:         memref.store
// CHECK:         memref.load
func.func private @shared(%x: f32) -> f32 {
  %c0 = arith.constant 0 : index
  %s = memref.alloca() : memref<1xf32, 3 : i64>
  memref.store %x, %s[%c0] : memref<1xf32, 3 : i64>
  "gpu.barrier"() : () -> ()
  %y = memref.load %s[%c0] : memref<1xf32, 3 : i64>
  func.return %y : f32
}
