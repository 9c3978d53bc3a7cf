// REQUIRES: long
// RUN: tcopt %s -p 'fuse-ops,lower-graph-to-te,te-inline,merge-axes,lower-te-to-loop,schedule' --split-input-file | filecheck %s
// RUN: tcopt %s -p 'fuse-ops,lower-graph-to-te,te-inline,merge-axes,lower-te-to-loop,schedule,apply-schedule,expand-borders,compact-buffers,align-storage,lower-blocks,inject-virtual-threads,insert-barriers' --split-input-file | filecheck %s --check-prefix=LOOP

// In both transforms each thread holds a tile of one channel in registers, and the products of each
// tile index are shared-memory tiles: three launches. Rows of the result are stored as vectors.
// CHECK:       rule = "gpu-winograd"
// LOOP-LABEL:  loop.func @winograd_plain_conv(
// LOOP-NEXT:     %data = loop.alloc global : memref<6x6x8x16xf32>
// LOOP:            loop.for %{{.*}} = 0 to 64 thread threadIdx.x {
// LOOP-NEXT:         %pad = loop.alloc register : memref<1x1x6x6xf32>
// LOOP-NEXT:         %data_rows = loop.alloc register : memref<1x1x6x6xf32>
// LOOP:              loop.load %x[{{.*}}] else 0.000000e+00 : memref<1x8x14x16xf32>
// LOOP-NEXT:         loop.store %{{.*}}, %pad
// LOOP:          %products = loop.alloc global : memref<6x6x5x16xf32>
// LOOP-NEXT:     loop.for %{{.*}} = 0 to 36 thread blockIdx.z {
// LOOP:            %data_shared = loop.alloc shared
// LOOP-NEXT:       %w_shared = loop.alloc shared
// LOOP:            loop.barrier
// LOOP:          %result_rows = loop.alloc register : memref<1x1x4x6xf32>
// LOOP-NEXT:     %conv_register = loop.alloc register : memref<1x1x4x4xf32>
// LOOP:            loop.guard ([{{.*}}] in 14) {
// LOOP-NEXT:         loop.for %{{.*}} = 0 to 4 vectorized {
// LOOP-NEXT:           loop.load %conv_register
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 4, max_threads = 64, registers = 128, shared = 4096, vector_bits = 128, cores = 1>} {
func.func @main(%x: tensor<1x8x14x16xf32>, %w: tensor<6x6x8x5xf32>) -> tensor<1x5x14x16xf32> {
  %y = graph.winograd_plain_conv %x, %w {tile = 4, pads = [1, 1, 1, 1]} : tensor<1x5x14x16xf32>
  return %y : tensor<1x5x14x16xf32>
}
}

// -----

// Interior tiles are read without guards; elements outside the result are not stored. On devices
// without fast shared memory, each thread has a register tile.
// CHECK:       rule = "gpu-winograd"
// LOOP-LABEL:  loop.func @winograd_plain_conv(
// LOOP:          %x_register = loop.alloc register : memref<1x1x4x4xf32>
// LOOP-NOT:      else 0.0
// LOOP:          %products = loop.alloc global : memref<4x4x5x12xf32>
// LOOP-NOT:      shared
// LOOP:          %result_rows = loop.alloc register : memref<1x1x2x4xf32>
// LOOP:          loop.for %hi = 0 to 2 unrolled {
// LOOP-NEXT:       loop.guard ([%hi + {{.*}}] in 5) {
// LOOP-NEXT:         loop.for %wi = 0 to 2 unrolled {
// LOOP-NEXT:           loop.guard ([%wi + {{.*}}] in 3) {
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 1, max_threads = 64, registers = 64, shared = 0, vector_bits = 128, cores = 1>} {
func.func @main(%x: tensor<2x3x8x6xf32>, %w: tensor<4x4x3x5xf32>) -> tensor<2x5x5x3xf32> {
  %y = graph.winograd_plain_conv %x, %w {tile = 2, pads = [0, 0, -1, -1]} : tensor<2x5x5x3xf32>
  return %y : tensor<2x5x5x3xf32>
}
}
