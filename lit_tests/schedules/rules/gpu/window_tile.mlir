// RUN: tcopt %s -p lower-te-to-loop,schedule,apply-schedule,compact-buffers,lower-blocks | filecheck %s
// RUN: tcopt %s -p lower-te-to-loop,schedule | filecheck %s --check-prefix=RULE

// Windows of rows overlap in a thread's registers; elements outside of the data are 0 there.
// RULE:       rule = "gpu-window-tile"
// CHECK:      loop.func @depthwise
// CHECK-NOT:    loop.alloc global
// CHECK:        thread blockIdx.x
// CHECK-NEXT:     thread threadIdx.x
// CHECK:            loop.alloc register : memref<1x1x6x3xf32>
// CHECK-NEXT:       loop.for %{{.*}} = 0 to 6 unrolled {
// CHECK-NEXT:         loop.for %{{.*}} = 0 to 3 unrolled {
// CHECK-NEXT:           loop.load %x[{{.*}}] else 0.000000e+00
// CHECK:            loop.for %{{.*}} = 0 to 3 unrolled {
// CHECK-NEXT:         loop.for %{{.*}} = 0 to 3 unrolled {
// CHECK-NEXT:           loop.for %{{.*}} = 0 to 4 unrolled {
// CHECK-NOT:    blockIdx
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 16, max_threads = 256, registers = 64, shared = 0, vector_bits = 128, cores = 4>} {
te.func @depthwise(%x: tensor<1x32x16x16xf32>, %w: tensor<32x3x3xf32>) -> tensor<1x32x16x16xf32> {
  %p = te.compute "pad" [%n = 1, %c = 32, %h = 18, %v = 18] : tensor<1x32x18x18xf32> {
    %0 = te.read %x[%n, %c, %h - 1, %v - 1] else 0.0 : tensor<1x32x16x16xf32>
    te.yield %0 : f32
  }
  %y = te.compute "conv" [%n = 1, %c = 32, %h = 16, %v = 16] reduce [%i = 3, %j = 3] sum : tensor<1x32x16x16xf32> {
    %0 = te.read %p[%n, %c, %h + %i, %v + %j] : tensor<1x32x18x18xf32>
    %1 = te.read %w[%c, %i, %j] : tensor<32x3x3xf32>
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  }
  te.return %y : tensor<1x32x16x16xf32>
}
}
