// RUN: tcopt %s -p 'set-target{cpu=haswell},fuse-ops,lower-graph-to-te,te-inline,lower-te-to-loop,schedule' | filecheck %s

// The loop over a block of input channels is unrolled in the register tile of the products.
// CHECK:      sched.reorder %rc, %ra, %s, %b_2
// CHECK-NEXT: %products_init = sched.decompose_reduction %products at %rc
// CHECK:      sched.unroll %ra
func.func @f(%x: tensor<1x4x12x12x8xf32>, %w: tensor<6x6x4x4x8x8xf32>) -> tensor<1x4x12x12x8xf32> {
  %y = graph.winograd_conv %x, %w {tile = 4, pads = [1, 1, 1, 1]} : tensor<1x4x12x12x8xf32>
  return %y : tensor<1x4x12x12x8xf32>
}
