// RUN: tcopt %s --split-input-file -p expand-math | filecheck %s
// RUN: tcopt %s --split-input-file -p 'expand-math{ops=powf}' | filecheck %s --check-prefix=POW

// exp becomes a polynomial with fused multiply-adds.
func.func private @exp(%x: vector<16xf32>) -> vector<16xf32> {
  %r = math.exp %x : vector<16xf32>
  func.return %r : vector<16xf32>
}
// CHECK-LABEL: func.func private @exp
// CHECK-NOT:   math.exp
// CHECK:       arith.maximumf %x,
// CHECK:       vector.fma
// CHECK:       %r = vector.fma %{{.*}}, %{{.*}}, %{{.*}} : vector<16xf32>
// CHECK-NEXT:  func.return
// POW-LABEL:   func.func private @exp
// POW-NEXT:    math.exp

// -----

// The exponential of a negation uses negated constants; its last product is exact, so it fuses with
// the sum that follows.
func.func private @sigmoid(%x: vector<16xf32>, %one: vector<16xf32>) -> vector<16xf32> {
  %n = arith.negf %x : vector<16xf32>
  %e = math.exp %n : vector<16xf32>
  %s = arith.addf %one, %e : vector<16xf32>
  %r = arith.divf %one, %s : vector<16xf32>
  func.return %r : vector<16xf32>
}
// CHECK-LABEL: func.func private @sigmoid
// CHECK:       arith.minimumf %x,
// CHECK-NOT:   arith.addf
// CHECK:       %s = vector.fma %{{.*}}, %{{.*}}, %one
// CHECK-NEXT:  %r = arith.divf %one, %s
// POW-LABEL:   func.func private @sigmoid

// -----

// Without fused multiply-add in the target, products and sums stay separate.
module attributes {tcopt.target = #target.cpu<triple = "x86_64-linux", vector_bits = 128, registers = 16, l1 = 32768, l2 = 262144>} {
  func.func private @exp(%x: f32) -> f32 {
    %r = math.exp %x : f32
    func.return %r : f32
  }
}
// CHECK-LABEL: func.func private @exp
// CHECK-NOT:   fma
// CHECK:       func.return
// POW-LABEL:   func.func private @exp

// -----

// A cube is two multiplications; a general power is exp2 of a logarithm, computed in f64.
func.func private @power(%x: f32, %y: f32) -> f32 {
  %three = arith.constant 3.0 : f32
  %a = math.powf %x, %three : f32
  %r = math.powf %a, %y : f32
  func.return %r : f32
}
// POW-LABEL:   func.func private @power
// POW:         %[[S:.*]] = arith.mulf %x, %x : f32
// POW-NEXT:    %a = arith.mulf %x, %[[S]] : f32
// POW-NOT:     math.powf
// POW:         arith.extf {{.*}} : f32 to f64
// POW:         %[[SCALE:.*]] = arith.bitcast {{.*}} : i64 to f64
// POW:         %[[WIDE:.*]] = arith.mulf {{.*}}, %[[SCALE]] : f64
// POW-NEXT:    arith.truncf %[[WIDE]] : f64 to f32

// -----

// An f64 power calls the C library.
func.func private @power_f64(%x: f64, %y: f64) -> f64 {
  %r = math.powf %x, %y : f64
  func.return %r : f64
}
// POW-LABEL:   func.func private @power_f64
// POW:         math.powf

// -----

// tanh of f64 is expanded in f64; sin of f64 calls the C library.
func.func private @wide(%x: vector<8xf64>) -> (vector<8xf64>, vector<8xf64>) {
  %r = math.tanh %x : vector<8xf64>
  %s = math.sin %x : vector<8xf64>
  func.return %r, %s : vector<8xf64>, vector<8xf64>
}
// CHECK-LABEL: func.func private @wide
// CHECK-NOT:   math.tanh
// CHECK:       vector.fma {{.*}} : vector<8xf64>
// CHECK:       arith.divf {{.*}} : vector<8xf64>
// CHECK:       math.sin %x : vector<8xf64>
