// RUN: tcopt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// An extension needs a wider result type.
func.func @extend(%a: vector<4xi32>) {
  %0 = arith.extsi %a : vector<4xi32> to vector<4xi16>
  func.return
}
// CHECK: i16 should be wider than i32

// -----

// A cast keeps the shape.
func.func @shape(%a: vector<4xi32>) {
  %0 = arith.sitofp %a : vector<4xi32> to vector<8xf32>
  func.return
}
// CHECK: have different shapes

// -----

// Exactly one side of an index cast is an index.
func.func @index(%a: vector<4xi32>) {
  %0 = arith.index_cast %a : vector<4xi32> to vector<4xi64>
  func.return
}
// CHECK: one of them should be index

// -----

// A vector select needs a mask with the same number of lanes.
func.func @select(%m: vector<8xi1>, %a: vector<4xf32>) {
  %0 = arith.select %m, %a, %a : vector<8xi1>, vector<4xf32>
  func.return
}
// CHECK: condition type vector<8xi1> should be i1 or vector<4xi1>
