// RUN: tcopt %s -p transpose-scatters --split-input-file | filecheck %s

// Four column scatters of four lanes become four row stores.
// CHECK-LABEL: func.func @square
// CHECK-DAG:     [[A:%.*]] = vector.shuffle %a, %b [0, 4, 1, 5]
// CHECK-DAG:     [[B:%.*]] = vector.shuffle %a, %b [2, 6, 3, 7]
// CHECK-DAG:     [[C:%.*]] = vector.shuffle %c, %d [0, 4, 1, 5]
// CHECK-DAG:     [[D:%.*]] = vector.shuffle %c, %d [2, 6, 3, 7]
// CHECK-DAG:     [[R0:%.*]] = vector.shuffle [[A]], [[C]] [0, 1, 4, 5]
// CHECK-DAG:     [[R3:%.*]] = vector.shuffle [[B]], [[D]] [2, 3, 6, 7]
// CHECK:         vector.store [[R0]], %y[%i, %j]
// CHECK-COUNT-2: vector.store
// CHECK:         arith.constant 192 : index
// CHECK:         vector.store [[R3]], %y
// CHECK-NOT:     vector.scatter
func.func @square(%y: memref<8x64xf32>, %i: index, %j: index, %a: vector<4xf32>, %b: vector<4xf32>, %c: vector<4xf32>, %d: vector<4xf32>) {
  %rows = arith.constant dense<[0, 64, 128, 192]> : vector<4xi32>
  %on = arith.constant dense<true> : vector<4xi1>
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %j1 = arith.addi %j, %c1 : index
  %j2 = arith.addi %j, %c2 : index
  %j3 = arith.addi %j, %c3 : index
  vector.scatter %y[%i, %j][%rows], %on, %a : memref<8x64xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
  vector.scatter %y[%i, %j1][%rows], %on, %b : memref<8x64xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
  vector.scatter %y[%i, %j2][%rows], %on, %c : memref<8x64xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
  vector.scatter %y[%i, %j3][%rows], %on, %d : memref<8x64xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
  func.return
}

// -----

// Two columns are stored as pairs, one for each active lane; a third column stays a scatter.
// CHECK-LABEL: func.func @pairs
// CHECK:         [[A:%.*]] = vector.shuffle %a, %b [0, 4, 1, 5]
// CHECK:         [[P:%.*]] = vector.shuffle [[A]], [[A]] [0, 1] : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:    vector.store [[P]], %y[%j] : memref<256xf32>, vector<2xf32>
// CHECK-COUNT-2: vector.store
// CHECK-NOT:     vector.store
// CHECK:         vector.scatter %y{{.*}} %c
func.func @pairs(%y: memref<256xf32>, %j: index, %a: vector<4xf32>, %b: vector<4xf32>, %c: vector<4xf32>) {
  %rows = arith.constant dense<[0, 64, 128, 192]> : vector<4xi32>
  %on = arith.constant dense<[true, true, true, false]> : vector<4xi1>
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %j1 = arith.addi %j, %c1 : index
  %j2 = arith.addi %j, %c2 : index
  vector.scatter %y[%j][%rows], %on, %a : memref<256xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
  vector.scatter %y[%j1][%rows], %on, %b : memref<256xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
  vector.scatter %y[%j2][%rows], %on, %c : memref<256xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
  func.return
}

// -----

// A load between the scatters must not see later stores.
// CHECK-LABEL: func.func @apart
// CHECK:         vector.scatter
// CHECK:         vector.load
// CHECK:         vector.scatter
// CHECK-NOT:     vector.shuffle
func.func @apart(%y: memref<256xf32>, %j: index, %a: vector<4xf32>, %b: vector<4xf32>) -> vector<4xf32> {
  %rows = arith.constant dense<[0, 64, 128, 192]> : vector<4xi32>
  %on = arith.constant dense<true> : vector<4xi1>
  %c1 = arith.constant 1 : index
  %j1 = arith.addi %j, %c1 : index
  vector.scatter %y[%j][%rows], %on, %a : memref<256xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
  %0 = vector.load %y[%j] : memref<256xf32>, vector<4xf32>
  vector.scatter %y[%j1][%rows], %on, %b : memref<256xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
  func.return %0 : vector<4xf32>
}

// -----

// Interleaved columns of two tiles are grouped by tile, because the tiles do not overlap.
// CHECK-LABEL: func.func @alternating
// CHECK:         vector.shuffle %a, %c [0, 4, 1, 5]
// CHECK:         vector.shuffle %b, %d [0, 4, 1, 5]
// CHECK-NOT:     vector.scatter
func.func @alternating(%y: memref<8x64xf32>, %j: index, %a: vector<4xf32>, %b: vector<4xf32>, %c: vector<4xf32>, %d: vector<4xf32>) {
  %rows = arith.constant dense<[0, 64, 128, 192]> : vector<4xi32>
  %on = arith.constant dense<true> : vector<4xi1>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %j1 = arith.addi %j, %c1 : index
  vector.scatter %y[%c0, %j][%rows], %on, %a : memref<8x64xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
  vector.scatter %y[%c4, %j][%rows], %on, %b : memref<8x64xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
  vector.scatter %y[%c0, %j1][%rows], %on, %c : memref<8x64xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
  vector.scatter %y[%c4, %j1][%rows], %on, %d : memref<8x64xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
  func.return
}

// -----

// If the tiles overlap, the order of the stores is kept.
// CHECK-LABEL: func.func @overlapping
// CHECK-NOT:     vector.shuffle
func.func @overlapping(%y: memref<8x64xf32>, %j: index, %a: vector<4xf32>, %b: vector<4xf32>, %c: vector<4xf32>, %d: vector<4xf32>) {
  %rows = arith.constant dense<[0, 64, 128, 192]> : vector<4xi32>
  %on = arith.constant dense<true> : vector<4xi1>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %j1 = arith.addi %j, %c1 : index
  vector.scatter %y[%c0, %j][%rows], %on, %a : memref<8x64xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
  vector.scatter %y[%c2, %j][%rows], %on, %b : memref<8x64xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
  vector.scatter %y[%c0, %j1][%rows], %on, %c : memref<8x64xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
  func.return
}

// -----

// An unknown op may read any memory.
// CHECK-LABEL: func.func @unknown
// CHECK:         vector.scatter
// CHECK-NEXT:    "test.op"
// CHECK-NEXT:    vector.scatter
func.func @unknown(%y: memref<64xf32>, %j: index, %a: vector<4xf32>, %b: vector<4xf32>) {
  %even = arith.constant dense<[0, 2, 4, 6]> : vector<4xi32>
  %on = arith.constant dense<true> : vector<4xi1>
  %c1 = arith.constant 1 : index
  %j1 = arith.addi %j, %c1 : index
  vector.scatter %y[%j][%even], %on, %a : memref<64xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
  "test.op"() : () -> ()
  vector.scatter %y[%j1][%even], %on, %b : memref<64xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
  func.return
}
