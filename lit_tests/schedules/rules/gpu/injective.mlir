// RUN: tcopt %s -p lower-te-to-loop,schedule,apply-schedule,compact-buffers,lower-blocks --split-input-file | filecheck %s

// If rows are whole vectors and there are enough for all threads, each thread computes a vector.
// CHECK:      loop.for %i_joi = 0 to 256 thread threadIdx.x {
// CHECK-NEXT:   loop.guard ([%i_joo * 8 + %i_joi floordiv 32] in 100) {
// CHECK-NEXT:     loop.for %ji = 0 to 4 vectorized {
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 1, max_threads = 256, registers = 64, shared = 0, vector_bits = 128, cores = 4>} {
te.func @rows(%x: tensor<100x128xf32>, %b: tensor<128xf32>) -> tensor<100x128xf32> {
  %y = te.compute "sum" [%i = 100, %j = 128] : tensor<100x128xf32> {
    %0 = te.read %x[%i, %j] : tensor<100x128xf32>
    %1 = te.read %b[%j] : tensor<128xf32>
    %2 = arith.addf %0, %1 : f32
    te.yield %2 : f32
  }
  te.return %y : tensor<100x128xf32>
}
}

// -----

// Transposed reads are not vectorised: each thread computes an element, in the order of the writes.
// CHECK:      loop.for %i_ji = 0 to 256 thread threadIdx.x {
// CHECK-NEXT:   loop.load %x[%i_ji mod 128, %i_jo * 2 + %i_ji floordiv 128]
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 1, max_threads = 256, registers = 64, shared = 0, vector_bits = 128, cores = 4>} {
te.func @turned(%x: tensor<128x100xf32>) -> tensor<100x128xf32> {
  %y = te.compute "turned" [%i = 100, %j = 128] : tensor<100x128xf32> {
    %0 = te.read %x[%j, %i] : tensor<128x100xf32>
    te.yield %0 : f32
  }
  te.return %y : tensor<100x128xf32>
}
}

// -----

// Fused loops that do not divide the block keep their separate indices.
// CHECK:      loop.for %{{.*}} = 0 to 7 thread blockIdx.x {
// CHECK-NEXT:   loop.for %{{.*}} = 0 to 256 thread threadIdx.x {
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 1, max_threads = 256, registers = 64, shared = 0, vector_bits = 128, cores = 4>} {
te.func @parts(%x: tensor<2x6x9x16xf32>) -> tensor<2x6x9x16xf32> {
  %y = te.compute "twice" [%n = 2, %c = 6, %i = 9, %j = 16] : tensor<2x6x9x16xf32> {
    %0 = te.read %x[%n, %c, %i, %j] : tensor<2x6x9x16xf32>
    %1 = arith.addf %0, %0 : f32
    te.yield %1 : f32
  }
  te.return %y : tensor<2x6x9x16xf32>
}
}
