// RUN: tcopt %s -p fuse-ops,lower-graph-to-te,te-inline,lower-te-to-loop,schedule --split-input-file | filecheck %s

// A softmax is computed row by row; maxima and sums are computed per lane and then combined.
// CHECK:      sched.sequence @softmax_1_schedule for @softmax_1 attributes {rule = "cpu-reduction", declined = {{{.*}}"cpu-contraction" = "0 blocks add products of two loaded values, one is wanted"{{.*}}
// CHECK-NEXT: %softmax = sched.get_block "softmax"
// CHECK-NEXT: %i0, %i1 = sched.get_loops %softmax
// CHECK-NEXT: sched.reorder %i0, %i1
// CHECK-NEXT: sched.parallel %i0
// CHECK-NEXT: %inverse = sched.get_block "inverse"
// CHECK-NEXT: sched.compute_at %inverse at %i0
// CHECK-NEXT: %sum = sched.get_block "sum"
// CHECK-NEXT: sched.compute_at %sum at %i0
// CHECK-NEXT: %exp = sched.get_block "exp"
// CHECK-NEXT: sched.compute_at %exp at %i0
// CHECK-NEXT: %max = sched.get_block "max"
// CHECK-NEXT: sched.compute_at %max at %i0
// CHECK-NEXT: %i0_1, %k0 = sched.get_loops %max
// CHECK-NEXT: %k0o, %k0i = sched.split %k0 by [?, 32]
// CHECK-NEXT: %max_rf = sched.rfactor %k0i
// CHECK-NEXT: %k0io, %k0ii = sched.split %k0i by [4, 8]
// CHECK-NEXT: sched.set_scope %max_rf to register
// CHECK-NEXT: sched.reorder %k0o, %k0io, %k0ii
// CHECK-NEXT: sched.vectorize %k0ii
// CHECK-NEXT: sched.unroll %k0io
// CHECK-NEXT: %max_rf_init = sched.decompose_reduction %max_rf at %k0o
// CHECK-NEXT: sched.unroll %k0o
// CHECK-NEXT: %i0_2, %k0i_1 = sched.get_loops %max
// CHECK-NEXT: %k0io_1, %k0ii_1 = sched.split %k0i_1 by [4, 8]
// CHECK-NEXT: %max_rf_1 = sched.rfactor %k0ii_1
// CHECK-NEXT: sched.set_scope %max_rf_1 to register
// CHECK-NEXT: sched.reorder %k0io_1, %k0ii_1
// CHECK-NEXT: sched.vectorize %k0ii_1
// CHECK-NEXT: %max_rf_1_init = sched.decompose_reduction %max_rf_1 at %k0io_1
// CHECK-NEXT: sched.unroll %k0io_1
// CHECK-NEXT: %i0_3, %k0ii_2 = sched.get_loops %max
// CHECK-NEXT: %max_init = sched.decompose_reduction %max at %k0ii_2
// CHECK-NEXT: sched.vectorize %k0ii_2
// CHECK-NEXT: %i0_4, %i1_1 = sched.get_loops %exp
// CHECK-NEXT: %i1o, %i1m, %i1i = sched.split %i1_1 by [?, 2, 8]
// CHECK-NEXT: sched.vectorize %i1i
// CHECK-NEXT: sched.unroll %i1m
// CHECK-NEXT: %i0_5, %k0_1 = sched.get_loops %sum
// CHECK-NEXT: %k0o_1, %k0i_2 = sched.split %k0_1 by [?, 32]
// CHECK-NEXT: %sum_rf = sched.rfactor %k0i_2
// CHECK-NEXT: %k0io_2, %k0ii_3 = sched.split %k0i_2 by [4, 8]
// CHECK-NEXT: sched.set_scope %sum_rf to register
// CHECK-NEXT: sched.reorder %k0o_1, %k0io_2, %k0ii_3
// CHECK-NEXT: sched.vectorize %k0ii_3
// CHECK-NEXT: sched.unroll %k0io_2
// CHECK-NEXT: %sum_rf_init = sched.decompose_reduction %sum_rf at %k0o_1
// CHECK-NEXT: sched.unroll %k0o_1
// CHECK-NEXT: %i0_6, %k0i_3 = sched.get_loops %sum
// CHECK-NEXT: %k0io_3, %k0ii_4 = sched.split %k0i_3 by [4, 8]
// CHECK-NEXT: %sum_rf_1 = sched.rfactor %k0ii_4
// CHECK-NEXT: sched.set_scope %sum_rf_1 to register
// CHECK-NEXT: sched.reorder %k0io_3, %k0ii_4
// CHECK-NEXT: sched.vectorize %k0ii_4
// CHECK-NEXT: %sum_rf_1_init = sched.decompose_reduction %sum_rf_1 at %k0io_3
// CHECK-NEXT: sched.unroll %k0io_3
// CHECK-NEXT: %i0_7, %k0ii_5 = sched.get_loops %sum
// CHECK-NEXT: %sum_init = sched.decompose_reduction %sum at %k0ii_5
// CHECK-NEXT: sched.vectorize %k0ii_5
// CHECK-NEXT: %i1o_1, %i1m_1, %i1i_1 = sched.split %i1 by [?, 2, 8]
// CHECK-NEXT: sched.vectorize %i1i_1
// CHECK-NEXT: sched.unroll %i1m_1
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, cores = 2>} {
func.func @softmax(%x: tensor<64x100xf32>) -> tensor<64x100xf32> {
  %0 = graph.softmax %x {axis = 1} : tensor<64x100xf32>
  return %0 : tensor<64x100xf32>
}
}

// -----

// Short rows are processed in groups, one row in each vector lane.
// CHECK:      sched.sequence @softmax_1_schedule for @softmax_1 attributes {rule = "cpu-reduction"
// CHECK-NEXT: %softmax = sched.get_block "softmax"
// CHECK-NEXT: %i0, %i1 = sched.get_loops %softmax
// CHECK-NEXT: %i0o, %i0i = sched.split %i0 by [?, 8]
// CHECK-NEXT: sched.reorder %i0o, %i0i, %i1
// CHECK-NEXT: sched.parallel %i0o
// CHECK-NEXT: %inverse = sched.get_block "inverse"
// CHECK-NEXT: sched.compute_at %inverse at %i0o
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, cores = 2>} {
func.func @softmax(%x: tensor<256x100xf32>) -> tensor<256x100xf32> {
  %0 = graph.softmax %x {axis = 1} : tensor<256x100xf32>
  return %0 : tensor<256x100xf32>
}
}

// -----

// Pooling over blocked channels reduces each lane separately.
// CHECK:      sched.sequence @pool_1_schedule for @pool_1 attributes {rule = "cpu-reduction", choice = {vectors = 1 : i64, rows = 6 : i64, {{.*}}}, declined = {{{.*}}"cpu-contraction" = "0 blocks add products of two loaded values, one is wanted"{{.*}}
// CHECK-NEXT: %max_pool = sched.get_block "max_pool"
// CHECK-NEXT: %max_pool_store = sched.cache_write %max_pool into register
// CHECK-NEXT: %n, %c, %z, %y, %x, %rz, %ry, %rx = sched.get_loops %max_pool
// CHECK-NEXT: %yo, %yi = sched.split %y by [?, 6]
// CHECK-NEXT: sched.reorder %n, %c, %z, %yo, %rz, %ry, %rx, %yi, %x
// CHECK-NEXT: %max_pool_init = sched.decompose_reduction %max_pool at %rz
// CHECK-NEXT: sched.set_scope %max_pool to register
// CHECK-NEXT: sched.vectorize %x
// CHECK-NEXT: sched.unroll %yi
// CHECK-NEXT: %n_1, %c_1, %z_1, %yo_1, %yi_1, %x_1 = sched.get_loops %max_pool_init
// CHECK-NEXT: sched.vectorize %x_1
// CHECK-NEXT: sched.unroll %yi_1
// CHECK-NEXT: sched.unroll %rx
// CHECK-NEXT: sched.unroll %ry
// CHECK-NEXT: sched.unroll %rz
// CHECK-NEXT: sched.reverse_compute_at %max_pool_store at %yo
// CHECK-NEXT: %n_2, %c_2, %z_2, %yo_2, %d3, %d4 = sched.get_loops %max_pool_store
// CHECK-NEXT: sched.vectorize %d4
// CHECK-NEXT: sched.unroll %d3
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, cores = 2>} {
func.func @pool(%x: tensor<1x4x12x12x8xf32>) -> tensor<1x4x6x6x8xf32> {
  %0 = graph.pool %x {kind = max, kernel = [2, 2, 1], strides = [2, 2, 1]} : tensor<1x4x6x6x8xf32>
  return %0 : tensor<1x4x6x6x8xf32>
}
}

// -----

// A product whose operand is not contiguous along the columns is not tiled: its terms are summed in
// lanes.
// CHECK:      sched.sequence @matmul_schedule for @matmul attributes {rule = "cpu-reduction", declined = {{{.*}}"cpu-contraction" = "an operand is not contiguous along the output's last dimension"{{.*}}
// CHECK-NEXT: %matmul = sched.get_block "matmul"
// CHECK-NEXT: %matmul_store = sched.cache_write %matmul into register
// CHECK-NEXT: %d1 = sched.get_loops %matmul_store
// CHECK-NEXT: sched.compute_at %matmul at %d1
// CHECK-NEXT: %d1_1, %k = sched.get_loops %matmul
// CHECK-NEXT: %ko, %ki = sched.split %k by [?, 32]
// CHECK-NEXT: %matmul_rf = sched.rfactor %ki
// CHECK-NEXT: %kio, %kii = sched.split %ki by [4, 8]
// CHECK-NEXT: sched.set_scope %matmul_rf to register
// CHECK-NEXT: sched.reorder %ko, %kio, %kii
// CHECK-NEXT: sched.vectorize %kii
// CHECK-NEXT: sched.unroll %kio
// CHECK-NEXT: %matmul_rf_init = sched.decompose_reduction %matmul_rf at %ko
// CHECK-NEXT: sched.unroll %ko
// CHECK-NEXT: %d1_2, %ki_1 = sched.get_loops %matmul
// CHECK-NEXT: %kio_1, %kii_1 = sched.split %ki_1 by [4, 8]
// CHECK-NEXT: %matmul_rf_1 = sched.rfactor %kii_1
// CHECK-NEXT: sched.set_scope %matmul_rf_1 to register
// CHECK-NEXT: sched.reorder %kio_1, %kii_1
// CHECK-NEXT: sched.vectorize %kii_1
// CHECK-NEXT: %matmul_rf_1_init = sched.decompose_reduction %matmul_rf_1 at %kio_1
// CHECK-NEXT: sched.unroll %kio_1
// CHECK-NEXT: %d1_3, %kii_2 = sched.get_loops %matmul
// CHECK-NEXT: %matmul_init = sched.decompose_reduction %matmul at %kii_2
// CHECK-NEXT: sched.vectorize %kii_2
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, cores = 2>} {
func.func @matvec(%x: tensor<1x64xf32>, %w: tensor<50x64xf32>) -> tensor<1x50xf32> {
  %0 = graph.matmul %x, %w {transpose_b} : tensor<1x50xf32>
  return %0 : tensor<1x50xf32>
}
}
