// REQUIRES: long
// RUN: tcopt %s -p lower-te-to-loop,schedule,apply-schedule,compact-buffers,lower-blocks,lower-thread-reductions,insert-barriers --split-input-file | filecheck %s
// RUN: tcopt %s -p lower-te-to-loop,schedule,apply-schedule,compact-buffers,align-storage,lower-blocks,lower-thread-reductions,insert-barriers,vectorize,unroll-loops,hoist-workspace,split-launches,lower-loop-to-kernel,promote-registers,check-races --split-input-file | filecheck %s --check-prefix=KERNEL

// Each row has a block of threads, which share every pass and combine their results in shared
// memory.
// KERNEL:     func.func private @softmax({{.*}} gpu.known_block_size = array<i32: 32, 1, 1>, gpu.known_grid_size = array<i32: 5, 1, 1>
// CHECK:      loop.for %i = 0 to 5 thread blockIdx.x {
// CHECK:        %e = loop.alloc shared : memref<1x160xf32>
// CHECK:        loop.for %ki = 0 to 32 thread threadIdx.x {
// CHECK:          loop.for %km = 0 to 5 unrolled {
// CHECK-NEXT:       loop.guard ([%km * 32 + %ki] in 150) {
// CHECK:            arith.maximumf
// CHECK:        loop.for %ki = 0 to 32 thread threadIdx.x {
// CHECK:          loop.store %{{.*}}, %m_parts[%ki]
// CHECK:        loop.barrier
// CHECK-NEXT:   loop.for %ki = 0 to 16 thread threadIdx.x {
// CHECK:          loop.load %m_parts[%ki + 16]
// CHECK:          loop.store %{{.*}}, %m_parts[%ki]
// CHECK:        loop.for %ki = 0 to 1 thread threadIdx.x {
// CHECK:          loop.store %{{.*}}, %m[0]
// CHECK:        loop.barrier
// CHECK:        loop.for %ji = 0 to 32 thread threadIdx.x {
// CHECK:          math.exp
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 4, max_threads = 64, registers = 64, shared = 4096, vector_bits = 128, cores = 1>} {
te.func @softmax(%x: tensor<5x150xf32>) -> tensor<5x150xf32> {
  %m = te.compute "max" [%i = 5] reduce [%k = 150] max : tensor<5xf32> {
    %0 = te.read %x[%i, %k] : tensor<5x150xf32>
    te.yield %0 : f32
  }
  %e = te.compute "exp" [%i = 5, %j = 150] : tensor<5x150xf32> {
    %0 = te.read %x[%i, %j] : tensor<5x150xf32>
    %1 = te.read %m[%i] : tensor<5xf32>
    %2 = arith.subf %0, %1 : f32
    %3 = math.exp %2 : f32
    te.yield %3 : f32
  }
  %s = te.compute "sum" [%i = 5] reduce [%k = 150] sum : tensor<5xf32> {
    %0 = te.read %e[%i, %k] : tensor<5x150xf32>
    te.yield %0 : f32
  }
  %y = te.compute "quotient" [%i = 5, %j = 150] : tensor<5x150xf32> {
    %0 = te.read %e[%i, %j] : tensor<5x150xf32>
    %1 = te.read %s[%i] : tensor<5xf32>
    %2 = arith.divf %0, %1 : f32
    te.yield %2 : f32
  }
  te.return %y : tensor<5x150xf32>
}
}

// -----

// Each pooling window is computed by one thread.
// CHECK:      loop.for %d0_d1i = 0 to 64 thread threadIdx.x {
// CHECK:        loop.guard ([%d0_d1i] in 49) {
// CHECK-NEXT:     loop.for %ry = 0 to 3 {
// CHECK-NEXT:       loop.for %rx = 0 to 3 {
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 4, max_threads = 64, registers = 64, shared = 4096, vector_bits = 128, cores = 1>} {
te.func @pool(%x: tensor<9x9xf32>) -> tensor<7x7xf32> {
  %m = te.compute "max" [%i = 7, %j = 7] reduce [%ry = 3, %rx = 3] max : tensor<7x7xf32> {
    %0 = te.read %x[%i + %ry, %j + %rx] : tensor<9x9xf32>
    te.yield %0 : f32
  }
  te.return %m : tensor<7x7xf32>
}
}
