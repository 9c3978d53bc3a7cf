// RUN: tcopt %s -p distribute-warp --split-input-file --verify-diagnostics | filecheck %s

// Lanes load rows of shared factors together, keep four sums each, and the epilogue accesses only a
// lane's own sums.
// CHECK-LABEL: loop.func @shared
// CHECK:       %c = loop.alloc register : memref<1x2x32x4xf32>
// CHECK:         loop.for %lane = 0 to 32 thread threadIdx.x {
// CHECK-NEXT:      %0 = loop.load %c[0, %j, %lane, 0] lanes [0, 0, 0, 1] : memref<1x2x32x4xf32>, vector<4xf32>
// CHECK-NEXT:      %1 = loop.load %a[%lane mod 16, %lane floordiv 16 * 8] lanes [0, 1] : memref<16x24xf16>, vector<8xf16>
// CHECK-NEXT:      %2 = simt.exchange_rows %1 : vector<8xf16> to vector<8xf16>
// CHECK-NEXT:      %3 = loop.load %b[%lane mod 16, %j * 8] lanes [0, 1] : memref<16x16xf16>, vector<8xf16>
// CHECK-NEXT:      %4 = simt.exchange_rows transposed %3 : vector<8xf16> to vector<4xf16>
// CHECK-NEXT:      %5 = simt.mma_sync %0, %2, %4 shape [16, 8, 16] : vector<8xf16>, vector<4xf16> into vector<4xf32>
// CHECK-NEXT:      loop.store %5, %c[0, %j, %lane, 0] lanes [0, 0, 0, 1] : memref<1x2x32x4xf32>, vector<4xf32>
// CHECK:           loop.load %c[0, %j, %l, %h * 2 + %i] : memref<1x2x32x4xf32>
builtin.module attributes {tcopt.target = #target.gpu<api = "cuda", features = "ldmatrix", warp = 32, max_threads = 1024, registers = 255, shared = 49152, vector_bits = 128>} {
  loop.func @shared(%y: memref<16x16xf32>) {
    %a = loop.alloc shared : memref<16x24xf16>
    %b = loop.alloc shared : memref<16x16xf16>
    loop.for %w = 0 to 1 thread threadIdx.y {
      %c = loop.alloc register : memref<16x16xf32>
      loop.for %j = 0 to 2 {
        %0 = loop.load %c[0, %j * 8] lanes [1, 0] [0, 1] : memref<16x16xf32>, vector<16x8xf32>
        %1 = loop.load %a[0, 0] lanes [1, 0] [0, 1] : memref<16x24xf16>, vector<16x16xf16>
        %2 = loop.load %b[0, %j * 8] lanes [1, 0] [0, 1] : memref<16x16xf16>, vector<16x8xf16>
        %3 = simt.mma %0, %1, %2 : vector<16x16xf16>, vector<16x8xf16> into vector<16x8xf32>
        loop.store %3, %c[0, %j * 8] lanes [1, 0] [0, 1] : memref<16x16xf32>, vector<16x8xf32>
      }
      loop.for %j = 0 to 2 {
        loop.for %h = 0 to 2 {
          loop.for %l = 0 to 32 thread threadIdx.x {
            loop.for %i = 0 to 2 {
              %4 = loop.load %c[%h * 8 + %l floordiv 4, %j * 8 + %l mod 4 * 2 + %i] : memref<16x16xf32>
              loop.store %4, %y[%h * 8 + %l floordiv 4, %j * 8 + %l mod 4 * 2 + %i] : memref<16x16xf32>
            }
          }
        }
      }
    }
  }
}

// -----

// Factors in other memory are loaded by each lane for itself, element by element if not contiguous.
// CHECK-LABEL: loop.func @memory
// CHECK:       loop.load %a[%lane floordiv 4, %lane mod 4 * 2] lanes [8, 0] [0, 1] : memref<16x8xbf16>, vector<2x2xbf16>
// CHECK-NEXT:  loop.load %b[%lane mod 4 * 2, %lane floordiv 4] lanes [1, 0] [0, 1] : memref<8x8xbf16>, vector<2x1xbf16>
// CHECK-NEXT:  simt.mma_sync %{{.*}} shape [16, 8, 8] : vector<2x2xbf16>, vector<2x1xbf16> into vector<4xf32>
builtin.module attributes {tcopt.target = #target.gpu<api = "cuda", features = "ldmatrix", warp = 32, max_threads = 1024, registers = 255, shared = 49152, vector_bits = 128>} {
  loop.func @memory(%a: memref<16x8xbf16>, %b: memref<8x8xbf16>) {
    %c = loop.alloc register : memref<16x8xf32>
    %0 = loop.load %c[0, 0] lanes [1, 0] [0, 1] : memref<16x8xf32>, vector<16x8xf32>
    %1 = loop.load %a[0, 0] lanes [1, 0] [0, 1] : memref<16x8xbf16>, vector<16x8xbf16>
    %2 = loop.load %b[0, 0] lanes [1, 0] [0, 1] : memref<8x8xbf16>, vector<8x8xbf16>
    %3 = simt.mma %0, %1, %2 : vector<16x8xbf16>, vector<8x8xbf16> into vector<16x8xf32>
    loop.store %3, %c[0, 0] lanes [1, 0] [0, 1] : memref<16x8xf32>, vector<16x8xf32>
  }
}

// -----

// Unaligned rows are loaded by each lane; a transposed left factor is loaded with a transpose.
// CHECK-LABEL: loop.func @places
// CHECK:       loop.load %a[%lane floordiv 16 * 8 + %lane mod 8, %lane floordiv 8 mod 2 * 8] lanes [0, 1] : memref<16x16xf16>, vector<8xf16>
// CHECK-NEXT:  simt.exchange_rows transposed
// CHECK-NEXT:  loop.load %b[%lane mod 4 * 2, %lane floordiv 4 + 1] lanes [8, 0] [1, 0] [0, 1] : memref<16x16xf16>, vector<2x2x1xf16>
builtin.module attributes {tcopt.target = #target.gpu<api = "cuda", features = "ldmatrix", warp = 32, max_threads = 1024, registers = 255, shared = 49152, vector_bits = 128>} {
  loop.func @places() {
    %a = loop.alloc shared : memref<16x16xf16>
    %b = loop.alloc shared : memref<16x16xf16>
    %c = loop.alloc register : memref<16x8xf32>
    %0 = loop.load %c[0, 0] lanes [1, 0] [0, 1] : memref<16x8xf32>, vector<16x8xf32>
    %1 = loop.load %a[0, 0] lanes [0, 1] [1, 0] : memref<16x16xf16>, vector<16x16xf16>
    %2 = loop.load %b[0, 1] lanes [1, 0] [0, 1] : memref<16x16xf16>, vector<16x8xf16>
    %3 = simt.mma %0, %1, %2 : vector<16x16xf16>, vector<16x8xf16> into vector<16x8xf32>
    loop.store %3, %c[0, 0] lanes [1, 0] [0, 1] : memref<16x8xf32>, vector<16x8xf32>
  }
}

// -----

// Devices with other warp sizes keep the products.
// CHECK-LABEL: loop.func @other
// CHECK:       simt.mma %
builtin.module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 1, max_threads = 256, registers = 64, shared = 0, vector_bits = 128>} {
  loop.func @other(%a: memref<16x8xbf16>, %b: memref<8x8xbf16>) {
    %c = loop.alloc register : memref<16x8xf32>
    %0 = loop.load %c[0, 0] lanes [1, 0] [0, 1] : memref<16x8xf32>, vector<16x8xf32>
    %1 = loop.load %a[0, 0] lanes [1, 0] [0, 1] : memref<16x8xbf16>, vector<16x8xbf16>
    %2 = loop.load %b[0, 0] lanes [1, 0] [0, 1] : memref<8x8xbf16>, vector<8x8xbf16>
    %3 = simt.mma %0, %1, %2 : vector<16x8xbf16>, vector<8x8xbf16> into vector<16x8xf32>
    loop.store %3, %c[0, 0] lanes [1, 0] [0, 1] : memref<16x8xf32>, vector<16x8xf32>
  }
}
