// RUN: tcopt %s -p fuse-ops,lower-graph-to-te,te-inline,split-axes,merge-axes,lower-te-to-loop,schedule --split-input-file | filecheck %s

// The scores of a strip of rows are computed, normalised and multiplied before the next strip; the
// transposition is the epilogue of the second product.
// CHECK:      {rule = "cpu-attention", choice = {strip = {{[0-9]+}} : i64, copies = "no", parallel = 2 : i64}} {
// CHECK:      %matmul = sched.get_block "matmul_1"
// CHECK:      %[[STRIP:.*]], %{{.*}} = sched.split %{{.*}} by [?, {{[0-9]+}}]
// CHECK:      %[[OUTER:.*]] = sched.fuse %{{.*}}, %[[STRIP]]
// CHECK-NEXT: sched.parallel %[[OUTER]]
// CHECK:      %softmax = sched.get_block "softmax"
// CHECK-NEXT: sched.compute_at %softmax at %[[OUTER]]
// CHECK:      sched.compute_at %max at %[[ROW:.*]]
// CHECK:      sched.compute_at %matmul_1 at %[[OUTER]]
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, cores = 2>} {
func.func @attention(%q: tensor<12x96x64xf32>, %k: tensor<12x64x96xf32>, %v: tensor<12x96x64xf32>) -> tensor<96x12x64xf32> {
  %0 = graph.matmul %q, %k : tensor<12x96x96xf32>
  %1 = graph.softmax %0 {axis = 2} : tensor<12x96x96xf32>
  %2 = graph.matmul %1, %v : tensor<12x96x64xf32>
  %3 = graph.transpose %2 {perm = [1, 0, 2]} : tensor<96x12x64xf32>
  return %3 : tensor<96x12x64xf32>
}
}
