// REQUIRES: long
// RUN: tcopt %s -p lower-te-to-loop,schedule,apply-schedule,lower-intrinsics,compact-buffers,lower-blocks,inject-virtual-threads,insert-barriers --split-input-file | filecheck %s
// RUN: tcopt %s -p lower-te-to-loop,schedule,apply-schedule,lower-intrinsics,compact-buffers,align-storage,lower-blocks,inject-virtual-threads,insert-barriers,vectorize,unroll-loops,hoist-workspace,split-launches,lower-loop-to-kernel,promote-registers,check-races --split-input-file | filecheck %s --check-prefix=KERNEL

// Threads load both operands together, wait at a barrier, and multiply from shared memory. Rows
// outside the result are computed but not stored. The block size leaves room for several blocks on
// a multiprocessor, so that some compute while others wait. Each half of the columns is a virtual
// thread, so that adjacent threads access adjacent elements.
// KERNEL:     func.func private @product({{.*}} gpu.known_block_size = array<i32: 4, 4, 1>
// CHECK:      loop.for %io = 0 to 3 thread blockIdx.y {
// CHECK:        %x_shared = loop.alloc shared : memref<8x16xf32>
// CHECK-NEXT:   %w_shared = loop.alloc shared : memref<16x32xf32>
// CHECK-NEXT:   loop.for %im = 0 to 4 thread threadIdx.y {
// CHECK-NEXT:     loop.for %jc = 0 to 4 thread threadIdx.x {
// CHECK-NEXT:       %m = loop.alloc register : memref<2x2x4xf32>
// CHECK:            loop.for %d0_d1a = 0 to 2 {
// CHECK-NEXT:         loop.for %d0_d1b = 0 to 4 thread threadIdx.y {
// CHECK-NEXT:           loop.for %d0_d1c = 0 to 4 thread threadIdx.x {
// CHECK-NEXT:             loop.guard ([%io * 8 + %d0_d1a * 4 + %d0_d1b] in 21) {
// CHECK-NEXT:               loop.for %d0_d1d = 0 to 4 vectorized {
// CHECK:            loop.barrier
// CHECK-NEXT:       loop.for %kio = 0 to 2 {
// CHECK-NOT:          loop.guard
// CHECK:                  loop.load %x_shared[%im * 2 + %ii, %kio * 8 + %kii]
// CHECK-NEXT:             loop.load %w_shared[%kio * 8 + %kii, %jb * 16 + %jc * 4 + %jd]
// CHECK:            loop.for %i = 0 to 2 unrolled {
// CHECK-NEXT:         loop.guard ([%io * 8 + %im * 2 + %i] in 21) {
// CHECK-NEXT:           loop.for %jb = 0 to 2 unrolled {
// CHECK-NEXT:             loop.for %j = 0 to 4 vectorized {
// CHECK-NEXT:               loop.load %m[%jb, %i, %j]
// CHECK-NEXT:               loop.load %b[%jb * 16 + %jc * 4 + %j]
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 4, max_threads = 64, registers = 64, shared = 4096, vector_bits = 128, cores = 1>} {
sched.sequence @product_schedule for @product attributes {rule = "gpu-shared-tile", choice = {rows = 2 : i64, spans = 1 : i64, columns = 8 : i64, down = 4 : i64, across = 4 : i64, steps = 16 : i64, parts = 1 : i64, written = 128 : i64}} {
}
te.func @product(%x: tensor<21x16xf32>, %w: tensor<16x32xf32>, %b: tensor<32xf32>) -> tensor<21x32xf32> {
  %m = te.compute "product" [%i = 21, %j = 32] reduce [%k = 16] sum : tensor<21x32xf32> {
    %0 = te.read %x[%i, %k] : tensor<21x16xf32>
    %1 = te.read %w[%k, %j] : tensor<16x32xf32>
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  }
  %y = te.compute "biased" [%i = 21, %j = 32] : tensor<21x32xf32> {
    %0 = te.read %m[%i, %j] : tensor<21x32xf32>
    %1 = te.read %b[%j] : tensor<32xf32>
    %2 = arith.addf %0, %1 : f32
    te.yield %2 : f32
  }
  te.return %y : tensor<21x32xf32>
}
}

// -----

// A padded image is computed when it is copied to shared memory.
// KERNEL:     func.func private @convolution(
// CHECK:      %p = loop.alloc shared : memref<1x4x4x10xf32>
// CHECK-NEXT: %w_shared = loop.alloc shared {storage_align = array<i64: 0, 8, 4>} : memref<2x4x3x3xf32>
// CHECK:      loop.load %x[0, {{.*}}] else 0.000000e+00
// CHECK:      loop.barrier
// CHECK-NEXT: loop.for %ci = 0 to 4 {
// CHECK-NEXT:   loop.for %ry = 0 to 3 unrolled {
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 4, max_threads = 64, registers = 64, shared = 4096, vector_bits = 128, cores = 1>} {
sched.sequence @convolution_schedule for @convolution attributes {rule = "gpu-shared-tile", choice = {rows = 1 : i64, spans = 2 : i64, columns = 4 : i64, down = 2 : i64, across = 2 : i64, steps = 4 : i64, parts = 1 : i64, written = 128 : i64}} {
}
te.func @convolution(%x: tensor<1x4x6x8xf32>, %w: tensor<6x4x3x3xf32>) -> tensor<1x6x6x8xf32> {
  %p = te.compute "pad" [%n = 1, %c = 4, %y = 8, %x_ = 10] : tensor<1x4x8x10xf32> {
    %0 = te.read %x[%n, %c, %y - 1, %x_ - 1] else 0.0 : tensor<1x4x6x8xf32>
    te.yield %0 : f32
  }
  %m = te.compute "conv" [%n = 1, %f = 6, %y = 6, %x_ = 8] reduce [%c = 4, %ry = 3, %rx = 3] sum : tensor<1x6x6x8xf32> {
    %0 = te.read %p[%n, %c, %y + %ry, %x_ + %rx] : tensor<1x4x8x10xf32>
    %1 = te.read %w[%f, %c, %ry, %rx] : tensor<6x4x3x3xf32>
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  }
  te.return %m : tensor<1x6x6x8xf32>
}
}

// -----

// Bytes are loaded in words, several per thread if all threads have some, and their dot products
// are adjacent in vectors.
// KERNEL:     func.func private @bytes(
// KERNEL:       simd.dot {{.*}} : vector<4x4xi8> into vector<4xi32>
// CHECK:      %x_shared = loop.alloc shared : memref<8x16xi8>
// CHECK-NEXT: %w_shared = loop.alloc shared : memref<1x4x32x4xi8>
// CHECK:        loop.for %ko = 0 to 3 {
// CHECK:          loop.for %d0_d1d = 0 to 8 vectorized {
// CHECK-NEXT:       loop.load %x[{{.*}}] : memref<21x48xi8>
// CHECK:          loop.for %d1_d2_d3d = 0 to 4 vectorized {
// CHECK-NEXT:       loop.load %w[0, {{.*}}] : memref<1x12x32x4xi8>
// CHECK:          loop.barrier
// CHECK-NOT:      loop.guard
// CHECK:              loop.for %jd = 0 to 4 vectorized {
// CHECK:                simd.dot
module attributes {tcopt.target = #target.gpu<api = "opencl", features = "dp4a", warp = 4, max_threads = 64, registers = 64, shared = 4096, vector_bits = 128, cores = 1>} {
sched.sequence @bytes_schedule for @bytes attributes {rule = "gpu-shared-tile", choice = {rows = 2 : i64, spans = 1 : i64, columns = 8 : i64, down = 4 : i64, across = 4 : i64, steps = 16 : i64, parts = 1 : i64, written = 128 : i64}} {
}
te.func @bytes(%x: tensor<21x48xi8>, %w: tensor<1x12x32x4xi8>) -> tensor<21x32xi32> {
  %m = te.compute "product" [%i = 21, %j = 32] reduce [%k = 48] sum : tensor<21x32xi32> {
    %0 = te.read %x[%i, %k] : tensor<21x48xi8>
    %1 = te.read %w[0, %k floordiv 4, %j, %k mod 4] : tensor<1x12x32x4xi8>
    %2 = arith.extsi %0 : i8 to i32
    %3 = arith.extsi %1 : i8 to i32
    %4 = arith.muli %2, %3 : i32
    te.yield %4 : i32
  }
  te.return %m : tensor<21x32xi32>
}
}

// -----

// Rows that threads of a warp read at the same time start in different banks.
// KERNEL:     func.func private @banks({{.*}} gpu.known_block_size = array<i32: 8, 8, 1>
// KERNEL:       %x_shared = memref.alloca() {{.*}} : memref<8x20xf32, 3 : i64>
// KERNEL:       %w_shared = memref.alloca() {{.*}} : memref<16x32xf32, 3 : i64>
// CHECK:      %x_shared = loop.alloc shared {storage_align = array<i64: 0, 8, 4>} : memref<8x16xf32>
// CHECK-NEXT: %w_shared = loop.alloc shared : memref<16x32xf32>
module attributes {tcopt.target = #target.gpu<api = "cuda", warp = 32, max_threads = 64, registers = 64, shared = 8192, vector_bits = 128, cores = 1>} {
sched.sequence @banks_schedule for @banks attributes {rule = "gpu-shared-tile", choice = {rows = 1 : i64, spans = 1 : i64, columns = 4 : i64, down = 8 : i64, across = 8 : i64, steps = 16 : i64, parts = 1 : i64, written = 128 : i64}} {
}
te.func @banks(%x: tensor<21x16xf32>, %w: tensor<16x32xf32>) -> tensor<21x32xf32> {
  %m = te.compute "product" [%i = 21, %j = 32] reduce [%k = 16] sum : tensor<21x32xf32> {
    %0 = te.read %x[%i, %k] : tensor<21x16xf32>
    %1 = te.read %w[%k, %j] : tensor<16x32xf32>
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  }
  te.return %m : tensor<21x32xf32>
}
}
