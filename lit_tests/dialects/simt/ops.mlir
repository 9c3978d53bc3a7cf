// RUN: tcopt %s --split-input-file --verify-diagnostics | filecheck %s

// A shuffle reads the value of another thread of the warp.
// CHECK: %r = simt.shuffle %v xor 16 : f32
func.func @shuffle(%v: f32) {
  %r = simt.shuffle %v xor 16 : f32
  func.return
}

// -----

// The lane mask of a shuffle must be a power of two.
// CHECK: 3 is not a power of two
func.func @shuffle(%v: f32) {
  %r = simt.shuffle %v xor 3 : f32
  func.return
}

// -----

// Matrix products of a warp's tiles.
// CHECK: %r = simt.mma %c, %a, %b : vector<16x16xf16>, vector<16x8xf16> into vector<16x8xf32>
func.func @mma(%c: vector<16x8xf32>, %a: vector<16x16xf16>, %b: vector<16x8xf16>) {
  %r = simt.mma %c, %a, %b : vector<16x16xf16>, vector<16x8xf16> into vector<16x8xf32>
  func.return
}

// -----

// The tile shapes must match.
// CHECK: 16x8 times 16x8 is not 16x8
func.func @mma(%c: vector<16x8xf32>, %a: vector<16x8xf16>, %b: vector<16x8xf16>) {
  %r = simt.mma %c, %a, %b : vector<16x8xf16>, vector<16x8xf16> into vector<16x8xf32>
  func.return
}

// -----

// The fragment that each lane holds of a tile.
// CHECK: %r = simt.mma_sync %c, %a, %b shape [16, 8, 16] : vector<2x2x2xf16>, vector<4xf16> into vector<4xf32>
// CHECK: %s = simt.exchange_rows %x : vector<8xf16> to vector<8xf16>
// CHECK: %t = simt.exchange_rows transposed %x : vector<8xf16> to vector<4xf16>
func.func @fragments(%c: vector<4xf32>, %a: vector<2x2x2xf16>, %b: vector<4xf16>, %x: vector<8xf16>) {
  %r = simt.mma_sync %c, %a, %b shape [16, 8, 16] : vector<2x2x2xf16>, vector<4xf16> into vector<4xf32>
  %s = simt.exchange_rows %x : vector<8xf16> to vector<8xf16>
  %t = simt.exchange_rows transposed %x : vector<8xf16> to vector<4xf16>
  func.return
}

// -----

// A fragment must have 1/32 of the tile's elements.
// CHECK: a lane holds 8 of 16x16 elements, not 4
func.func @fragments(%c: vector<4xf32>, %a: vector<4xf16>, %b: vector<4xf16>) {
  %r = simt.mma_sync %c, %a, %b shape [16, 8, 16] : vector<4xf16>, vector<4xf16> into vector<4xf32>
  func.return
}

// -----

// Whole matrices are loaded by the warp together.
// CHECK: a lane must receive two elements of one, two or four matrices
func.func @fragments(%x: vector<8xf16>) {
  %s = simt.exchange_rows %x : vector<8xf16> to vector<6xf16>
  func.return
}

// -----

// Asynchronous copies, with and without a condition, and their groups.
// CHECK: simt.copy_async %x[%i] to %s[%i, %i] count 4 : memref<64xf32>, memref<4x64xf32>
// CHECK: simt.copy_async %x[%i] to %s[%i, %i] if %inside count 1 : memref<64xf32>, memref<4x64xf32>
// CHECK: simt.commit_copies
// CHECK: simt.wait_copies pending 2
func.func @copies(%x: memref<64xf32>, %s: memref<4x64xf32>, %i: index, %inside: i1) {
  simt.copy_async %x[%i] to %s[%i, %i] count 4 : memref<64xf32>, memref<4x64xf32>
  simt.copy_async %x[%i] to %s[%i, %i] if %inside count 1 : memref<64xf32>, memref<4x64xf32>
  simt.commit_copies
  simt.wait_copies pending 2
  func.return
}

// -----

// CHECK: 2 indices for a buffer of rank 1
func.func @copies(%x: memref<64xf32>, %s: memref<4x64xf32>, %i: index) {
  simt.copy_async %x[%i, %i] to %s[%i, %i] count 4 : memref<64xf32>, memref<4x64xf32>
  func.return
}

// -----

// CHECK: source and target must have the same element type
func.func @copies(%x: memref<64xf16>, %s: memref<64xf32>, %i: index) {
  simt.copy_async %x[%i] to %s[%i] count 4 : memref<64xf16>, memref<64xf32>
  func.return
}

// -----

// CHECK: count must be at least 1
func.func @copies(%x: memref<64xf32>, %s: memref<64xf32>, %i: index) {
  simt.copy_async %x[%i] to %s[%i] count 0 : memref<64xf32>, memref<64xf32>
  func.return
}

// -----

// CHECK: pending must not be negative
func.func @copies() {
  simt.wait_copies pending -1
  func.return
}
