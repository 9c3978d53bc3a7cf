// RUN: not tcopt %s -t llvm 2>&1 | filecheck %s

// An op without an emit rule is reported by name.
func.func @print(%x: f32) {
  "vector.print"(%x) : (f32) -> ()
  func.return
}
// CHECK: unsupported: 'vector.print': no LLVM emit rule for this op
