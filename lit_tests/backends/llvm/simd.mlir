// RUN: tcopt %s -t llvm | filecheck %s
// RUN: tcopt %s -p 'set-target{cpu=znver4}' -t llvm | filecheck %s --check-prefix=AVX512
// RUN: tcopt %s -p 'set-target{cpu=haswell}' -t llvm | filecheck %s --check-prefix=AVX2
// RUN: tcopt %s -p 'set-target{cpu=neoverse-v1}' -t llvm | filecheck %s --check-prefix=NEON

// Without a dot-product instruction, products are expanded, the last element of each group first.
// CHECK-LABEL: define hidden void @tcopt.pairs
// CHECK-NOT:     dpbf16ps
// CHECK:         <i32 1, i32 3, i32 5, i32 7, i32 9, i32 11, i32 13, i32 15, i32 17, i32 19, i32 21, i32 23, i32 25, i32 27, i32 29, i32 31>
// CHECK:         call <16 x float> @llvm.fma.v16f32
// CHECK:         <i32 0, i32 2, i32 4, i32 6, i32 8, i32 10, i32 12, i32 14, i32 16, i32 18, i32 20, i32 22, i32 24, i32 26, i32 28, i32 30>
// CHECK:         call <16 x float> @llvm.fma.v16f32
// A pair that is broadcast to all lanes is loaded as one word, folded into the instruction.
// AVX512-LABEL: define hidden void @tcopt.pairs
// AVX512:         load i32
// AVX512:         call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float> %{{.*}}, <32 x bfloat> %{{.*}}, <32 x bfloat>
// NEON-LABEL:   define hidden void @tcopt.pairs
// NEON-COUNT-4:   call <4 x float> @llvm.aarch64.neon.bfdot.v4f32.v8bf16
func.func private @pairs(%a: memref<2xbf16>, %b: memref<16x2xbf16>, %c: memref<16xf32>) {
  %0 = arith.constant 0 : index
  %x = vector.load %a[%0] : memref<2xbf16>, vector<2xbf16>
  %s = vector.broadcast %x : vector<2xbf16> to vector<16x2xbf16>
  %y = vector.load %b[%0, %0] : memref<16x2xbf16>, vector<16x2xbf16>
  %z = vector.load %c[%0] : memref<16xf32>, vector<16xf32>
  %r = simd.dot %z, %s, %y : vector<16x2xbf16> into vector<16xf32>
  vector.store %r, %c[%0] : memref<16xf32>, vector<16xf32>
  return
}

// A single group is padded to the narrowest instruction; mixed signs use the mixed-sign one.
// AVX512-LABEL: define hidden i32 @tcopt.bytes
// AVX512:         call <4 x i32> @llvm.x86.avx512.vpdpbusd.128(<4 x i32> %{{.*}}, <16 x i8> %{{.*}}, <16 x i8>
// NEON-LABEL:   define hidden i32 @tcopt.bytes
// NEON:           call <4 x i32> @llvm.aarch64.neon.usdot.v4i32.v16i8
// NEON:           call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8
func.func private @bytes(%c: i32, %a: vector<4xi8>, %b: vector<4xi8>) -> i32 {
  %r = simd.dot %c, %a, %b {rhs_unsigned} : vector<4xi8> into i32
  %s = simd.dot %r, %a, %b : vector<4xi8> into i32
  return %s : i32
}

// Codes in words: products of bytes where sums fit, added up in 16 bits without a byte dot product.
// AVX512-LABEL: define hidden <8 x i32> @tcopt.codes
// AVX512-COUNT-2: call <8 x i32> @llvm.x86.avx512.vpdpbusd.256
// AVX2-LABEL:   define hidden <8 x i32> @tcopt.codes
// AVX2-COUNT-2:   call <16 x i16> @llvm.x86.avx2.pmadd.ub.sw
// AVX2:           add <16 x i16>
// AVX2:           call <8 x i32> @llvm.x86.avx2.pmadd.wd
func.func private @codes(%c: vector<8xi32>, %w: vector<8xi32>, %x: vector<4xi8>, %y: vector<4xi8>) -> vector<8xi32> {
  %r = simd.code_dot %c, %w by(%x, %y) {bits = 4} : vector<4xi8>, vector<4xi8> into vector<8xi32>
  return %r : vector<8xi32>
}
