// RUN: tcopt %s --verify-diagnostics --split-input-file | filecheck %s

// There is one group for each element of the sum.
// CHECK: groups of vector<4x2xbf16> do not fit vector<8xf32>
func.func @f(%c: vector<8xf32>, %a: vector<4x2xbf16>) {
  %0 = simd.dot %c, %a, %a : vector<4x2xbf16> into vector<8xf32>
  return
}

// -----

// Sums are of the factors' kind, and wider.
// CHECK: products of i8 cannot be accumulated in f32
func.func @f(%c: f32, %a: vector<4xi8>) {
  %0 = simd.dot %c, %a, %a : vector<4xi8> into f32
  return
}

// -----

// Sums are of the factors' kind, and wider.
// CHECK: products of f32 cannot be accumulated in f32
func.func @f(%c: f32, %a: vector<2xf32>) {
  %0 = simd.dot %c, %a, %a : vector<2xf32> into f32
  return
}

// -----

// Floats have a sign.
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

// Entries of more than 7 bits have two tables.
func.func @parts(%acc: i32, %t: vector<16xi8>, %i: i8) -> i32 {
  // expected-error @+1 {{1 tables of entries of 10 bits}}
  %0 = simd.table_sum %acc tables(%t) at(%i) {planes = 1 : i64, bits = 10 : i64} : vector<16xi8> at i8 into i32
  return %0 : i32
}

// -----

// There is an index for each table and plane.
func.func @indices(%acc: i32, %t: vector<16xi8>, %i: i8) -> i32 {
  // expected-error @+1 {{1 indices for 1 entries in 2 planes}}
  %0 = simd.table_sum %acc tables(%t) at(%i) {planes = 2 : i64, bits = 7 : i64} : vector<16xi8> at i8 into i32
  return %0 : i32
}

// -----

// There is an index for each lane.
func.func @lanes(%acc: vector<4xi32>, %t: vector<16xi8>, %i: i8) -> vector<4xi32> {
  // expected-error @+1 {{tables and indices should be i8, for each lane of (4,)}}
  %0 = simd.table_sum %acc tables(%t) at(%i) {planes = 1 : i64, bits = 7 : i64} : vector<16xi8> at i8 into vector<4xi32>
  return %0 : vector<4xi32>
}

// -----

// Of an index the last bits count, so there are as many entries as they tell apart.
func.func @power_of_two(%acc: i32, %t: vector<12xi8>, %i: i8) -> i32 {
  // expected-error @+1 {{tables should be of one type, and a power of two long}}
  %0 = simd.table_sum %acc tables(%t) at(%i) {planes = 1 : i64, bits = 7 : i64} : vector<12xi8> at i8 into i32
  return %0 : i32
}
