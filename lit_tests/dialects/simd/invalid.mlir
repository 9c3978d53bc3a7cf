// RUN: tcopt %s --verify-diagnostics --split-input-file | filecheck %s

// There must be one group for each element of the accumulator.
// CHECK: groups of vector<4x2xbf16> do not fit vector<8xf32>
func.func @f(%c: vector<8xf32>, %a: vector<4x2xbf16>) {
  %0 = simd.dot %c, %a, %a : vector<4x2xbf16> into vector<8xf32>
  return
}

// -----

// Floats cannot accumulate products of integers.
// CHECK: products of i8 cannot be accumulated in f32
func.func @f(%c: f32, %a: vector<4xi8>) {
  %0 = simd.dot %c, %a, %a : vector<4xi8> into f32
  return
}

// -----

// The accumulator must be wider than the factors.
// CHECK: products of f32 cannot be accumulated in f32
func.func @f(%c: f32, %a: vector<2xf32>) {
  %0 = simd.dot %c, %a, %a : vector<2xf32> into f32
  return
}

// -----

// Only integers can be unsigned.
// CHECK: only integers are unsigned
func.func @f(%c: f32, %a: vector<2xbf16>) {
  %0 = simd.dot %c, %a, %a {rhs_unsigned} : vector<2xbf16> into f32
  return
}

// -----

func.func @room(%acc: i32, %x: vector<3x16xi8>) -> i32 {
  // expected-error @+1 {{i32 has no room for 48 numbers}}
  %0 = simd.pack_bits %acc, %x : vector<3x16xi8> into i32
  return %0 : i32
}

// -----

func.func @bits(%acc: vector<9xi32>, %x: vector<16xi8>) -> vector<9xi32> {
  // expected-error @+1 {{i8 has no 9 bits}}
  %0 = simd.pack_bits %acc, %x : vector<16xi8> into vector<9xi32>
  return %0 : vector<9xi32>
}

// -----

// Entries of more than 7 bits need two tables.
func.func @parts(%acc: i32, %t: vector<16xi8>, %i: i8) -> i32 {
  // expected-error @+1 {{1 tables of entries of 10 bits}}
  %0 = simd.table_sum %acc tables(%t) at(%i) {planes = 1 : i64, bits = 10 : i64} : vector<16xi8> at i8 into i32
  return %0 : i32
}

// -----

// There must be an index vector for each table and plane.
func.func @indices(%acc: i32, %t: vector<16xi8>, %i: i8) -> i32 {
  // expected-error @+1 {{1 indices for 1 entries in 2 planes}}
  %0 = simd.table_sum %acc tables(%t) at(%i) {planes = 2 : i64, bits = 7 : i64} : vector<16xi8> at i8 into i32
  return %0 : i32
}

// -----

// There must be an index for each lane.
func.func @lanes(%acc: vector<4xi32>, %t: vector<16xi8>, %i: i8) -> vector<4xi32> {
  // expected-error @+1 {{tables and indices should be i8, for each lane of (4,)}}
  %0 = simd.table_sum %acc tables(%t) at(%i) {planes = 1 : i64, bits = 7 : i64} : vector<16xi8> at i8 into vector<4xi32>
  return %0 : vector<4xi32>
}

// -----

// The number of entries must be the power of two that the index bits address.
func.func @power_of_two(%acc: i32, %t: vector<12xi8>, %i: i8) -> i32 {
  // expected-error @+1 {{tables should be of one type, and a power of two long}}
  %0 = simd.table_sum %acc tables(%t) at(%i) {planes = 1 : i64, bits = 7 : i64} : vector<12xi8> at i8 into i32
  return %0 : i32
}

// -----

// Each code of a byte has its own factors.
func.func @fields(%acc: i32, %x: vector<4xi8>) {
  // expected-error @+1 {{1 factors for codes of 4 bits}}
  %0 = simd.code_dot %acc, %acc by(%x) {bits = 4} : vector<4xi8> into i32
  return
}

// -----

// A word has four bytes.
func.func @bytes(%acc: i32, %x: vector<8xi8>) {
  // expected-error @+1 {{factors should be vector<4xi8>}}
  %0 = simd.code_dot %acc, %acc by(%x) {bits = 8} : vector<8xi8> into i32
  return
}

// -----

// Sums are as wide as words.
func.func @words(%acc: i64, %x: vector<4xi8>) {
  // expected-error @+1 {{words and sums should be i32, not i64}}
  %0 = simd.code_dot %acc, %acc by(%x) {bits = 8} : vector<4xi8> into i64
  return
}
