// RUN: tcopt %s -p interleave-scatters --split-input-file | filecheck %s

// Two scatters of stride 2 together fill two contiguous vectors.
// CHECK-LABEL: func.func @pair
// CHECK:         [[A:%.*]] = vector.shuffle %a, %b [0, 4, 1, 5]
// CHECK-NEXT:    [[B:%.*]] = vector.shuffle %a, %b [2, 6, 3, 7]
// CHECK-NEXT:    vector.store [[A]], %y[%i, %j]
// CHECK:         [[J:%.*]] = arith.addi %j, %{{.*}}
// CHECK-NEXT:    vector.store [[B]], %y[%i, [[J]]]
// CHECK-NOT:     vector.scatter
func.func @pair(%y: memref<8x64xf32>, %i: index, %j: index, %a: vector<4xf32>, %b: vector<4xf32>) {
  %even = arith.constant dense<[0, 2, 4, 6]> : vector<4xi32>
  %on = arith.constant dense<true> : vector<4xi1>
  %c1 = arith.constant 1 : index
  %j1 = arith.addi %j, %c1 : index
  vector.scatter %y[%i, %j][%even], %on, %a : memref<8x64xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
  vector.scatter %y[%i, %j1][%even], %on, %b : memref<8x64xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
  func.return
}

// -----

// Three scatters with one masked lane fill nine elements: two vectors and a masked element.
// CHECK-LABEL: func.func @masked
// CHECK:         [[P:%.*]] = vector.shuffle %a, %b [0, 4, 2, 1]
// CHECK-NEXT:    [[A:%.*]] = vector.shuffle [[P]], %c [0, 1, 4, 3]
// CHECK:         vector.store [[A]], %y[%j]
// CHECK:         vector.store
// CHECK:         arith.constant dense<[true, false, false, false]>
// CHECK-NEXT:    vector.maskedstore %y
// CHECK-NOT:     vector.scatter
func.func @masked(%y: memref<64xf32>, %j: index, %a: vector<4xf32>, %b: vector<4xf32>, %c: vector<4xf32>) {
  %third = arith.constant dense<[0, 3, 6, 9]> : vector<4xi32>
  %on = arith.constant dense<[true, true, true, false]> : vector<4xi1>
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %j1 = arith.addi %j, %c1 : index
  %j2 = arith.addi %j, %c2 : index
  vector.scatter %y[%j][%third], %on, %a : memref<64xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
  vector.scatter %y[%j1][%third], %on, %b : memref<64xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
  vector.scatter %y[%j2][%third], %on, %c : memref<64xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
  func.return
}

// -----

// A missing scatter leaves a gap, and a load between the scatters must not see later stores.
// CHECK-LABEL: func.func @apart
// CHECK:         vector.scatter
// CHECK:         vector.load
// CHECK:         vector.scatter
// CHECK-NOT:     vector.shuffle
func.func @apart(%y: memref<64xf32>, %j: index, %a: vector<4xf32>, %b: vector<4xf32>) -> vector<4xf32> {
  %even = arith.constant dense<[0, 2, 4, 6]> : vector<4xi32>
  %on = arith.constant dense<true> : vector<4xi1>
  %c1 = arith.constant 1 : index
  %j1 = arith.addi %j, %c1 : index
  vector.scatter %y[%j][%even], %on, %a : memref<64xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
  %0 = vector.load %y[%j] : memref<64xf32>, vector<4xf32>
  vector.scatter %y[%j1][%even], %on, %b : memref<64xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
  func.return %0 : vector<4xf32>
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
