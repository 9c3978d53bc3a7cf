// RUN: tcopt %s | tcopt | filecheck %s
// RUN: tcopt %s --print-op-generic | tcopt | filecheck %s

// Floats printed as bit patterns are parsed again, also in vectors and arrays.
// CHECK: arith.constant 0x4B40007F : f32
// CHECK: arith.constant dense<0x4B40007F> : vector<4xf32>
// CHECK: arith.constant dense<[1.000000e+00, 0x4B40007F, 0x7f800000, 0x7fc00000]> : vector<4xf32>
// CHECK: note = array<f64: 0x7ff0000000000000, 1.000000e+22>
func.func @f() {
  %0 = arith.constant 0x4B40007F : f32
  %1 = arith.constant dense<0x4B40007F> : vector<4xf32>
  %2 = arith.constant dense<[1.0, 0x4B40007F, 0x7f800000, 0x7fc00000]> : vector<4xf32>
  func.return {note = array<f64: 0x7ff0000000000000, 1.0e+22>}
}

// Conversions between unsigned integers and floats, and a read of the clock, round-trip.
// CHECK: arith.fptoui %x : f32 to i32
// CHECK: profile.clock : i64
// CHECK: arith.uitofp %{{.*}} : i32 to f32
func.func @unsigned(%x: f32) -> f32 {
  %0 = arith.fptoui %x : f32 to i32
  %1 = profile.clock : i64
  %2 = arith.uitofp %0 : i32 to f32
  func.return %2 : f32
}
