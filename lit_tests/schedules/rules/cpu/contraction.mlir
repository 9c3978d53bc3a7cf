// RUN: tcopt %s -p fuse-ops,lower-graph-to-te,te-inline,lower-te-to-loop,schedule --split-input-file | filecheck %s

// A convolution over NCHW is vectorised along its width and tiled over channels; padding is a
// separate stage.
// CHECK:      sched.sequence @conv_1_schedule for @conv_1 attributes {rule = "cpu-contraction"{{.*}}
// CHECK-NEXT: %conv = sched.get_block "conv"
// CHECK-NEXT: %conv_store = sched.cache_write %conv into register
// CHECK-NEXT: %n, %c, %y, %x, %rc, %ry, %rx = sched.get_loops %conv
// CHECK-NEXT: %co, %ci = sched.split %c by [?, 6]
// CHECK-NEXT: %xo, %xm, %xi = sched.split %x by [?, 2, 8]
// CHECK-NEXT: sched.reorder %n, %y, %xo, %co, %rc, %ry, %rx, %ci, %xm, %xi
// CHECK-NEXT: %n_y_xo = sched.fuse %n, %y, %xo
// CHECK-NEXT: sched.parallel %n_y_xo
// CHECK-NEXT: %conv_init = sched.decompose_reduction %conv at %rc
// CHECK-NEXT: sched.set_scope %conv to register
// CHECK-NEXT: sched.vectorize %xi
// CHECK-NEXT: sched.unroll %ci
// CHECK-NEXT: sched.unroll %xm
// CHECK-NEXT: %n_y_xo_1, %co_1, %ci_1, %xm_1, %xi_1 = sched.get_loops %conv_init
// CHECK-NEXT: sched.vectorize %xi_1
// CHECK-NEXT: sched.unroll %ci_1
// CHECK-NEXT: sched.unroll %xm_1
// CHECK-NEXT: sched.unroll %rx
// CHECK-NEXT: sched.unroll %ry
// CHECK-NEXT: sched.reverse_compute_at %conv_store at %co
// CHECK-NEXT: %n_y_xo_2, %co_2, %d1, %d3 = sched.get_loops %conv_store
// CHECK-NEXT: %d3o, %d3i = sched.split %d3 by [?, 8]
// CHECK-NEXT: sched.vectorize %d3i
// CHECK-NEXT: sched.unroll %d1
// CHECK-NEXT: sched.unroll %d3o
// CHECK-NEXT: %pad = sched.get_block "pad"
// CHECK-NEXT: %n_1, %c_1, %y_1, %x_1 = sched.get_loops %pad
// CHECK-NEXT: %xo_1, %xi_2 = sched.split %x_1 by [2, 8]
// CHECK-NEXT: sched.vectorize %xi_2
// CHECK-NEXT: sched.unroll %xo_1
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, cores = 2>} {
func.func @conv(%x: tensor<1x8x14x14xf32>, %w: tensor<16x8x3x3xf32>) -> tensor<1x16x14x14xf32> {
  %0 = graph.conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x16x14x14xf32>
  return %0 : tensor<1x16x14x14xf32>
}
}

// -----

// With blocked channels the vectors are blocks, and tiles extend along the width.
// CHECK:      sched.sequence @blocked_conv_schedule for @blocked_conv attributes {rule = "cpu-contraction"{{.*}}
// CHECK-NEXT: %conv = sched.get_block "conv"
// CHECK-NEXT: %conv_store = sched.cache_write %conv into register
// CHECK-NEXT: %n, %o, %i2, %i3, %i4, %rc, %ry, %rx, %ri = sched.get_loops %conv
// CHECK-NEXT: %i3o, %i3i = sched.split %i3 by [?, 6]
// CHECK-NEXT: %oo, %oi = sched.split %o by [?, 2]
// CHECK-NEXT: sched.reorder %n, %oo, %i2, %i3o, %rc, %ry, %rx, %ri, %i3i, %oi, %i4
// CHECK-NEXT: %n_oo_i2 = sched.fuse %n, %oo, %i2
// CHECK-NEXT: sched.parallel %n_oo_i2
// CHECK-NEXT: %conv_init = sched.decompose_reduction %conv at %rc
// CHECK-NEXT: sched.set_scope %conv to register
// CHECK-NEXT: sched.vectorize %i4
// CHECK-NEXT: sched.unroll %i3i
// CHECK-NEXT: sched.unroll %oi
// CHECK-NEXT: %n_oo_i2_1, %i3o_1, %i3i_1, %oi_1, %i4_1 = sched.get_loops %conv_init
// CHECK-NEXT: sched.vectorize %i4_1
// CHECK-NEXT: sched.unroll %i3i_1
// CHECK-NEXT: sched.unroll %oi_1
// CHECK-NEXT: sched.unroll %ri
// CHECK-NEXT: sched.unroll %rx
// CHECK-NEXT: sched.unroll %ry
// CHECK-NEXT: sched.reverse_compute_at %conv_store at %i3o
// CHECK-NEXT: %n_oo_i2_2, %i3o_2, %d1, %d3, %d4 = sched.get_loops %conv_store
// CHECK-NEXT: sched.vectorize %d4
// CHECK-NEXT: sched.unroll %d1
// CHECK-NEXT: sched.unroll %d3
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, cores = 2>} {
func.func @blocked(%x: tensor<1x2x12x12x8xf32>, %w: tensor<4x2x1x1x8x8xf32>) -> tensor<1x4x12x12x8xf32> {
  %0 = graph.blocked_conv %x, %w : tensor<1x4x12x12x8xf32>
  return %0 : tensor<1x4x12x12x8xf32>
}
}

// -----

// A depthwise convolution has no vector shared by several rows, but is tiled along the width too.
// CHECK:      sched.sequence @blocked_conv_schedule for @blocked_conv attributes {rule = "cpu-contraction"{{.*}}
// CHECK-NEXT: %conv = sched.get_block "conv"
// CHECK-NEXT: %conv_store = sched.cache_write %conv into register
// CHECK-NEXT: %n, %o, %i2, %i3, %i4, %ry, %rx = sched.get_loops %conv
// CHECK-NEXT: %i3o, %i3i = sched.split %i3 by [?, 6]
// CHECK-NEXT: sched.reorder %n, %o, %i2, %i3o, %ry, %rx, %i3i, %i4
// CHECK-NEXT: %n_o_i2 = sched.fuse %n, %o, %i2
// CHECK-NEXT: sched.parallel %n_o_i2
// CHECK-NEXT: %conv_init = sched.decompose_reduction %conv at %ry
// CHECK-NEXT: sched.set_scope %conv to register
// CHECK-NEXT: sched.vectorize %i4
// CHECK-NEXT: sched.unroll %i3i
// CHECK-NEXT: %n_o_i2_1, %i3o_1, %i3i_1, %i4_1 = sched.get_loops %conv_init
// CHECK-NEXT: sched.vectorize %i4_1
// CHECK-NEXT: sched.unroll %i3i_1
// CHECK-NEXT: sched.unroll %rx
// CHECK-NEXT: sched.unroll %ry
// CHECK-NEXT: sched.reverse_compute_at %conv_store at %i3o
// CHECK-NEXT: %n_o_i2_2, %i3o_2, %d3, %d4 = sched.get_loops %conv_store
// CHECK-NEXT: sched.vectorize %d4
// CHECK-NEXT: sched.unroll %d3
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, cores = 2>} {
func.func @depthwise(%x: tensor<1x8x14x14x8xf32>, %w: tensor<8x3x3x8xf32>) -> tensor<1x8x12x12x8xf32> {
  %0 = graph.blocked_conv %x, %w : tensor<1x8x12x12x8xf32>
  return %0 : tensor<1x8x12x12x8xf32>
}
}

// -----

// For narrow images a tile covers several rows. Threads share the tiles of rows, the only parallel
// axis, although the last tile is smaller.
// CHECK:      sched.sequence @blocked_conv_schedule for @blocked_conv attributes {rule = "cpu-contraction"{{.*}}
// CHECK-NEXT: %conv = sched.get_block "conv"
// CHECK-NEXT: %conv_store = sched.cache_write %conv into register
// CHECK-NEXT: %n, %o, %i2, %i3, %i4, %rc, %ry, %rx, %ri = sched.get_loops %conv
// CHECK-NEXT: %i2o, %i2i = sched.split %i2 by [?, 2]
// CHECK-NEXT: %i3o, %i3i = sched.split %i3 by [?, 7]
// CHECK-NEXT: %oo, %oi = sched.split %o by [?, 2]
// CHECK-NEXT: sched.reorder %i2o, %n, %oo, %i3o, %rc, %ry, %rx, %ri, %i2i, %i3i, %oi, %i4
// CHECK-NEXT: sched.parallel %i2o
// CHECK-NEXT: %conv_init = sched.decompose_reduction %conv at %rc
// CHECK-NEXT: sched.set_scope %conv to register
// CHECK-NEXT: sched.vectorize %i4
// CHECK-NEXT: sched.unroll %i2i
// CHECK-NEXT: sched.unroll %i3i
// CHECK-NEXT: sched.unroll %oi
// CHECK-NEXT: %i2o_1, %n_1, %oo_1, %i3o_1, %i2i_1, %i3i_1, %oi_1, %i4_1 = sched.get_loops %conv_init
// CHECK-NEXT: sched.vectorize %i4_1
// CHECK-NEXT: sched.unroll %i2i_1
// CHECK-NEXT: sched.unroll %i3i_1
// CHECK-NEXT: sched.unroll %oi_1
// CHECK-NEXT: sched.reverse_compute_at %conv_store at %i3o
// CHECK-NEXT: %i2o_2, %n_2, %oo_2, %i3o_2, %d1, %d2, %d3, %d4 = sched.get_loops %conv_store
// CHECK-NEXT: sched.vectorize %d4
// CHECK-NEXT: sched.unroll %d1
// CHECK-NEXT: sched.unroll %d2
// CHECK-NEXT: sched.unroll %d3
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "skylake-avx512", vector_bits = 512, registers = 32, l1 = 32768, l2 = 1048576, cores = 2>} {
func.func @narrow(%x: tensor<1x4x9x9x16xf32>, %w: tensor<2x4x3x3x16x16xf32>) -> tensor<1x2x7x7x16xf32> {
  %0 = graph.blocked_conv %x, %w : tensor<1x2x7x7x16xf32>
  return %0 : tensor<1x2x7x7x16xf32>
}
}

// -----

// An epilogue with functions becomes a loop over the vectors of a tile, whose sums are stored
// first.
// CHECK:      sched.sequence @fused_blocked_conv_sigmoid_mul_schedule for @fused_blocked_conv_sigmoid_mul attributes {rule = "cpu-contraction"{{.*}}
// CHECK:      sched.reverse_compute_at %mul at %[[OUTER:.*]]
// CHECK-NEXT: %conv_local = sched.cache_read %mul of 0 into local
// CHECK-NEXT: %{{.*}} = sched.get_loops %conv_local
// CHECK-NEXT: sched.vectorize %
// CHECK-NEXT: sched.unroll %
// CHECK-NEXT: sched.unroll %
// CHECK-NEXT: %{{.*}} = sched.get_loops %mul
// CHECK-NEXT: sched.vectorize %
// CHECK-NOT:  sched.unroll
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "skylake-avx512", vector_bits = 512, registers = 32, l1 = 32768, l2 = 1048576, cores = 2>} {
func.func @silu(%x: tensor<1x4x14x14x16xf32>, %w: tensor<4x4x1x1x16x16xf32>) -> tensor<1x4x14x14x16xf32> {
  %0 = graph.blocked_conv %x, %w : tensor<1x4x14x14x16xf32>
  %1 = graph.sigmoid %0 : tensor<1x4x14x14x16xf32>
  %2 = graph.mul %0, %1 : tensor<1x4x14x14x16xf32>
  return %2 : tensor<1x4x14x14x16xf32>
}
}

// -----

// If taps are skipped by row, tiles of rows and the loops over their taps are unrolled, and no tile
// is divided among threads.
// CHECK:      sched.sequence @blocked_conv_schedule for @blocked_conv attributes {rule = "cpu-contraction"{{.*}}
// CHECK:      %n, %o, %i2, %i3, %i4, %rc, %ry, %rx, %ri = sched.get_loops %conv
// CHECK-NEXT: %i3o, %i3i = sched.split %i3 by [?, 5]
// CHECK:      sched.reorder %n, %oo, %i2, %i3o, %rc, %ry, %rx, %ri, %i3i, %oi, %i4
// CHECK-NEXT: %n_oo_i2 = sched.fuse %n, %oo, %i2
// CHECK-NEXT: sched.parallel %n_oo_i2
// CHECK-NEXT: sched.unroll %i3o
// CHECK-NEXT: sched.unroll %rx
// CHECK-NEXT: %conv_init = sched.decompose_reduction %conv at %rc
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, cores = 2>} {
func.func @dilated(%x: tensor<1x4x14x14x8xf32>, %w: tensor<4x4x3x3x8x8xf32>) -> tensor<1x4x14x14x8xf32> {
  %0 = graph.blocked_conv %x, %w {pads = [8, 8, 8, 8], dilations = [8, 8], skips = [0, 1]} : tensor<1x4x14x14x8xf32>
  return %0 : tensor<1x4x14x14x8xf32>
}
}
