// RUN: tcopt %s | tcopt | filecheck %s
// RUN: tcopt %s --print-op-generic | tcopt | filecheck %s

// Dot products of a group for each lane, of a single group, and of integers of either signedness.
// CHECK-LABEL: func.func @dots
// CHECK-NEXT:    %0 = simd.dot %c, %a, %b : vector<8x2xbf16> into vector<8xf32>
// CHECK-NEXT:    %1 = simd.dot %s, %p, %q : vector<2xf16> into f32
// CHECK-NEXT:    %2 = simd.dot %i, %u, %v {lhs_unsigned} : vector<4xi8> into i32
func.func @dots(%c: vector<8xf32>, %a: vector<8x2xbf16>, %b: vector<8x2xbf16>, %s: f32, %p: vector<2xf16>, %q: vector<2xf16>, %i: i32, %u: vector<4xi8>, %v: vector<4xi8>) {
  %0 = simd.dot %c, %a, %b : vector<8x2xbf16> into vector<8xf32>
  %1 = simd.dot %s, %p, %q : vector<2xf16> into f32
  %2 = simd.dot %i, %u, %v {lhs_unsigned} : vector<4xi8> into i32
  return
}

// -----

// The lowest two bits of 32 bytes as a word each; and the lowest bits alone.
// CHECK-LABEL: func.func @pack_bits
// CHECK: simd.pack_bits %acc, %x : vector<2x16xi8> into vector<2xi32>
// CHECK: simd.pack_bits %one, %y : vector<16xi16> into i32
func.func @pack_bits(%acc: vector<2xi32>, %one: i32, %x: vector<2x16xi8>, %y: vector<16xi16>) -> (vector<2xi32>, i32) {
  %0 = simd.pack_bits %acc, %x : vector<2x16xi8> into vector<2xi32>
  %1 = simd.pack_bits %one, %y : vector<16xi16> into i32
  return %0, %1 : vector<2xi32>, i32
}

// -----

// Sums of entries of two tables: of one byte, and of two bytes with two weight planes.
// CHECK-LABEL: func.func @table_sum
// CHECK-NEXT: simd.table_sum %acc tables(%t, %t) at(%i, %i) {planes = 1 : i64, bits = 5 : i64} : vector<64xi8>, vector<64xi8> at vector<8xi8>, vector<8xi8> into vector<8xi32>
// CHECK-NEXT: simd.table_sum %one tables(%t, %t) at(%j, %j) {planes = 2 : i64, bits = 11 : i64, signed} : vector<64xi8>, vector<64xi8> at i8, i8 into i32
func.func @table_sum(%acc: vector<8xi32>, %one: i32, %t: vector<64xi8>, %i: vector<8xi8>, %j: i8) -> (vector<8xi32>, i32) {
  %0 = simd.table_sum %acc tables(%t, %t) at(%i, %i) {planes = 1 : i64, bits = 5 : i64} : vector<64xi8>, vector<64xi8> at vector<8xi8>, vector<8xi8> into vector<8xi32>
  %1 = simd.table_sum %one tables(%t, %t) at(%j, %j) {planes = 2 : i64, bits = 11 : i64, signed} : vector<64xi8>, vector<64xi8> at i8, i8 into i32
  return %0, %1 : vector<8xi32>, i32
}

// -----

// Codes of 4 bits, two in each byte of a word, with four bytes for each of the two.
// CHECK-LABEL: func.func @code_dot
// CHECK-NEXT: simd.code_dot %acc, %w by(%x, %y) {bits = 4 : i64} : vector<4xi8>, vector<4xi8> into vector<8xi32>
// CHECK-NEXT: simd.code_dot %one, %one by(%x) {bits = 8 : i64} : vector<4xi8> into i32
func.func @code_dot(%acc: vector<8xi32>, %w: vector<8xi32>, %one: i32, %x: vector<4xi8>, %y: vector<4xi8>) {
  %0 = simd.code_dot %acc, %w by(%x, %y) {bits = 4} : vector<4xi8>, vector<4xi8> into vector<8xi32>
  %1 = simd.code_dot %one, %one by(%x) {bits = 8} : vector<4xi8> into i32
  return
}
