// RUN: tcopt %s --split-input-file --verify-diagnostics | filecheck %s

// A value of another thread of the warp.
// CHECK: %r = simt.shuffle %v xor 16 : f32
func.func @shuffle(%v: f32) {
  %r = simt.shuffle %v xor 16 : f32
  func.return
}

// -----

// Threads come in pairs.
// CHECK: 3 is no power of two
func.func @shuffle(%v: f32) {
  %r = simt.shuffle %v xor 3 : f32
  func.return
}
