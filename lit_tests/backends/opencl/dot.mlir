// RUN: tcopt %s -t opencl --split-input-file | filecheck %s

// A helper function sums the products of a group of bytes; its name gives the operand signs.
// CHECK:      int dot_char4_uchar4(int sum, char4 a, uchar4 b)
// CHECK-NEXT: {
// CHECK-NEXT:   return sum + ((int)a.s0 * b.s0 + (int)a.s1 * b.s1 + (int)a.s2 * b.s2 + (int)a.s3 * b.s3);
// CHECK-NEXT: }
// CHECK:      void dot_(
// CHECK:        dot_char4_uchar4(
func.func private @dot_(%x: memref<8xi8>, %y: memref<1xi32>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 1, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %0 = vector.load %x[%c0] : memref<8xi8>, vector<4xi8>
  %1 = vector.load %x[%c4] : memref<8xi8>, vector<4xi8>
  %2 = memref.load %y[%c0] : memref<1xi32>
  %3 = simd.dot %2, %0, %1 {rhs_unsigned} : vector<4xi8> into i32
  memref.store %3, %y[%c0] : memref<1xi32>
  func.return
}

// -----

// Each lane has its own group; a group that all lanes share is not replicated.
// CHECK: (int4)(dot_char4_char4(acc.s0, a, b.s0123), dot_char4_char4(acc.s1, a, b.s4567), dot_char4_char4(acc.s2, a, b.s89ab), dot_char4_char4(acc.s3, a, b.scdef))
func.func private @lanes(%x: memref<16xi8>, %y: memref<4xi32>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 1, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0] : memref<16xi8>, vector<4xi8>
  %b = vector.load %x[%c0] : memref<16xi8>, vector<16xi8>
  %acc = vector.load %y[%c0] : memref<4xi32>, vector<4xi32>
  %0 = vector.broadcast %a : vector<4xi8> to vector<4x4xi8>
  %1 = vector.shape_cast %b : vector<16xi8> to vector<4x4xi8>
  %2 = simd.dot %acc, %0, %1 : vector<4x4xi8> into vector<4xi32>
  vector.store %2, %y[%c0] : memref<4xi32>, vector<4xi32>
  func.return
}
