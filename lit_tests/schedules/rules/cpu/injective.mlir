// RUN: tcopt %s -p fuse-ops,lower-graph-to-te,te-inline,lower-te-to-loop,schedule --split-input-file | filecheck %s

// Elementwise work is parallel over rows and vectorised along them.
// CHECK:      sched.sequence @add_1_schedule for @add_1 attributes {rule = "cpu-injective", declined = {{{.*}}"cpu-contraction" = "0 blocks add products of two loaded values, one is wanted"{{.*}}, "cpu-reduction" = "no block reduces"}} {
// CHECK-NEXT: %add = sched.get_block "add"
// CHECK-NEXT: %i0, %i1 = sched.get_loops %add
// CHECK-NEXT: %i1o, %i1m, %i1i = sched.split %i1 by [?, 2, 8]
// CHECK-NEXT: sched.vectorize %i1i
// CHECK-NEXT: sched.unroll %i1m
// CHECK-NEXT: sched.parallel %i0
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, cores = 2>} {
func.func @add(%x: tensor<300x200xf32>, %y: tensor<200xf32>) -> tensor<300x200xf32> {
  %0 = graph.add %x, %y : tensor<300x200xf32>
  return %0 : tensor<300x200xf32>
}
}

// -----

// Fewer elements than vector lanes form a single vector; small work is not parallel.
// CHECK:      sched.sequence @tanh_schedule for @tanh attributes {rule = "cpu-injective", declined = {{{.*}}"cpu-contraction" = "0 blocks add products of two loaded values, one is wanted"{{.*}}, "cpu-reduction" = "no block reduces"}} {
// CHECK-NEXT: %tanh = sched.get_block "tanh"
// CHECK-NEXT: %i0, %i1 = sched.get_loops %tanh
// CHECK-NEXT: %i1o, %i1i = sched.split %i1 by [?, 8]
// CHECK-NEXT: sched.vectorize %i1i
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, cores = 2>} {
func.func @few(%x: tensor<2x5xf32>) -> tensor<2x5xf32> {
  %0 = graph.tanh %x : tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}
}

// -----

// The number of lanes follows the widest element that is read or written.
// CHECK:      sched.sequence @cast_schedule for @cast attributes {rule = "cpu-injective", declined = {{{.*}}"cpu-contraction" = "0 blocks add products of two loaded values, one is wanted"{{.*}}, "cpu-reduction" = "no block reduces"}} {
// CHECK-NEXT: %cast = sched.get_block "cast"
// CHECK-NEXT: %i0 = sched.get_loops %cast
// CHECK-NEXT: %i0o, %i0m, %i0i = sched.split %i0 by [?, 2, 4]
// CHECK-NEXT: sched.vectorize %i0i
// CHECK-NEXT: sched.unroll %i0m
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, cores = 2>} {
func.func @wide(%x: tensor<40xf32>) -> tensor<40xf64> {
  %0 = graph.cast %x : tensor<40xf64>
  return %0 : tensor<40xf64>
}
}
