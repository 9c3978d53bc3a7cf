// RUN: tcopt %s -p pack-matmul,fuse-ops,lower-graph-to-te,te-inline,split-axes,merge-axes,lower-te-to-loop,schedule --split-input-file | filecheck %s

// A tile of rows by vectors stays in registers; bias and activation are applied tile by tile.
// CHECK:      sched.sequence @fused_matmul_add_relu_schedule for @fused_matmul_add_relu attributes {rule = "cpu-matmul", choice = {rows = 6 : i64, vectors = 2 : i64, parts = 1 : i64, chunks = 2 : i64, streams = 1 : i64, steps = 4 : i64, order = "rows outside", parallel = 2 : i64, copy = "no", prefetch = "no"}} {
// CHECK-NEXT: %matmul = sched.get_block "matmul"
// CHECK-NEXT: %i, %j, %k = sched.get_loops %matmul
// CHECK-NEXT: %io, %im, %ii = sched.split %i by [?, 8, 6]
// CHECK-NEXT: %jo, %jm, %ji = sched.split %j by [?, 2, 8]
// CHECK-NEXT: %ko, %ki = sched.split %k by [?, 4]
// CHECK-NEXT: sched.reorder %io, %jo, %im, %ko, %ki, %ii, %jm, %ji
// CHECK-NEXT: %io_jo = sched.fuse %io, %jo
// CHECK-NEXT: sched.parallel %io_jo
// CHECK-NEXT: %matmul_init = sched.decompose_reduction %matmul at %ko
// CHECK-NEXT: sched.set_scope %matmul to register
// CHECK-NEXT: sched.unroll %ki
// CHECK-NEXT: sched.vectorize %ji
// CHECK:      %relu = sched.get_block "relu"
// CHECK-NEXT: sched.reverse_compute_at %relu at %im
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, cores = 2>} {
func.func @matmul(%x: tensor<96x32xf32>, %w: tensor<32x40xf32>, %b: tensor<40xf32>) -> tensor<96x40xf32> {
  %0 = graph.matmul %x, %w : tensor<96x40xf32>
  %1 = graph.add %0, %b : tensor<96x40xf32>
  %2 = graph.relu %1 : tensor<96x40xf32>
  return %2 : tensor<96x40xf32>
}
}

// -----

// The panel width of a constant operand determines the tile width; padding columns are not stored.
// CHECK:      sched.sequence @packed_matmul_schedule for @packed_matmul attributes {rule = "cpu-matmul", {{.*}}} {
// CHECK:      %jo, %jm, %ji = sched.split %j by [?, 2, 8]
// CHECK:      %columns = sched.get_block "columns"
// CHECK-NEXT: sched.reverse_compute_at %columns
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, cores = 2>} {
func.func @panels(%x: tensor<12x64xf32>) -> tensor<12x44xf32> {
  %w = graph.constant @w : tensor<64x44xf32>
  %0 = graph.matmul %x, %w : tensor<12x44xf32>
  return %0 : tensor<12x44xf32>
}
}

// -----

// A single row has no tile of rows, and small work stays on one thread.
// CHECK:      sched.sequence @matmul_schedule for @matmul attributes {rule = "cpu-matmul", {{.*}}} {
// CHECK-NOT:  sched.parallel
// CHECK:      %jo, %jm, %ji = sched.split %j by [?, 4, 8]
// CHECK-NEXT: %ko, %ki = sched.split %k by [?, 2]
// CHECK-NOT:  sched.parallel
// CHECK:      sched.unroll %d1o
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, cores = 2>} {
func.func @row(%x: tensor<1x6xf32>, %w: tensor<6x32xf32>) -> tensor<1x32xf32> {
  %0 = graph.matmul %x, %w : tensor<1x32xf32>
  return %0 : tensor<1x32xf32>
}
}

// -----

// A single row is multiplied with three panels at a time, each a separate stream of weights.
// CHECK:      sched.sequence @packed_matmul_schedule for @packed_matmul attributes {rule = "cpu-matmul", {{.*}}} {
// CHECK:      %jo, %jm, %ji = sched.split %j by [?, 4, 8]
// CHECK-NEXT: %joo, %joi = sched.split %jo by [?, 3]
// CHECK:      sched.reorder %i, %joo, %ko, %ki, %joi, %jm, %ji
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, cores = 2>} {
func.func @streams(%x: tensor<1x64xf32>) -> tensor<1x380xf32> {
  %w = graph.constant @w : tensor<64x380xf32>
  %0 = graph.matmul %x, %w : tensor<1x380xf32>
  return %0 : tensor<1x380xf32>
}
}

// -----

// A single row is multiplied with three panels at a time, each a separate stream of weights.
// CHECK:      sched.sequence @packed_matmul_schedule for @packed_matmul attributes {rule = "cpu-matmul", {{.*}}} {
// CHECK:      %jo, %jm, %ji = sched.split %j by [?, 4, 8]
// CHECK-NEXT: %joo, %joi = sched.split %jo by [?, 3]
// CHECK:      sched.reorder %i, %joo, %ko, %ki, %joi, %jm, %ji
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, cores = 2>} {
func.func @streams(%x: tensor<1x64xf32>) -> tensor<1x380xf32> {
  %w = graph.constant @w : tensor<64x380xf32>
  %0 = graph.matmul %x, %w : tensor<1x380xf32>
  return %0 : tensor<1x380xf32>
}
}

// -----

// The panel of a deep reduction would not stay in cache: four parts of its depth leave partial
// results for a chunk of rows, which are then added up row by row. While one part is computed, the
// next part of the panel is prefetched.
// CHECK:      sched.sequence @packed_matmul_schedule for @packed_matmul attributes {rule = "cpu-matmul", {{.*}}} {
// CHECK:      %ko, %ki = sched.split %k by [4, ?]
// CHECK:      %kio, %kii = sched.split %ki by [?, {{.*}}]
// CHECK-NEXT: sched.reorder %io, %jo, %ko, %im, %kio, %kii, %ii, %jm, %ji
// CHECK:      %matmul_rf = sched.rfactor %ko
// CHECK-NEXT: %matmul_rf_store = sched.cache_write %matmul_rf into register
// CHECK:      sched.reverse_compute_at %matmul_rf_store at %im
// CHECK:      sched.prefetch %matmul_rf buffer 1 ahead %ko at %kio
// CHECK:      sched.reverse_compute_at %matmul_store at
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, cores = 2>} {
func.func @deep(%x: tensor<48x2048xf32>) -> tensor<48x64xf32> {
  %w = graph.constant @w : tensor<2048x64xf32>
  %0 = graph.matmul %x, %w : tensor<48x64xf32>
  return %0 : tensor<48x64xf32>
}
}

// -----

// Rows of the right operand are 512 bytes apart, so 64 of them would fill L1: the part that a tile
// reads is copied once for all tiles of rows.
// CHECK:      sched.sequence @matmul_schedule for @matmul attributes {rule = "cpu-matmul", {{.*}}} {
// CHECK:      sched.parallel %b_io_jo
// CHECK-NEXT: %y_local = sched.cache_read %matmul of 1 into local
// CHECK-NEXT: sched.compute_at %y_local at %b_io_jo
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, cores = 2>} {
func.func @conflicts(%x: tensor<12x128x64xf32>, %y: tensor<12x64x128xf32>) -> tensor<12x128x128xf32> {
  %0 = graph.matmul %x, %y : tensor<12x128x128xf32>
  return %0 : tensor<12x128x128xf32>
}
}
