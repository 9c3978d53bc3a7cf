// RUN: tcopt %s --split-input-file | tcopt --split-input-file | filecheck %s

// Casts convert vectors element by element.
func.func @casts(%i: vector<4xi32>, %f: vector<4xf32>, %x: vector<4xindex>) {
  %0 = arith.sitofp %i : vector<4xi32> to vector<4xf32>
  %1 = arith.fptosi %f : vector<4xf32> to vector<4xi8>
  %2 = arith.extsi %1 : vector<4xi8> to vector<4xi32>
  %3 = arith.trunci %2 : vector<4xi32> to vector<4xi16>
  %4 = arith.index_cast %x : vector<4xindex> to vector<4xi32>
  %5 = arith.index_castui %4 : vector<4xi32> to vector<4xindex>
  func.return
}
// CHECK-LABEL: func.func @casts
// CHECK:       arith.sitofp %i : vector<4xi32> to vector<4xf32>
// CHECK-NEXT:  arith.fptosi %f : vector<4xf32> to vector<4xi8>
// CHECK-NEXT:  arith.extsi %1 : vector<4xi8> to vector<4xi32>
// CHECK-NEXT:  arith.trunci %2 : vector<4xi32> to vector<4xi16>
// CHECK-NEXT:  arith.index_cast %x : vector<4xindex> to vector<4xi32>
// CHECK-NEXT:  arith.index_castui %4 : vector<4xi32> to vector<4xindex>

// -----

// Vector comparisons return vectors of i1, which select lane by lane.
func.func @choices(%a: vector<4xf32>, %b: vector<4xf32>, %c: i1, %x: i32, %y: i32) {
  %0 = arith.cmpf ogt, %a, %b fastmath<nnan> : vector<4xf32>
  %1 = arith.select %0, %a, %b : vector<4xi1>, vector<4xf32>
  %2 = arith.select %c, %a, %b : vector<4xf32>
  %3 = arith.cmpi ult, %x, %y : i32
  func.return
}
// CHECK-LABEL: func.func @choices
// CHECK:       %0 = arith.cmpf ogt, %a, %b fastmath<nnan> : vector<4xf32>
// CHECK-NEXT:  %1 = arith.select %0, %a, %b : vector<4xi1>, vector<4xf32>
// CHECK-NEXT:  %2 = arith.select %c, %a, %b : vector<4xf32>
// CHECK-NEXT:  %3 = arith.cmpi ult, %x, %y : i32

// -----

// A signed remainder, scalar or vector, has the sign of the dividend.
func.func @remainders(%a: f32, %b: f32, %x: vector<4xf64>, %y: vector<4xf64>) {
  %0 = arith.remf %a, %b : f32
  %1 = arith.remf %x, %y : vector<4xf64>
  func.return
}
// CHECK-LABEL: func.func @remainders
// CHECK:       arith.remf %a, %b : f32
// CHECK-NEXT:  arith.remf %x, %y : vector<4xf64>
