// RUN: tcopt %s -p 'set-target{cpu=x86-64}' -t llvm | filecheck %s
// RUN: tcopt %s -p 'set-target{cpu=haswell}' -t llvm | filecheck %s --check-prefix=AVX2
// RUN: tcopt %s -p 'set-target{cpu=skylake-avx512}' -t llvm | filecheck %s --check-prefix=AVX512
// RUN: tcopt %s -p 'set-target{cpu=znver4}' -t llvm | filecheck %s --check-prefix=VBMI
// RUN: tcopt %s -p 'set-target{cpu=neoverse-v1}' -t llvm | filecheck %s --check-prefix=NEON

// Without a byte-shuffle instruction, each lane is loaded from memory.
// CHECK:       @table_{{[0-9a-f]+}} = private unnamed_addr constant [256 x i8] [i8 0, i8 1,
// CHECK-LABEL: define hidden void @tcopt.lanes
// CHECK-COUNT-20: getelementptr inbounds i8, ptr @table_
// AVX2 looks up 16 entries at a time: the indices count down, each step adds the difference to the
// previous entries, and the sign bit is flipped for the upper half of the table.
// AVX2-LABEL: define hidden void @tcopt.lanes
// AVX2:         call <32 x i8> @llvm.x86.avx2.pshuf.b(<32 x i8> <i8 0, i8 1,
// AVX2:         call <32 x i8> @llvm.ssub.sat.v32i8
// AVX2:         call <32 x i8> @llvm.x86.avx2.pshuf.b(<32 x i8> splat (i8 16)
// AVX2:         xor <32 x i8>
// AVX2:         xor <32 x i8> %{{.*}}, splat (i8 -128)
// AVX2:         call <32 x i8> @llvm.x86.avx2.pshuf.b(<32 x i8> <i8 -128, i8 -127,
// AVX512-LABEL: define hidden void @tcopt.lanes
// AVX512-COUNT-16: call <64 x i8> @llvm.x86.avx512.pshuf.b.512
// VBMI takes one two-register permute for each half of the table; the values of spare lanes are
// undefined.
// VBMI-LABEL: define hidden void @tcopt.lanes
// VBMI:         shufflevector <20 x i8> %{{.*}}, <64 x i32>
// VBMI:         %[[L:.*]] = call <64 x i8> @llvm.x86.avx512.vpermi2var.qi.512(<64 x i8> <i8 0, i8 1,
// VBMI:         %[[H:.*]] = call <64 x i8> @llvm.x86.avx512.vpermi2var.qi.512(<64 x i8> <i8 -128, i8 -127,
// VBMI:         %[[U:.*]] = icmp slt <64 x i8>
// VBMI:         select <64 x i1> %[[U]], <64 x i8> %[[H]], <64 x i8> %[[L]]
// VBMI:         shufflevector <64 x i8> %{{.*}}, <20 x i32>
// NEON-LABEL: define hidden void @tcopt.lanes
// NEON:         call <16 x i8> @llvm.aarch64.neon.tbl4.v16i8
// NEON-COUNT-3: call <16 x i8> @llvm.aarch64.neon.tbx4.v16i8
// NEON:         call <16 x i8> @llvm.aarch64.neon.tbl4.v16i8
// NEON-COUNT-3: call <16 x i8> @llvm.aarch64.neon.tbx4.v16i8
func.func private @lanes(%a: memref<20xi8>, %b: memref<20xi8>) {
  %0 = arith.constant 0 : index
  %x = vector.load %a[%0] : memref<20xi8>, vector<20xi8>
  %r = table.lookup %x of [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92, 93, 94, 95, 96, 97, 98, 99, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113, 114, 115, 116, 117, 118, 119, 120, 121, 122, 123, 124, 125, 126, 127, -128, -127, -126, -125, -124, -123, -122, -121, -120, -119, -118, -117, -116, -115, -114, -113, -112, -111, -110, -109, -108, -107, -106, -105, -104, -103, -102, -101, -100, -99, -98, -97, -96, -95, -94, -93, -92, -91, -90, -89, -88, -87, -86, -85, -84, -83, -82, -81, -80, -79, -78, -77, -76, -75, -74, -73, -72, -71, -70, -69, -68, -67, -66, -65, -64, -63, -62, -61, -60, -59, -58, -57, -56, -55, -54, -53, -52, -51, -50, -49, -48, -47, -46, -45, -44, -43, -42, -41, -40, -39, -38, -37, -36, -35, -34, -33, -32, -31, -30, -29, -28, -27, -26, -25, -24, -23, -22, -21, -20, -19, -18, -17, -16, -15, -14, -13, -12, -11, -10, -9, -8, -7, -6, -5, -4, -3, -2, -1] : vector<20xi8>
  vector.store %r, %b[%0] : memref<20xi8>, vector<20xi8>
  return
}
