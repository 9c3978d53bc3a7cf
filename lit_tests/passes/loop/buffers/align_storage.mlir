// RUN: tcopt %s -p align-storage | filecheck %s

// Dimensions after the first are flattened and padded from 64 to 80 elements.
// CHECK-LABEL: loop.func @rows
// CHECK:       %t = loop.alloc global : memref<6x80xf32>
// CHECK:       loop.store %{{.*}}, %t[%vi, %vj * 16 + %vk] : memref<6x80xf32>
// CHECK:       loop.load %t[%vi, %vj * 16 + %vk] : memref<6x80xf32>
loop.func @rows(%x: memref<6x4x16xf32>, %y: memref<6x4x16xf32>) {
  %t = loop.alloc global {storage_align = array<i64: 0, 32, 16>} : memref<6x4x16xf32>
  loop.for %i = 0 to 6 {
    loop.for %j = 0 to 4 {
      loop.for %k = 0 to 16 {
        loop.block "a" (%vi: spatial 6 = %i, %vj: spatial 4 = %j, %vk: spatial 16 = %k) {
          %0 = loop.load %x[%vi, %vj, %vk] : memref<6x4x16xf32>
          loop.store %0, %t[%vi, %vj, %vk] : memref<6x4x16xf32>
        }
        loop.block "b" (%vi: spatial 6 = %i, %vj: spatial 4 = %j, %vk: spatial 16 = %k) {
          %0 = loop.load %t[%vi, %vj, %vk] : memref<6x4x16xf32>
          loop.store %0, %y[%vi, %vj, %vk] : memref<6x4x16xf32>
        }
      }
    }
  }
}

// Rows that already have the stride, and buffers in registers, are unchanged.
// CHECK-LABEL: loop.func @kept
// CHECK:       %t = loop.alloc global : memref<2x16xf32>
// CHECK-NEXT:  %r = loop.alloc register : memref<2x32xf32>
loop.func @kept(%x: memref<2x32xf32>, %y: memref<2x32xf32>) {
  %t = loop.alloc global {storage_align = array<i64: 0, 32, 16>} : memref<2x16xf32>
  %r = loop.alloc register {storage_align = array<i64: 0, 32, 16>} : memref<2x32xf32>
  loop.for %i = 0 to 2 {
    loop.block "a" (%vi: spatial 2 = %i) {
      %0 = loop.load %x[%vi, 0] : memref<2x32xf32>
      loop.store %0, %t[%vi, 0] : memref<2x16xf32>
      loop.store %0, %r[%vi, 0] : memref<2x32xf32>
    }
    loop.block "b" (%vi: spatial 2 = %i) {
      %0 = loop.load %t[%vi, 0] : memref<2x16xf32>
      %1 = loop.load %r[%vi, 0] : memref<2x32xf32>
      %2 = arith.addf %0, %1 : f32
      loop.store %2, %y[%vi, 0] : memref<2x32xf32>
    }
  }
}

// Out-of-bounds reads keep the logical bounds.
// CHECK-LABEL: loop.func @guarded
// CHECK:       loop.alloc global : memref<2x4x16xf32>
loop.func @guarded(%x: memref<2x4x16xf32>, %y: memref<2x4x16xf32>) {
  %t = loop.alloc global {storage_align = array<i64: 0, 32, 16>} : memref<2x4x16xf32>
  loop.for %i = 0 to 2 {
    loop.block "a" (%vi: spatial 2 = %i) {
      %0 = loop.load %x[%vi, 0, 0] : memref<2x4x16xf32>
      loop.store %0, %t[%vi, 0, 0] : memref<2x4x16xf32>
      %1 = loop.load %t[%vi, -1, 0] else 0.0 : memref<2x4x16xf32>
      loop.store %1, %y[%vi, 0, 0] : memref<2x4x16xf32>
    }
  }
}

// Tiles of a padded buffer use the padded row stride.
// CHECK-LABEL: loop.func @tiles
// CHECK:       %t = loop.alloc shared : memref<4x136xf16>
// CHECK:       loop.load %t[%i, 3] lanes [0, 16] [0, 1] : memref<4x136xf16>, vector<8x8xf16>
loop.func @tiles(%x: memref<4x8x16xf16>) {
  %t = loop.alloc shared {storage_align = array<i64: 0, 16, 8>} : memref<4x8x16xf16>
  loop.for %i = 0 to 4 {
    %0 = loop.load %t[%i, 0, 3] lanes [0, 1, 0] [0, 0, 1] : memref<4x8x16xf16>, vector<8x8xf16>
    loop.store %0, %t[%i, 0, 3] lanes [0, 1, 0] [0, 0, 1] : memref<4x8x16xf16>, vector<8x8xf16>
  }
}
