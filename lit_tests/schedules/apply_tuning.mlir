// RUN: tcopt %s -p 'apply-tuning{file="%S/Inputs/apply_tuning.tuned.mlir"}' --split-input-file --verify-diagnostics | filecheck %s
// RUN: tcopt %s -p 'apply-tuning{file="%S/Inputs/apply_tuning.tuned.mlir" locked=true}' --split-input-file --verify-diagnostics | filecheck %s --check-prefix LOCKED

// A function that computes an entry's expression gets its schedule, whatever its name; if the steps
// do not apply, the default schedule may be used instead.
// CHECK-LABEL: te.func @twice
// CHECK:       sched.sequence @twice_schedule for @twice attributes {rule = "by-hand", tuned.optional} {
// CHECK-NEXT:    %double = sched.get_block "double"
// CHECK-NEXT:    %i = sched.get_loops %double
// CHECK-NEXT:    %io, %ii = sched.split %i by [?, 16]
// CHECK-NEXT:    sched.vectorize %ii
// LOCKED:      sched.sequence @twice_schedule for @twice attributes {rule = "by-hand"} {
te.func @twice(%a: tensor<64xf32>) -> tensor<64xf32> {
  %b = te.compute "double" [%n = 64] : tensor<64xf32> {
    %0 = te.read %a[%n] : tensor<64xf32>
    %1 = arith.addf %0, %0 : f32
    te.yield %1 : f32
  }
  te.return %b : tensor<64xf32>
}

// -----

// Functions without an entry are left to the rules; a locked file must have an entry for each.
// CHECK-LABEL: te.func @longer
// CHECK-NOT:   sched.sequence
// LOCKED:      the lock file has no entry for @longer
te.func @longer(%a: tensor<65xf32>) -> tensor<65xf32> {
  %b = te.compute "double" [%n = 65] : tensor<65xf32> {
    %0 = te.read %a[%n] : tensor<65xf32>
    %1 = arith.addf %0, %0 : f32
    te.yield %1 : f32
  }
  te.return %b : tensor<65xf32>
}

// -----

// Graph operators get their chosen options, for the passes that run later.
// CHECK-LABEL: func.func @main
// CHECK:       graph.relu %x {tune.block = 16, tune.form = "direct"}
// CHECK:       graph.relu %z : tensor<2x4xf32>
func.func @main(%x: tensor<1x4xf32>, %z: tensor<2x4xf32>) -> (tensor<1x4xf32>, tensor<2x4xf32>) {
  %0 = graph.relu %x : tensor<1x4xf32>
  %1 = graph.relu %z : tensor<2x4xf32>
  func.return %0, %1 : tensor<1x4xf32>, tensor<2x4xf32>
}
