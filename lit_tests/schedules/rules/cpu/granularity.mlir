// RUN: tcopt %s -p fuse-ops,lower-graph-to-te,te-inline,lower-te-to-loop,schedule --split-input-file | filecheck %s

// A kernel of a few microseconds stays on one thread.
// CHECK:      sched.sequence @relu_schedule for @relu
// CHECK-NOT:  sched.parallel
// CHECK:      }
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, cores = 2>} {
func.func @small(%x: tensor<64x80xf32>) -> tensor<64x80xf32> {
  %0 = graph.relu %x : tensor<64x80xf32>
  return %0 : tensor<64x80xf32>
}
}

// -----

// The rows of a larger kernel are distributed over threads: enough for both cores, with a balanced
// load.
// CHECK:      sched.sequence @relu_schedule for @relu
// CHECK:      %i0_i1 = sched.fuse %i0, %i1
// CHECK-NEXT: sched.parallel %i0_i1
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, cores = 2>} {
func.func @rows(%x: tensor<4x16x50x80xf32>) -> tensor<4x16x50x80xf32> {
  %0 = graph.relu %x : tensor<4x16x50x80xf32>
  return %0 : tensor<4x16x50x80xf32>
}
}

// -----

// The 24 rows of a convolution would suffice, but each takes so long that its tiles are distributed
// too.
// CHECK:      sched.sequence @blocked_conv_schedule for @blocked_conv
// CHECK:      %n_i2_i3o = sched.fuse %n, %i2, %i3o
// CHECK-NEXT: sched.parallel %n_i2_i3o
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, cores = 2>} {
func.func @tiles(%x: tensor<1x8x24x24x8xf32>, %w: tensor<32x8x1x1x8x8xf32>) -> tensor<1x32x24x24x8xf32> {
  %0 = graph.blocked_conv %x, %w : tensor<1x32x24x24x8xf32>
  return %0 : tensor<1x32x24x24x8xf32>
}
}

// -----

// A loop over a size is the outermost of the loops it is fused with: its last iterations may not be
// visited.
// CHECK:      sched.sequence @blocked_conv_schedule for @blocked_conv
// CHECK:      %i2_i3o = sched.fuse %i2, %i3o
// CHECK-NEXT: sched.parallel %n
// CHECK-NEXT: sched.parallel %i2_i3o
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, cores = 2>} {
func.func @sized(%x: tensor<2x8x24x24x8xf32, #size.dims<2, 8, h[1:24], 24, 8>>, %w: tensor<32x8x1x1x8x8xf32>) -> tensor<2x32x24x24x8xf32, #size.dims<2, 32, h[1:24], 24, 8>> attributes {size.symbols = #size.dims<h[1:24]>} {
  %0 = graph.blocked_conv %x, %w : tensor<2x32x24x24x8xf32, #size.dims<2, 32, h[1:24], 24, 8>>
  return %0 : tensor<2x32x24x24x8xf32, #size.dims<2, 32, h[1:24], 24, 8>>
}
}
