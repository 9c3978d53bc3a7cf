// RUN: tcopt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// A slice must be inside its source.
func.func @slice(%v: vector<8xf32>) {
  %a = vector.extract_strided_slice %v {offsets = [6], sizes = [4], strides = [1]} : vector<8xf32> to vector<4xf32>
  func.return
}
// CHECK: slice [6, 10) exceeds [0, 8)

// -----

// A transpose must name every dimension once.
func.func @transpose(%v: vector<2x3xf32>) {
  %a = vector.transpose %v, [0, 0] : vector<2x3xf32> to vector<2x2xf32>
  func.return
}
// CHECK: [0, 0] is not a permutation of 2 numbers

// -----

// A shape cast must keep the number of elements.
func.func @shape_cast(%v: vector<2x3xf32>) {
  %a = vector.shape_cast %v : vector<2x3xf32> to vector<7xf32>
  func.return
}
// CHECK: have different numbers of elements

// -----

// A constant mask must not exceed its type.
func.func @mask() {
  %a = vector.constant_mask [5] : vector<4xi1>
  func.return
}
// CHECK: mask size 5 is not in [0, 4]

// -----

// A gather needs one offset and one mask bit for each lane.
func.func @gather(%m: memref<64xf32>, %i: index, %v: vector<8xi32>, %k: vector<4xi1>,
                  %p: vector<4xf32>) {
  %r = vector.gather %m[%i][%v], %k, %p : memref<64xf32>, vector<8xi32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
  func.return
}
// CHECK: vector<8xi32> and vector<4xf32> have different shapes

// -----

// The number of elements must equal the number of lanes.
func.func @elements(%x: f32) {
  %r = vector.from_elements %x, %x, %x : vector<2xf32>
  func.return
}
// CHECK: 3 elements do not fill vector<2xf32>
