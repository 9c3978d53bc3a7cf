// RUN: tcopt %s -p lower-loop-to-kernel,promote-registers -t opencl | filecheck %s

// A loop marked as unrolled gets an unroll pragma for the device compiler.
// CHECK:      #pragma unroll 4
// CHECK-NEXT: for (int i = 0; i < 16; ++i) {
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
loop.func @f(%x: memref<64x16xf32>, %y: memref<64xf32>) {
  loop.for %t = 0 to 64 thread threadIdx.x {
    %r = loop.alloc register : memref<1xf32>
    %zero = arith.constant 0.0 : f32
    loop.store %zero, %r[0] : memref<1xf32>
    loop.for %i = 0 to 16 attributes {pragma_unroll = 4 : i64} {
      %a = loop.load %x[%t, %i] : memref<64x16xf32>
      %o = loop.load %r[0] : memref<1xf32>
      %n = arith.addf %o, %a : f32
      loop.store %n, %r[0] : memref<1xf32>
    }
    %s = loop.load %r[0] : memref<1xf32>
    loop.store %s, %y[%t] : memref<64xf32>
  }
}
}
