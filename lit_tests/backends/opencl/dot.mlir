// RUN: tcopt %s -t opencl | filecheck %s

// Products of a group of bytes are added up by a function; signs are those of its operands.
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
