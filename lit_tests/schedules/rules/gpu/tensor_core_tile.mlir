// REQUIRES: long
// RUN: tcopt %s -p lower-te-to-loop,schedule,apply-schedule,lower-intrinsics,compact-buffers,align-storage,lower-blocks,distribute-warp,insert-barriers --split-input-file | filecheck %s
// RUN: tcopt %s -p lower-te-to-loop,schedule,apply-schedule,lower-intrinsics,compact-buffers,align-storage,lower-blocks,distribute-warp,double-buffer,insert-barriers,vectorize,unroll-loops,hoist-workspace,split-launches,lower-loop-to-kernel,promote-registers,check-races --split-input-file | filecheck %s --check-prefix=KERNEL

// All threads copy both factors, 16 bytes at a time, to rows 80 bytes apart. Each warp has 1 x 2
// matrices of 16 x 8 sums. Rows beyond the 40 of the result are multiplied but neither copied nor
// stored. The next part of the factors is loaded before the current one is used.
// CHECK-LABEL: loop.func @product
// CHECK:       %x_shared = loop.alloc shared {slots = 2 : i64} : memref<16x40xf16>
// CHECK-NEXT:  %w_shared = loop.alloc shared {slots = 2 : i64} : memref<32x40xf16>
// CHECK-NEXT:  loop.for %ib_jb = 0 to 2 thread threadIdx.y {
// CHECK-NEXT:    %m = loop.alloc register : memref<1x2x32x4xf32>
// CHECK:         loop.for %ko = 0 to 2 {
// CHECK:           loop.for %d0_d1b = 0 to 2 thread threadIdx.y {
// CHECK-NEXT:        loop.for %d0_d1c = 0 to 32 thread threadIdx.x {
// CHECK-NEXT:          loop.guard ([%ia * 2 + %d0_d1b] in 5) {
// CHECK-NEXT:            loop.for %d0_d1d = 0 to 8 vectorized {
// CHECK:           loop.barrier
// CHECK-NEXT:      loop.for %km = 0 to 2 unrolled {
// CHECK-NEXT:        loop.for %ic = 0 to 1 unrolled {
// CHECK-NEXT:          loop.for %jc = 0 to 2 unrolled {
// CHECK-NEXT:            loop.for %lane = 0 to 32 thread threadIdx.x {
// CHECK-NOT:                 loop.guard
// CHECK:                     simt.mma_sync {{.*}} shape [16, 8, 16]
// CHECK:         loop.for %ii_jm = 0 to 32 thread threadIdx.x {
// CHECK-NEXT:      loop.guard ([%ia * 2 + %io] in 5) {
// CHECK-NEXT:        loop.for %ji = 0 to 2 vectorized {
// KERNEL:      func.func private @product({{.*}} gpu.known_block_size = array<i32: 32, 2, 1>
// KERNEL:      scf.for %ko
// KERNEL-COUNT-4: simt.mma_sync
// KERNEL-NOT:  simt.mma_sync
module attributes {tcopt.target = #target.gpu<api = "cuda", arch = "sm_80", features = "ptx78,mma_f16,mma_s8,mma_bf16,ldmatrix", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128, cores = 1>} {
sched.sequence @product_schedule for @product attributes {rule = "gpu-tensor-core-tile", choice = {product = "mma_m16n8k16_f16", down = 1 : i64, warps_down = 1 : i64, along = 1 : i64, warps_along = 1 : i64, across = 2 : i64, warps_across = 2 : i64, steps = 2 : i64, stages = 2 : i64, parts = 1 : i64}} {
}
te.func @product(%x: tensor<40x64xf16>, %w: tensor<64x32xf16>, %b: tensor<32xf32>) -> tensor<40x32xf32> {
  %m = te.compute "product" [%i = 40, %j = 32] reduce [%k = 64] sum : tensor<40x32xf32> {
    %0 = te.read %x[%i, %k] : tensor<40x64xf16>
    %1 = arith.extf %0 : f16 to f32
    %2 = te.read %w[%k, %j] : tensor<64x32xf16>
    %3 = arith.extf %2 : f16 to f32
    %4 = arith.mulf %1, %3 : f32
    te.yield %4 : f32
  }
  %y = te.compute "biased" [%i = 40, %j = 32] : tensor<40x32xf32> {
    %0 = te.read %m[%i, %j] : tensor<40x32xf32>
    %1 = te.read %b[%j] : tensor<32xf32>
    %2 = arith.addf %0, %1 : f32
    te.yield %2 : f32
  }
  te.return %y : tensor<40x32xf32>
}
}

// -----

// The padded image is copied with contiguous channels, along which matrices are multiplied for each
// tap of the window; other taps read other rows of the same copy. Each lane gathers eight channels of
// a pixel, whose indices it computes once.
// CHECK-LABEL: loop.func @convolution
// CHECK:       %w_shared = loop.alloc shared {slots = 2 : i64} : memref<29x3x3x8xf16>
// CHECK-NEXT:  %p = loop.alloc shared {slots = 2 : i64} : memref<1x13x10x8xf16>
// CHECK:       loop.for %y_x_o_coi = 0 to 4 thread threadIdx.y {
// CHECK-NEXT:    loop.for %y_x_i = 0 to 32 thread threadIdx.x {
// CHECK-NEXT:      loop.guard ([%y_x_i + %y_x_o_coi * 32] in 100) {
// CHECK-NEXT:        loop.for %ci = 0 to 8 unrolled {
// CHECK-NEXT:          loop.load %x[0, %co * 8 + %ci, {{.*}}] else 0.000000e+00
// CHECK:       loop.barrier
// CHECK-NEXT:  loop.for %ry = 0 to 3 unrolled {
// CHECK-NEXT:    loop.for %rx = 0 to 3 unrolled {
// CHECK:           [[W:%.*]] = loop.load %w_shared[%lane mod 16, %ry, %rx, 0] lanes [0, 0, 0, 1]
// CHECK-NEXT:      simt.exchange_rows [[W]] : vector<8xf16> to vector<4xf16>
// CHECK-NEXT:      [[P:%.*]] = loop.load %p[0, %ry + {{.*}}, %rx + %lane mod 8, 0] lanes [0, 0, 0, 1]
// CHECK-NEXT:      simt.exchange_rows [[P]] : vector<8xf16> to vector<2xf16>
// KERNEL:      func.func private @convolution(
// KERNEL-COUNT-18: simt.mma_sync
module attributes {tcopt.target = #target.gpu<api = "cuda", arch = "sm_80", features = "ptx78,mma_f16,mma_s8,mma_bf16,ldmatrix", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128, cores = 1>} {
sched.sequence @convolution_schedule for @convolution attributes {rule = "gpu-tensor-core-tile", choice = {product = "mma_m16n8k8_f16", down = 1 : i64, warps_down = 1 : i64, along = 2 : i64, warps_along = 4 : i64, across = 1 : i64, warps_across = 1 : i64, steps = 1 : i64, stages = 2 : i64, parts = 1 : i64}} {
}
te.func @convolution(%x: tensor<1x32x8x8xf16>, %w: tensor<32x32x3x3xf16>) -> tensor<1x32x8x8xf32> {
  %p = te.compute "pad" [%n = 1, %c = 32, %y = 10, %x_ = 10] : tensor<1x32x10x10xf16> {
    %0 = te.read %x[%n, %c, %y - 1, %x_ - 1] else 0.0 : tensor<1x32x8x8xf16>
    te.yield %0 : f16
  }
  %m = te.compute "conv" [%n = 1, %f = 32, %y = 8, %x_ = 8] reduce [%c = 32, %ry = 3, %rx = 3] sum : tensor<1x32x8x8xf32> {
    %0 = te.read %p[%n, %c, %y + %ry, %x_ + %rx] : tensor<1x32x10x10xf16>
    %1 = arith.extf %0 : f16 to f32
    %2 = te.read %w[%f, %c, %ry, %rx] : tensor<32x32x3x3xf16>
    %3 = arith.extf %2 : f16 to f32
    %4 = arith.mulf %1, %3 : f32
    te.yield %4 : f32
  }
  te.return %m : tensor<1x32x8x8xf32>
}
}
