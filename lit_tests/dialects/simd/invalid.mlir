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
