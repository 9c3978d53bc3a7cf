// RUN: tcopt %s --verify-diagnostics --split-input-file | filecheck %s

// There is one group for each element of the sum.
// CHECK: groups of vector<4x2xbf16> do not fit vector<8xf32>
func.func @f(%c: vector<8xf32>, %a: vector<4x2xbf16>) {
  %0 = simd.dot %c, %a, %a : vector<4x2xbf16> into vector<8xf32>
  return
}

// -----

// Sums are of the factors' kind, and wider.
// CHECK: products of i8 are not added up in f32
func.func @f(%c: f32, %a: vector<4xi8>) {
  %0 = simd.dot %c, %a, %a : vector<4xi8> into f32
  return
}

// -----

// Sums are of the factors' kind, and wider.
// CHECK: products of f32 are not added up in f32
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
