// RUN: tcopt %s -p 'set-target{cpu=haswell},fuse-ops,lower-graph-to-te,te-inline,lower-te-to-loop,schedule' | filecheck %s

// Pairs of channels form a dot product, which halves the number of steps.
// CHECK:      sched.sequence {{.*}} attributes {rule = "cpu-winograd"
// CHECK:      %[[PAIR:.*]], %[[TERM:.*]] = sched.split %ra by [?, 2]
// CHECK-NEXT: sched.reorder %rc, %[[PAIR]], %s, %b_2, %[[TERM]]
// CHECK-NEXT: %products_init = sched.decompose_reduction %products at %rc
// CHECK-NEXT: sched.tensorize %products as "s16_dot"
// CHECK:      sched.unroll %[[PAIR]]
// Rows of 16-bit data and of 32-bit sums are an odd number of cache lines apart.
// CHECK:      sched.storage_align %data dim 1 by 64 + 32
// CHECK:      sched.storage_align %products_store dim 1 by 32 + 16
func.func @f(%x: tensor<1x4x12x12x8xi16>, %w: tensor<6x6x4x4x4x8x2xi16>) -> tensor<1x4x12x12x8xi32> {
  %y = graph.winograd_conv %x, %w {tile = 4, pads = [1, 1, 1, 1]} : tensor<1x4x12x12x8xi32>
  return %y : tensor<1x4x12x12x8xi32>
}
