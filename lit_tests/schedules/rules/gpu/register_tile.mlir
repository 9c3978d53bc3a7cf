// RUN: tcopt %s -p lower-te-to-loop,schedule,apply-schedule,compact-buffers,lower-blocks --split-input-file | filecheck %s
// RUN: tcopt %s -p lower-te-to-loop,schedule --split-input-file | filecheck %s --check-prefix=RULE

// A thread keeps a tile of rows and vector lanes of sums in registers; the epilogue is computed
// there.
// RULE:       rule = "gpu-register-tile"
// CHECK:      loop.func @product
// CHECK-NEXT:   loop.for %io_joo = 0 to 4 thread blockIdx.x {
// CHECK-NEXT:     loop.for %io_joi = 0 to 256 thread threadIdx.x {
// CHECK-NEXT:       %m = loop.alloc register : memref<6x4xf32>
// CHECK-NEXT:       loop.for %ii = 0 to 6 unrolled {
// CHECK-NEXT:         loop.for %ji = 0 to 4 vectorized {
// CHECK:            loop.for %ko = 0 to 16 {
// CHECK-NEXT:         loop.for %ki = 0 to 4 unrolled {
// CHECK-NEXT:           loop.for %ii = 0 to 6 unrolled {
// CHECK-NEXT:             loop.for %ji = 0 to 4 vectorized {
// CHECK-NEXT:               loop.load %x[%ii + %io_joo * 24 + %io_joi floordiv 64 * 6, %ko * 4 + %ki]
// CHECK-NEXT:               loop.load %w[%ko * 4 + %ki, %ji + %io_joi mod 64 * 4]
// CHECK:            loop.for %i = 0 to 6 unrolled {
// CHECK-NEXT:         loop.for %j = 0 to 4 vectorized {
// CHECK-NEXT:           loop.load %m[%i, %j]
// CHECK-NEXT:           loop.load %b[%j + %io_joi mod 64 * 4]
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 16, max_threads = 256, registers = 64, shared = 0, vector_bits = 128, cores = 4>} {
te.func @product(%x: tensor<96x64xf32>, %w: tensor<64x256xf32>, %b: tensor<256xf32>) -> tensor<96x256xf32> {
  %m = te.compute "product" [%i = 96, %j = 256] reduce [%k = 64] sum : tensor<96x256xf32> {
    %0 = te.read %x[%i, %k] : tensor<96x64xf32>
    %1 = te.read %w[%k, %j] : tensor<64x256xf32>
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  }
  %y = te.compute "biased" [%i = 96, %j = 256] : tensor<96x256xf32> {
    %0 = te.read %m[%i, %j] : tensor<96x256xf32>
    %1 = te.read %b[%j] : tensor<256xf32>
    %2 = arith.addf %0, %1 : f32
    te.yield %2 : f32
  }
  te.return %y : tensor<96x256xf32>
}
}

// -----

// Small work is spread over more threads rather than taller tiles; without whole vectors each
// thread has one element. Sums that are not stored need no guard.
// RULE:       rule = "gpu-register-tile"
// CHECK:      loop.func @small
// CHECK-NEXT:   loop.for %i_jo = 0 to 1 thread blockIdx.x {
// CHECK-NEXT:     loop.for %i_ji = 0 to 256 thread threadIdx.x {
// CHECK-NEXT:       loop.alloc register : memref<1x1xf32>
// CHECK-NEXT:       arith.constant
// CHECK-NEXT:       loop.store %{{.*}}, %m_register[0, 0]
// CHECK-NEXT:       loop.guard ([%i_ji] in 147) {
// CHECK-NEXT:         loop.for %ko = 0 to 8 {
// CHECK-NEXT:           loop.for %ki = 0 to 8 unrolled {
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 16, max_threads = 256, registers = 64, shared = 0, vector_bits = 128, cores = 4>} {
te.func @small(%x: tensor<7x64xf32>, %w: tensor<64x21xf32>) -> tensor<7x21xf32> {
  %m = te.compute "product" [%i = 7, %j = 21] reduce [%k = 64] sum : tensor<7x21xf32> {
    %0 = te.read %x[%i, %k] : tensor<7x64xf32>
    %1 = te.read %w[%k, %j] : tensor<64x21xf32>
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  }
  te.return %m : tensor<7x21xf32>
}
}

// -----

// Threads that do not run in lockstep have vectors of strided elements, and row tiles that divide
// the extent.
// RULE:       rule = "gpu-register-tile"
// CHECK:      loop.func @strided
// CHECK:        loop.alloc register : memref<8x4xf32>
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 1, max_threads = 64, registers = 128, shared = 0, vector_bits = 256, cores = 4>} {
te.func @strided(%x: tensor<16x64xf32>, %w: tensor<256x16xf32>) -> tensor<256x28xf32> {
  %m = te.compute "strided" [%i = 256, %j = 28] reduce [%k = 16] sum : tensor<256x28xf32> {
    %0 = te.read %x[%k, %j * 2] : tensor<16x64xf32>
    %1 = te.read %w[%i, %k] : tensor<256x16xf32>
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  }
  te.return %m : tensor<256x28xf32>
}
}

// -----

// Operands in one buffer cannot be copied to shared memory separately.
// RULE:       rule = "gpu-register-tile"
// CHECK:      loop.func @square
// CHECK-NOT:    loop.alloc shared
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128, cores = 4>} {
te.func @square(%x: tensor<256x256xf32>) -> tensor<256x256xf32> {
  %m = te.compute "square" [%i = 256, %j = 256] reduce [%k = 256] sum : tensor<256x256xf32> {
    %0 = te.read %x[%i, %k] : tensor<256x256xf32>
    %1 = te.read %x[%k, %j] : tensor<256x256xf32>
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  }
  te.return %m : tensor<256x256xf32>
}
}

// -----

// Tiles of a height that divides the rows have one condition around all of them. Five rows, each with
// a condition of its own, would leave fewer threads.
// RULE:       rule = "gpu-register-tile"
// CHECK:      loop.func @divided
// CHECK:        loop.alloc register : memref<4x4xf32>
// CHECK:        loop.guard ([(%io_joo * 256 + %io_joi) floordiv 196] in 32) {
// CHECK-NEXT:     loop.for %ko
// CHECK-NOT:        loop.guard
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 16, max_threads = 256, registers = 64, shared = 0, vector_bits = 128, cores = 4, multiply_adds = 32, memory_rate = 32>} {
te.func @divided(%x: tensor<128x64xf32>, %w: tensor<64x784xf32>) -> tensor<128x784xf32> {
  %m = te.compute "product" [%i = 128, %j = 784] reduce [%k = 64] sum : tensor<128x784xf32> {
    %0 = te.read %x[%i, %k] : tensor<128x64xf32>
    %1 = te.read %w[%k, %j] : tensor<64x784xf32>
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  }
  te.return %m : tensor<128x784xf32>
}
}
