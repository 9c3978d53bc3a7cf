// RUN: tcopt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// RUN: not tcopt %s --split-input-file 2>&1 >/dev/null | filecheck %s --check-prefix STDERR

// A value used before it is defined in the same block.
func.func @use_before_def() {
  "test.op"(%later) : (f32) -> ()
  %later = "test.op"() : () -> f32
  func.return
}
// CHECK: invalid-ir: 'test.op': %later does not dominate this use: it is defined by 'test.op' at {{.*}}verify.mlir:7:3 (at {{.*}}verify.mlir:6:3)

// -----

// A value defined in one branch and used in another.
func.func @other_branch(%c: i1) {
  "cf.cond_br"(%c)[^left, ^right] <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (i1) -> ()
^left:
  %x = "test.op"() : () -> f32
  "cf.br"() [^right] : () -> ()
^right:
  "test.op"(%x) : (f32) -> ()
  func.return
}
// CHECK: invalid-ir: 'test.op': %x does not dominate this use

// -----

// A value used inside the op that defines it.
func.func @inside_itself() {
  %x = "test.op"() ({
    "test.termop"(%x) : (f32) -> ()
  }) : () -> f32
  func.return
}
// CHECK: invalid-ir: 'test.termop': %x does not dominate this use

// -----

// An op's own verifier, with the location of the op.
func.func @wrong_return() -> i32 {
  func.return
}
// CHECK: invalid-ir: 'func.return': Expected arguments to have the same types as the function output types: expected [i32], got [] (at {{.*}}verify.mlir:41:3)

// -----

// A syntax error is reported with the line of the whole file.
func.func @syntax( {
}
// CHECK: syntax: {{.*}}verify.mlir:48:20:

// -----

// Order is irrelevant at the top level of a module, and a dominating block defines values for later
// ones.
func.func @fine(%c: i1) {
  %x = "test.op"() : () -> f32
  "cf.br"() [^next] : () -> ()
^next:
  "test.op"(%x) ({
    "test.termop"(%x) : (f32) -> ()
  }) : (f32) -> ()
  func.return
}
// CHECK: func.func @fine

// STDERR-COUNT-5: tcopt: {{invalid-ir|syntax}}:
