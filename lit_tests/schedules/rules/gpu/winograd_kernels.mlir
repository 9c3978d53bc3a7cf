// REQUIRES: long
// RUN: tcopt %s -p 'fuse-ops,lower-graph-to-te,te-inline,merge-axes,lower-te-to-loop,schedule,apply-schedule,expand-borders,compact-buffers,align-storage,lower-blocks,inject-virtual-threads,insert-barriers,vectorize,unroll-loops,hoist-workspace,split-launches,lower-loop-to-kernel,promote-registers,check-races' | filecheck %s

// Three kernels without races; each thread's tile is in SSA values, not in memory.
// CHECK:       func.func private @winograd_plain_conv_0(
// CHECK-NOT:   memref.alloca
// CHECK:       func.func private @winograd_plain_conv_1(
// CHECK:       gpu.barrier
// CHECK:       func.func private @winograd_plain_conv_2(
// CHECK-NOT:   memref.alloca
// CHECK:       vector.store
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 4, max_threads = 16, registers = 128, shared = 4096, vector_bits = 128, cores = 1>} {
func.func @main(%x: tensor<1x8x5x6xf32>, %w: tensor<4x4x8x3xf32>) -> tensor<1x3x5x6xf32> {
  %y = graph.winograd_plain_conv %x, %w {tile = 2, pads = [1, 1, 1, 1]} : tensor<1x3x5x6xf32>
  return %y : tensor<1x3x5x6xf32>
}
}
