// RUN: tcopt %s -p lower-te-to-loop,schedule --split-input-file | filecheck %s
// RUN: tcopt %s -p lower-te-to-loop,schedule,apply-schedule --split-input-file | filecheck %s --check-prefix=LOOP

// No rule matches a function with two results: its loops stay, and spatial ones are parallel.
// CHECK:      sched.sequence @f_schedule for @f attributes {rule = "cpu-fallback", declined = {
// CHECK-SAME: "cpu-contraction" = "0 blocks add products of two loaded values, one is wanted",
// CHECK-SAME: "cpu-reduction" = "2 blocks have no consumer, one is wanted",
// CHECK-SAME: "cpu-injective" = "a block reduces"}} {
// CHECK-NEXT: %total = sched.get_block "total"
// CHECK-NEXT: %i, %k = sched.get_loops %total
// CHECK-NEXT: sched.parallel %i
// CHECK-NEXT: %top = sched.get_block "top"
// CHECK-NEXT: %i_1, %k_1 = sched.get_loops %top
// CHECK-NEXT: sched.parallel %i_1
// CHECK-NEXT: }
// LOOP: loop.for %i = 0 to 40 parallel {
// LOOP-NEXT: loop.for %k = 0 to 5000 {
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, cores = 2>} {
te.func @f(%x: tensor<40x5000xf32>) -> (tensor<40xf32>, tensor<40xf32>) {
  %s = te.compute "total" [%i = 40] reduce [%k = 5000] sum : tensor<40xf32> {
    %0 = te.read %x[%i, %k] : tensor<40x5000xf32>
    te.yield %0 : f32
  }
  %m = te.compute "top" [%i = 40] reduce [%k = 5000] max : tensor<40xf32> {
    %0 = te.read %x[%i, %k] : tensor<40x5000xf32>
    te.yield %0 : f32
  }
  te.return %s, %m : tensor<40xf32>, tensor<40xf32>
}
}

// -----

// Without a target, 128-bit vectors and one core are assumed.
// CHECK: sched.sequence @g_schedule for @g attributes {rule = "cpu-injective"
// CHECK: sched.split %i by [?, 2, 4]
te.func @g(%x: tensor<99xf32>) -> tensor<99xf32> {
  %y = te.compute "twice" [%i = 99] : tensor<99xf32> {
    %0 = te.read %x[%i] : tensor<99xf32>
    %1 = arith.addf %0, %0 : f32
    te.yield %1 : f32
  }
  te.return %y : tensor<99xf32>
}

// -----

// A function that has a schedule keeps it.
// CHECK: sched.sequence @mine for @h {
// CHECK-NOT: sched.sequence
te.func @h(%x: tensor<99xf32>) -> tensor<99xf32> {
  %y = te.compute "twice" [%i = 99] : tensor<99xf32> {
    %0 = te.read %x[%i] : tensor<99xf32>
    %1 = arith.addf %0, %0 : f32
    te.yield %1 : f32
  }
  te.return %y : tensor<99xf32>
}
sched.sequence @mine for @h {
  %b = sched.get_block "twice"
}
