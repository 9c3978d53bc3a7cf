// RUN: tcopt %s -p fuse-ops,lower-graph-to-te,te-inline,split-axes,merge-axes,lower-te-to-loop,schedule --split-input-file | filecheck %s

// One row reads four vectors of codes at a time, which are unpacked in registers.
// CHECK:      sched.sequence @blockwise_matmul_schedule for @blockwise_matmul attributes {rule = "cpu-blockwise-product", choice = {rows = 1 : i64, vectors = 4 : i64, {{.*}}
// CHECK:      sched.compute_at %products at %b
// CHECK:      sched.unroll %e
// CHECK-NEXT: sched.set_scope %products to register
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, cores = 2>} {
func.func @row(%x: tensor<1x64xf32>, %q: tensor<2x2x4x32xui32>, %s: tensor<2x2x32xf16>) -> tensor<1x64xf32> {
  %0 = graph.blockwise_matmul %x, %q, %s {bits = 4, columns = 64} : tensor<1x64xf32>
  return %0 : tensor<1x64xf32>
}
}

// -----

// Many rows share the unpacked codes; bias and activation are applied tile by tile.
// CHECK:      sched.sequence @fused_blockwise_matmul_add_relu_schedule for @fused_blockwise_matmul_add_relu attributes {rule = "cpu-blockwise-product", choice = {rows = 6 : i64, vectors = 2 : i64, {{.*}}
// CHECK:      %relu = sched.get_block "relu"
// CHECK:      sched.reverse_compute_at %relu
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, cores = 2>} {
func.func @rows(%x: tensor<60x64xf32>, %q: tensor<2x2x4x32xui32>, %s: tensor<2x2x32xf16>, %b: tensor<64xf32>) -> tensor<60x64xf32> {
  %0 = graph.blockwise_matmul %x, %q, %s {bits = 4, columns = 64} : tensor<60x64xf32>
  %1 = graph.add %0, %b : tensor<60x64xf32>
  %2 = graph.relu %1 : tensor<60x64xf32>
  return %2 : tensor<60x64xf32>
}
}

// -----

// The tile of a range of rows suits few rows and many: it has fewer rows than those for the upper
// bound, and more vectors.
// CHECK:      sched.sequence @blockwise_matmul_schedule for @blockwise_matmul attributes {rule = "cpu-blockwise-product", choice = {rows = 2 : i64, vectors = 4 : i64, {{.*}}
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, cores = 2>} {
func.func @range(%x: tensor<60x64xf32, #size.dims<n[1:60], 64>>, %q: tensor<2x2x4x32xui32>, %s: tensor<2x2x32xf16>) -> tensor<60x64xf32, #size.dims<n[1:60], 64>> attributes {size.symbols = #size.dims<n[1:60]>} {
  %0 = graph.blockwise_matmul %x, %q, %s {bits = 4, columns = 64} : tensor<60x64xf32, #size.dims<n[1:60], 64>>
  return %0 : tensor<60x64xf32, #size.dims<n[1:60], 64>>
}
}

// -----

// Data that is rounded to bytes is multiplied with all codes of a word by one intrinsic.
// CHECK:      sched.sequence @blockwise_matmul_schedule for @blockwise_matmul attributes {rule = "cpu-blockwise-product", {{.*}}
// CHECK:      sched.tensorize %products as "code_dot_4"
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, cores = 2>} {
func.func @bytes(%x: tensor<1x64xf32>, %q: tensor<2x2x4x32xui32>, %s: tensor<2x2x32xf16>) -> tensor<1x64xf32> {
  %0 = graph.blockwise_matmul %x, %q, %s {bits = 4, columns = 64, rounded} : tensor<1x64xf32>
  return %0 : tensor<1x64xf32>
}
}
