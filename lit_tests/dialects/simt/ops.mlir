// RUN: tcopt %s --split-input-file --verify-diagnostics | filecheck %s

// A value of another thread of the warp.
// CHECK: %r = simt.shuffle %v xor 16 : f32
func.func @shuffle(%v: f32) {
  %r = simt.shuffle %v xor 16 : f32
  func.return
}

// -----

// Threads come in pairs.
// CHECK: 3 is no power of two
func.func @shuffle(%v: f32) {
  %r = simt.shuffle %v xor 3 : f32
  func.return
}

// -----

// Tiles of a warp.
// CHECK: %r = simt.mma %c, %a, %b : vector<16x16xf16>, vector<16x8xf16> into vector<16x8xf32>
func.func @mma(%c: vector<16x8xf32>, %a: vector<16x16xf16>, %b: vector<16x8xf16>) {
  %r = simt.mma %c, %a, %b : vector<16x16xf16>, vector<16x8xf16> into vector<16x8xf32>
  func.return
}

// -----

// They fit together.
// CHECK: 16x8 times 16x8 gives no 16x8 elements
func.func @mma(%c: vector<16x8xf32>, %a: vector<16x8xf16>, %b: vector<16x8xf16>) {
  %r = simt.mma %c, %a, %b : vector<16x8xf16>, vector<16x8xf16> into vector<16x8xf32>
  func.return
}
