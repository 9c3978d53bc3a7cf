// RUN: not tcopt %s --split-input-file -p distribute-warp 2>&1 | filecheck %s

// A lane must not access the sums of another.
// CHECK: pass-failed: 'loop.store': a thread accesses sums that belong to another lane of its warp
builtin.module attributes {tcopt.target = #target.gpu<api = "cuda", warp = 32, max_threads = 1024, registers = 255, shared = 49152, vector_bits = 128>} {
  loop.func @neighbour(%a: memref<16x8xbf16>, %b: memref<8x8xbf16>) {
    %c = loop.alloc register : memref<16x8xf32>
    loop.for %h = 0 to 4 {
      loop.for %l = 0 to 32 thread threadIdx.x {
        %z = arith.constant 0.0 : f32
        loop.store %z, %c[%h * 4 + %l floordiv 8, %l mod 8] : memref<16x8xf32>
      }
    }
    %0 = loop.load %c[0, 0] lanes [1, 0] [0, 1] : memref<16x8xf32>, vector<16x8xf32>
    %1 = loop.load %a[0, 0] lanes [1, 0] [0, 1] : memref<16x8xbf16>, vector<16x8xbf16>
    %2 = loop.load %b[0, 0] lanes [1, 0] [0, 1] : memref<8x8xbf16>, vector<8x8xbf16>
    %3 = simt.mma %0, %1, %2 : vector<16x8xbf16>, vector<8x8xbf16> into vector<16x8xf32>
    loop.store %3, %c[0, 0] lanes [1, 0] [0, 1] : memref<16x8xf32>, vector<16x8xf32>
  }
}

// -----

// A product must not be inside a loop over the threads of the warp.
// CHECK: pass-failed: 'simt.mma': a warp product is in a loop over its lanes
builtin.module attributes {tcopt.target = #target.gpu<api = "cuda", warp = 32, max_threads = 1024, registers = 255, shared = 49152, vector_bits = 128>} {
  loop.func @inside(%a: memref<16x8xbf16>, %b: memref<8x8xbf16>) {
    loop.for %l = 0 to 32 thread threadIdx.x {
      %c = loop.alloc register : memref<16x8xf32>
      %0 = loop.load %c[0, 0] lanes [1, 0] [0, 1] : memref<16x8xf32>, vector<16x8xf32>
      %1 = loop.load %a[0, 0] lanes [1, 0] [0, 1] : memref<16x8xbf16>, vector<16x8xbf16>
      %2 = loop.load %b[0, 0] lanes [1, 0] [0, 1] : memref<8x8xbf16>, vector<8x8xbf16>
      %3 = simt.mma %0, %1, %2 : vector<16x8xbf16>, vector<8x8xbf16> into vector<16x8xf32>
      loop.store %3, %c[0, 0] lanes [1, 0] [0, 1] : memref<16x8xf32>, vector<16x8xf32>
    }
  }
}
