// RUN: tcopt %s -p transpose-gathers --split-input-file | filecheck %s

// Four gathers of adjacent columns become four row loads and a transpose in two rounds of shuffles.
// CHECK-LABEL: func.func @tile
// CHECK:         [[A:%.*]] = vector.load %x[%i, {{%.*}}] : memref<64x100xf32>, vector<4xf32>
// CHECK:         [[B:%.*]] = vector.load %x[%i, {{%.*}}]
// CHECK:         [[C:%.*]] = vector.load %x[%i, {{%.*}}]
// CHECK:         [[D:%.*]] = vector.load %x[%i, {{%.*}}]
// CHECK-NEXT:    [[E:%.*]] = vector.shuffle [[A]], [[B]] [0, 4, 1, 5]
// CHECK-NEXT:    [[F:%.*]] = vector.shuffle [[A]], [[B]] [2, 6, 3, 7]
// CHECK-NEXT:    [[G:%.*]] = vector.shuffle [[C]], [[D]] [0, 4, 1, 5]
// CHECK-NEXT:    [[H:%.*]] = vector.shuffle [[C]], [[D]] [2, 6, 3, 7]
// CHECK-NEXT:    [[P:%.*]] = vector.shuffle [[E]], [[G]] [0, 1, 4, 5]
// CHECK-NEXT:    [[Q:%.*]] = vector.shuffle [[E]], [[G]] [2, 3, 6, 7]
// CHECK-NEXT:    [[R:%.*]] = vector.shuffle [[F]], [[H]] [0, 1, 4, 5]
// CHECK-NEXT:    [[S:%.*]] = vector.shuffle [[F]], [[H]] [2, 3, 6, 7]
// CHECK-NOT:     vector.gather
// CHECK:         "test.op"([[P]], [[Q]], [[R]], [[S]])
func.func @tile(%x: memref<64x100xf32>, %i: index, %j: index) {
  %rows = arith.constant dense<[0, 100, 200, 300]> : vector<4xi32>
  %on = arith.constant dense<true> : vector<4xi1>
  %p = arith.constant dense<0.0> : vector<4xf32>
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %j1 = arith.addi %j, %c1 : index
  %j2 = arith.addi %j, %c2 : index
  %j3 = arith.addi %j, %c3 : index
  %a = vector.gather %x[%i, %j][%rows], %on, %p : memref<64x100xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
  %b = vector.gather %x[%i, %j1][%rows], %on, %p : memref<64x100xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
  %c = vector.gather %x[%i, %j2][%rows], %on, %p : memref<64x100xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
  %d = vector.gather %x[%i, %j3][%rows], %on, %p : memref<64x100xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
  "test.op"(%a, %b, %c, %d) : (vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>) -> ()
  func.return
}

// -----

// Single gathers stay, as do gathers with a store to the buffer between them.
// CHECK-LABEL: func.func @apart
// CHECK-COUNT-4: vector.gather
func.func @apart(%x: memref<6400xf32>, %v: f32) {
  %rows = arith.constant dense<[0, 100, 200, 300]> : vector<4xi32>
  %on = arith.constant dense<true> : vector<4xi1>
  %p = arith.constant dense<0.0> : vector<4xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %a = vector.gather %x[%c0][%rows], %on, %p : memref<6400xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
  %b = vector.gather %x[%c1][%rows], %on, %p : memref<6400xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
  memref.store %v, %x[%c0] : memref<6400xf32>
  %c = vector.gather %x[%c2][%rows], %on, %p : memref<6400xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
  %d = vector.gather %x[%c3][%rows], %on, %p : memref<6400xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
  "test.op"(%a, %b, %c, %d) : (vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>) -> ()
  func.return
}

// -----

// An unknown op may write any memory.
// CHECK-LABEL: func.func @unknown
// CHECK-COUNT-4: vector.gather
// CHECK-NOT:     vector.shuffle
func.func @unknown(%x: memref<6400xf32>, %v: f32) {
  %rows = arith.constant dense<[0, 100, 200, 300]> : vector<4xi32>
  %on = arith.constant dense<true> : vector<4xi1>
  %p = arith.constant dense<0.0> : vector<4xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %a = vector.gather %x[%c0][%rows], %on, %p : memref<6400xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
  %b = vector.gather %x[%c1][%rows], %on, %p : memref<6400xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
  "test.op"(%v) : (f32) -> ()
  %c = vector.gather %x[%c2][%rows], %on, %p : memref<6400xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
  %d = vector.gather %x[%c3][%rows], %on, %p : memref<6400xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
  "test.op"(%a, %b, %c, %d) : (vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>) -> ()
  func.return
}

// -----

// With a runtime number of active lanes, each row is loaded under its own mask.
// CHECK-LABEL: func.func @some
// CHECK-SAME:    %n: index
// CHECK:         [[ON:%.*]] = arith.cmpi slt, {{%.*}}, %n : index
// CHECK:         [[SIZE:%.*]] = arith.select [[ON]]
// CHECK:         [[MASK:%.*]] = vector.create_mask [[SIZE]] : vector<4xi1>
// CHECK:         vector.maskedload %x[%i, {{%.*}}], [[MASK]]
// CHECK-COUNT-3: vector.maskedload
// CHECK-NOT:     vector.gather
// CHECK-COUNT-4: arith.select %on, {{%.*}}, %p
func.func @some(%x: memref<64x100xf32>, %i: index, %n: index, %p: vector<4xf32>) {
  %rows = arith.constant dense<[0, 100, 200, 300]> : vector<4xi32>
  %on = vector.create_mask %n : vector<4xi1>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %a = vector.gather %x[%i, %c0][%rows], %on, %p : memref<64x100xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
  %b = vector.gather %x[%i, %c1][%rows], %on, %p : memref<64x100xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
  %c = vector.gather %x[%i, %c2][%rows], %on, %p : memref<64x100xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
  %d = vector.gather %x[%i, %c3][%rows], %on, %p : memref<64x100xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
  "test.op"(%a, %b, %c, %d) : (vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>) -> ()
  func.return
}
