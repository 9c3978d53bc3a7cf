// REQUIRES: long
// RUN: tcopt %s -p 'set-target{cpu=skylake-avx512},fuse-ops,lower-graph-to-te,te-inline,lower-te-to-loop,schedule' | filecheck %s
// RUN: tcopt %s -p 'set-target{cpu=skylake-avx512},fuse-ops,lower-graph-to-te,te-inline,lower-te-to-loop,schedule,apply-schedule,compact-buffers,align-storage' | filecheck %s --check-prefix=LOOP
// With many tiles, a thread takes a row of 14 through all stages, with data rows of an odd number
// of cache lines and a register tile of 14 tiles by 2 vectors.
// CHECK:       sched.sequence @winograd_conv_schedule for @winograd_conv attributes {rule = "cpu-winograd", choice = {tile_rows = 1 : i64, tile_columns = 14 : i64, vectors = 2 : i64, rows = 14 : i64, {{.*}}data = "in chunks"{{.*}}} {
// CHECK:       sched.storage_align %data dim 1 by 32 + 16
// LOOP-LABEL:  loop.func @winograd_conv(
// LOOP:        loop.for %{{.*}} = 0 to 14 parallel {
// LOOP-NEXT:     %data = loop.alloc global : memref<6x6x912xf32>
// LOOP-NEXT:     loop.for %c = 0 to 4 {
// LOOP-NEXT:       %pad = loop.alloc global : memref<1x1x6x58x16xf32>
// LOOP:            %data_rows = loop.alloc register : memref<1x1x6x6x16xf32>
// LOOP:          loop.for %oo = 0 to 1 {
// LOOP-NEXT:       %products = loop.alloc global : memref<6x6x912xf32>
// LOOP:            %products_register = loop.alloc register : memref<1x1x14x2x16xf32>
// LOOP:            %result_rows = loop.alloc register : memref<1x1x4x6x16xf32>
func.func @chunks(%x: tensor<1x4x56x56x16xf32>, %w: tensor<6x6x4x4x16x16xf32>) -> tensor<1x4x56x56x16xf32> {
  %y = graph.winograd_conv %x, %w {tile = 4, pads = [1, 1, 1, 1]} : tensor<1x4x56x56x16xf32>
  return %y : tensor<1x4x56x56x16xf32>
}

// With few tiles and many channels, all tiles are transformed first, then each thread reads its
// part of the weights once; while one index of the tile is contracted, the weights of the next are
// prefetched.
// LOOP-LABEL:  loop.func @winograd_conv_1(
// LOOP-NEXT:   %data = loop.alloc global : memref<4x4x8208xf32>
// LOOP-NEXT:   loop.for %c_so = 0 to 64 parallel {
// LOOP:        loop.for %{{.*}} = 0 to 32 parallel {
// LOOP-NEXT:     %products = loop.alloc global : memref<4x4x272xf32>
// LOOP-NEXT:     loop.for %[[ROW:.*]] = 0 to 4 {
// LOOP-NEXT:       loop.for %[[COLUMN:.*]] = 0 to 4 {
// LOOP:              loop.prefetch %w[%[[ROW]], %[[COLUMN]] + 1, {{.*}}, 0, 0, {{.*}} * 256] locality 2
func.func @few(%x: tensor<1x32x7x7x16xf32>, %w: tensor<4x4x32x32x16x16xf32>) -> tensor<1x32x7x7x16xf32> {
  %y = graph.winograd_conv %x, %w {tile = 2, pads = [1, 1, 1, 1]} : tensor<1x32x7x7x16xf32>
  return %y : tensor<1x32x7x7x16xf32>
}

// An epilogue with functions has its own loops in a tile, however often it reads a result.
// CHECK:       @fused_winograd_conv_sigmoid_mul_schedule {{.*}}rule = "cpu-winograd"
// LOOP-LABEL:  loop.func @fused_winograd_conv_sigmoid_mul(
// LOOP:          %result_rows = loop.alloc register : memref<1x1x4x6x16xf32>
// LOOP:          loop.block "conv"
// LOOP:          loop.for %{{.*}} = 0 to 4 {
// LOOP-NEXT:       loop.for %{{.*}} = 0 to 4 {
// LOOP-NEXT:         loop.for %{{.*}} = 0 to 16 vectorized {
// LOOP-NEXT:           loop.block "mul"
func.func @silu(%x: tensor<1x4x56x56x16xf32>, %w: tensor<6x6x4x4x16x16xf32>) -> tensor<1x4x56x56x16xf32> {
  %0 = graph.winograd_conv %x, %w {tile = 4, pads = [1, 1, 1, 1]} : tensor<1x4x56x56x16xf32>
  %1 = graph.sigmoid %0 : tensor<1x4x56x56x16xf32>
  %2 = graph.mul %0, %1 : tensor<1x4x56x56x16xf32>
  return %2 : tensor<1x4x56x56x16xf32>
}
