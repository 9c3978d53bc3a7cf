// RUN: tcopt %s -p lower-intrinsics --split-input-file | filecheck %s
// RUN: tcopt %s -p lower-intrinsics,lower-blocks,vectorize --split-input-file | filecheck %s --check-prefix=VECTOR

// Tiles become loads, of vectors if they have several elements. Vector lanes add a dimension to
// operands that depend on the lane; the others are shared.
// CHECK-LABEL: loop.func @dot
// CHECK:         loop.block "mm"
// CHECK-NEXT:      %[[C:.*]] = loop.load %c[%vj] : memref<16xf32>
// CHECK-NEXT:      %[[A:.*]] = loop.load %a[%vk] lanes [1] : memref<64xbf16>, vector<2xbf16>
// CHECK-NEXT:      %[[B:.*]] = loop.load %b[%vk floordiv 2, %vj, 0] lanes [0, 0, 1] : memref<32x16x2xbf16>, vector<2xbf16>
// CHECK-NEXT:      %[[D:.*]] = simd.dot %[[C]], %[[A]], %[[B]] : vector<2xbf16> into f32
// CHECK-NEXT:      loop.store %[[D]], %c[%vj] : memref<16xf32>
// VECTOR:        loop.for %ko = 0 to 32 {
// VECTOR-NEXT:     %[[C:.*]] = loop.load %c[0] lanes [1] : memref<16xf32>, vector<16xf32>
// VECTOR-NEXT:     %[[A:.*]] = loop.load %a[%ko * 2] lanes [1] : memref<64xbf16>, vector<2xbf16>
// VECTOR-NEXT:     %[[B:.*]] = loop.load %b[%ko, 0, 0] lanes [0, 1, 0] [0, 0, 1] : memref<32x16x2xbf16>, vector<16x2xbf16>
// VECTOR-NEXT:     %[[S:.*]] = vector.broadcast %[[A]] : vector<2xbf16> to vector<16x2xbf16>
// VECTOR-NEXT:     %[[D:.*]] = simd.dot %[[C]], %[[S]], %[[B]] : vector<16x2xbf16> into vector<16xf32>
// VECTOR-NEXT:     loop.store %[[D]], %c[0] lanes [1] : memref<16xf32>, vector<16xf32>
loop.func @dot(%a: memref<64xbf16>, %b: memref<32x16x2xbf16>, %c: memref<16xf32>) {
  loop.for %ko = 0 to 32 {
    loop.for %j = 0 to 16 vectorized {
      loop.block "mm" (%vj: spatial 16 = %j, %vk: reduce 64 = %ko * 2) {
        loop.intrin "bf16_dot" outs(%c[%vj] : memref<16xf32>)
          ins(%a[%vk] by [1] : memref<64xbf16>, %b[%vk floordiv 2, %vj, 0] by [0, 0, 1] : memref<32x16x2xbf16>)
      }
    }
  }
}

// -----

// If masked lanes would read out of bounds, the loop stays.
// VECTOR-LABEL: loop.func @tail
// VECTOR:         loop.for %j = 0 to 16 attributes {not_vectorized = "a lane that is off would read a vector outside of a buffer"} {
loop.func @tail(%a: memref<2xbf16>, %b: memref<13x2xbf16>, %c: memref<13xf32>) {
  loop.for %j = 0 to 16 vectorized {
    loop.block "mm" (%vj: spatial 13 = %j) {
      loop.intrin "bf16_dot" outs(%c[%vj] : memref<13xf32>)
        ins(%a[0] by [1] : memref<2xbf16>, %b[%vj, 0] by [0, 1] : memref<13x2xbf16>)
    }
  }
}
