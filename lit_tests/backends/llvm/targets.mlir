// RUN: tcopt %s -t 'asm{cpu=skylake-avx512}' | filecheck %s --check-prefix=AVX512
// RUN: tcopt %s -t 'asm{cpu=haswell}' | filecheck %s --check-prefix=AVX2
// RUN: tcopt %s -t 'asm{cpu=cortex-a72}' | filecheck %s --check-prefix=ARM
// RUN: tcopt %s -t 'llvm{cpu=haswell}' | filecheck %s --check-prefix=LLVM

// One kernel for several CPUs: vectors are split to the register width of each.
func.func private @twice(%a: memref<16xf32>) {
  %c0 = arith.constant 0 : index
  %v = vector.load %a[%c0] : memref<16xf32>, vector<16xf32>
  %w = arith.addf %v, %v : vector<16xf32>
  vector.store %w, %a[%c0] : memref<16xf32>, vector<16xf32>
  func.return
}
// AVX512: vaddps %zmm
// AVX2:   vaddps %ymm
// AVX2:   vaddps %ymm
// ARM:    fadd v{{[0-9]+}}.4s
// ARM:    fadd v{{[0-9]+}}.4s
// LLVM:   target datalayout = "e-m:e-
// LLVM:   target triple = "x86_64-unknown-linux-gnu"
