// RUN: tcopt %s -p compact-buffers --split-input-file | filecheck %s

// The accumulator moves to its tile and shrinks to it.
// CHECK-LABEL: loop.func @tile
// CHECK:       loop.for %i = 0 to 8 parallel {
// CHECK-NEXT:    loop.for %j = 0 to 4 {
// CHECK-NEXT:      %acc = loop.alloc register : memref<1x16xf32>
// CHECK:           loop.block "mm" (%vi: spatial 8 = %i, %vj: spatial 64 = %j * 16 + %l, %vk: reduce 32 = %k, %j_base: spatial 4 = %j)
// CHECK:             loop.store %zero, %acc[0, %vj + %j_base * -16] : memref<1x16xf32>
// CHECK:           loop.block "out"
// CHECK:             loop.load %acc[0, %{{.*}} + %{{.*}} * -16] : memref<1x16xf32>
loop.func @tile(%x: memref<8x32xf32>, %w: memref<32x64xf32>, %y: memref<8x64xf32>) {
  %acc = loop.alloc register : memref<8x64xf32>
  loop.for %i = 0 to 8 parallel {
    loop.for %j = 0 to 4 {
      loop.for %k = 0 to 32 {
        loop.for %l = 0 to 16 vectorized {
          loop.block "mm" (%vi: spatial 8 = %i, %vj: spatial 64 = %j * 16 + %l, %vk: reduce 32 = %k) {
            loop.init {
              %zero = arith.constant 0.0 : f32
              loop.store %zero, %acc[%vi, %vj] : memref<8x64xf32>
            }
            %a = loop.load %x[%vi, %vk] : memref<8x32xf32>
            %b = loop.load %w[%vk, %vj] : memref<32x64xf32>
            %c = arith.mulf %a, %b : f32
            %d = loop.load %acc[%vi, %vj] : memref<8x64xf32>
            %e = arith.addf %d, %c : f32
            loop.store %e, %acc[%vi, %vj] : memref<8x64xf32>
          }
        }
      }
      loop.for %l = 0 to 16 vectorized {
        loop.block "out" (%vi: spatial 8 = %i, %vj: spatial 64 = %j * 16 + %l) {
          %d = loop.load %acc[%vi, %vj] : memref<8x64xf32>
          loop.store %d, %y[%vi, %vj] : memref<8x64xf32>
        }
      }
    }
  }
}

// -----

// If a guarded read may be outside the original buffer, a select keeps the default.
// CHECK-LABEL: loop.func @halo
// CHECK:       %t = loop.alloc global : memref<6xf32>
// CHECK:       loop.block "blur"
// CHECK-NEXT:    %a = loop.load %t[%v + %{{.*}} * -4] : memref<6xf32>
// CHECK-NEXT:    [[I:%.*]] = loop.index [%v - 1]
// CHECK-NEXT:    [[N:%.*]] = arith.constant 16 : index
// CHECK-NEXT:    [[C:%.*]] = arith.cmpi ult, [[I]], [[N]] : index
// CHECK-NEXT:    [[D:%.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:    arith.select [[C]], %a, [[D]] : f32
loop.func @halo(%x: memref<16xf32>, %y: memref<16xf32>) {
  %t = loop.alloc global : memref<16xf32>
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 6 {
      loop.block "twice" (%v: spatial 16 = %i * 4 + %j - 1) {
        %a = loop.load %x[%v] : memref<16xf32>
        %b = arith.addf %a, %a : f32
        loop.store %b, %t[%v] : memref<16xf32>
      }
    }
    loop.for %j = 0 to 4 {
      loop.block "blur" (%v: spatial 16 = %i * 4 + %j) {
        %a = loop.load %t[%v - 1] else 0.0 : memref<16xf32>
        %b = loop.load %t[%v + 1] else 0.0 : memref<16xf32>
        %c = arith.addf %a, %b : f32
        loop.store %c, %y[%v] : memref<16xf32>
      }
    }
  }
}

// -----

// A buffer that carries values between iterations stays outside the loop.
// CHECK-LABEL: loop.func @prefix
// CHECK-NEXT:    %s = loop.alloc local : memref<9xf32>
// CHECK:         loop.for %i = 0 to 8 {
// CHECK-NEXT:      loop.block "step"
loop.func @prefix(%x: memref<8xf32>, %y: memref<8xf32>) {
  %s = loop.alloc local : memref<9xf32>
  loop.for %i = 0 to 8 {
    loop.block "step" (%v: spatial 8 = %i) {
      %a = loop.load %s[%v] : memref<9xf32>
      %b = loop.load %x[%v] : memref<8xf32>
      %c = arith.addf %a, %b : f32
      loop.store %c, %s[%v + 1] : memref<9xf32>
      loop.store %c, %y[%v] : memref<8xf32>
    }
  }
}

// -----

// The accumulator of a reduction whose outer loop is around its inner loops stays outside too.
// CHECK-LABEL: loop.func @running
// CHECK-NEXT:    %s = loop.alloc local : memref<4xf32>
// CHECK:         loop.for %k = 0 to 8 {
loop.func @running(%x: memref<8x4xf32>, %y: memref<8x4xf32>) {
  %s = loop.alloc local : memref<4xf32>
  loop.for %k = 0 to 8 {
    loop.for %i = 0 to 4 {
      loop.block "sum" (%v: spatial 4 = %i, %r: reduce 8 = %k) {
        loop.init {
          %zero = arith.constant 0.0 : f32
          loop.store %zero, %s[%v] : memref<4xf32>
        }
        %a = loop.load %s[%v] : memref<4xf32>
        %b = loop.load %x[%r, %v] : memref<8x4xf32>
        %c = arith.addf %a, %b : f32
        loop.store %c, %s[%v] : memref<4xf32>
      }
      loop.block "use" (%v: spatial 4 = %i, %w: spatial 8 = %k) {
        %a = loop.load %s[%v] : memref<4xf32>
        loop.store %a, %y[%w, %v] : memref<8x4xf32>
      }
    }
  }
}

// -----

// A buffer inside a parallel loop never moves out of it.
// CHECK-LABEL: loop.func @inside
// CHECK-NEXT:    loop.for %i = 0 to 4 parallel {
// CHECK-NEXT:      %s = loop.alloc local : memref<9xf32>
loop.func @inside(%x: memref<4x8xf32>, %y: memref<4x8xf32>) {
  loop.for %i = 0 to 4 parallel {
    %s = loop.alloc local : memref<9xf32>
    loop.for %j = 0 to 8 {
      loop.block "step" (%u: spatial 4 = %i, %v: spatial 8 = %j) {
        %a = loop.load %s[%v] : memref<9xf32>
        %b = loop.load %x[%u, %v] : memref<4x8xf32>
        %c = arith.addf %a, %b : f32
        loop.store %c, %s[%v + 1] : memref<9xf32>
        loop.store %c, %y[%u, %v] : memref<4x8xf32>
      }
    }
  }
}

// -----

// A buffer that is written but never read is removed, with everything that only feeds it.
// CHECK-LABEL: loop.func @unused
// CHECK-NEXT:    loop.for %i = 0 to 8 {
// CHECK-NEXT:      loop.block "used"
// CHECK-NOT:       "unused"
loop.func @unused(%x: memref<8xf32>, %y: memref<8xf32>) {
  %t = loop.alloc global : memref<8xf32>
  loop.for %i = 0 to 8 {
    loop.block "unused" (%v: spatial 8 = %i) {
      %a = loop.load %x[%v] : memref<8xf32>
      %b = arith.addf %a, %a : f32
      loop.store %b, %t[%v] : memref<8xf32>
    }
  }
  loop.for %i = 0 to 8 {
    loop.block "used" (%v: spatial 8 = %i) {
      %a = loop.load %x[%v] : memref<8xf32>
      loop.store %a, %y[%v] : memref<8xf32>
    }
  }
}

// -----

// A shared buffer is allocated once for the block and holds what all threads access in one
// iteration.
// CHECK-LABEL: loop.func @shared
// CHECK:       loop.for %b = 0 to 4 thread blockIdx.x {
// CHECK-NEXT:    %s = loop.alloc shared : memref<16x8xf32>
// CHECK-NEXT:    loop.for %t = 0 to 16 thread threadIdx.x {
// CHECK-NEXT:      loop.for %k = 0 to 4 {
// CHECK-NEXT:        loop.for %c = 0 to 8 {
// CHECK-NEXT:          loop.for %r = 0 to 16 thread threadIdx.x {
// CHECK:                 loop.store %{{.*}}, %s[%vi + %b_base * -16, %vk + %k_base * -8]
loop.func @shared(%x: memref<64x32xf32>, %y: memref<64xf32>) {
  loop.for %b = 0 to 4 thread blockIdx.x {
    loop.for %t = 0 to 16 thread threadIdx.x {
      loop.for %k = 0 to 4 {
        %s = loop.alloc shared : memref<64x32xf32>
        loop.for %c = 0 to 8 {
          loop.for %r = 0 to 16 thread threadIdx.x {
            loop.block "s" (%vi: spatial 64 = %b * 16 + %r, %vk: spatial 32 = %k * 8 + %c) {
              %a = loop.load %x[%vi, %vk] : memref<64x32xf32>
              loop.store %a, %s[%vi, %vk] : memref<64x32xf32>
            }
          }
        }
        loop.for %c = 0 to 8 {
          loop.block "sum" (%vi: spatial 64 = %b * 16 + %t, %vk: reduce 32 = %k * 8 + %c) {
            %a = loop.load %s[%vi, %vk] : memref<64x32xf32>
            %o = loop.load %y[%vi] : memref<64xf32>
            %n = arith.addf %o, %a : f32
            loop.store %n, %y[%vi] : memref<64xf32>
          }
        }
      }
    }
  }
}

// -----

// Accesses of intrinsics count with their whole tiles.
// CHECK-LABEL: loop.func @tiles
// CHECK:       loop.for %i = 0 to 8 {
// CHECK-NEXT:    %a = loop.alloc acc_input : memref<6x16xi8>
// CHECK-NEXT:    loop.for %z = 0 to 6 {
// CHECK-NEXT:      loop.intrin "vdla_load_inp_1x16" outs(%a[%z, 0] by [0, 1] : memref<6x16xi8>) ins(%x[%i * 4 + %z - 1, 0] by [0, 1] : memref<32x16xi8>)
// CHECK:         loop.for %z = 0 to 4 {
// CHECK-NEXT:      loop.for %k = 0 to 3 {
// CHECK-NEXT:        loop.intrin "vdla_gemm_1x16x16" outs(%c[%i * 4 + %z, 0] by [0, 1] : memref<32x16xi32>)
// CHECK-SAME:          ins(%a[%z + %k, 0] by [0, 1] : memref<6x16xi8>, %w[0, 0] by [1, 0] [0, 1] : memref<16x16xi8>)
loop.func @tiles(%x: memref<32x16xi8>) {
  %w = loop.alloc acc_weight : memref<16x16xi8>
  %c = loop.alloc acc_register : memref<32x16xi32>
  %a = loop.alloc acc_input : memref<34x16xi8>
  loop.for %i = 0 to 8 {
    loop.for %z = 0 to 6 {
      loop.intrin "vdla_load_inp_1x16" outs(%a[%i * 4 + %z, 0] by [0, 1] : memref<34x16xi8>) ins(%x[%i * 4 + %z - 1, 0] by [0, 1] : memref<32x16xi8>)
    }
    loop.for %z = 0 to 4 {
      loop.for %k = 0 to 3 {
        loop.intrin "vdla_gemm_1x16x16" outs(%c[%i * 4 + %z, 0] by [0, 1] : memref<32x16xi32>) ins(%a[%i * 4 + %z + %k, 0] by [0, 1] : memref<34x16xi8>, %w[0, 0] by [1, 0] [0, 1] : memref<16x16xi8>)
      }
    }
  }
}

// -----

// Guards limit the accessed range: the last of 16 iterations are outside the block's domain.
// CHECK-LABEL: loop.func @guarded
// CHECK:       loop.for %i = 0 to 3 {
// CHECK-NEXT:    %t = loop.alloc global : memref<12xf32>
// CHECK:         loop.store %{{.*}}, %t[%{{.*}} + %{{.*}} * -12] : memref<12xf32>
loop.func @guarded(%x: memref<36xf32>, %y: memref<36xf32>) {
  %t = loop.alloc global : memref<36xf32>
  loop.for %i = 0 to 3 {
    loop.for %j = 0 to 16 {
      loop.block "twice" (%v: spatial 36 = %i * 12 + %j, %g: spatial 12 = %j) {
        %a = loop.load %x[%v] : memref<36xf32>
        %b = arith.addf %a, %a : f32
        loop.store %b, %t[%v] : memref<36xf32>
      }
    }
    loop.for %j = 0 to 12 {
      loop.block "copy" (%v: spatial 36 = %i * 12 + %j) {
        %a = loop.load %t[%v] : memref<36xf32>
        loop.store %a, %y[%v] : memref<36xf32>
      }
    }
  }
}

// -----

// Rows of a fused loop: one iteration accesses at most two of them.
// CHECK-LABEL: loop.func @fused
// CHECK:       loop.for %i = 0 to 10 {
// CHECK-NEXT:    %t = loop.alloc global : memref<2x14xf32>
loop.func @fused(%x: memref<140xf32>, %y: memref<140xf32>) {
  %t = loop.alloc global : memref<11x14xf32>
  loop.for %i = 0 to 10 {
    loop.for %j = 0 to 14 {
      loop.block "twice" (%v: spatial 140 = %i * 14 + %j) {
        %a = loop.load %x[%v] : memref<140xf32>
        loop.store %a, %t[(%v + 7) floordiv 14, (%v + 7) mod 14] : memref<11x14xf32>
      }
    }
    loop.for %j = 0 to 14 {
      loop.block "copy" (%v: spatial 140 = %i * 14 + %j) {
        %a = loop.load %t[(%v + 7) floordiv 14, (%v + 7) mod 14] : memref<11x14xf32>
        loop.store %a, %y[%v] : memref<140xf32>
      }
    }
  }
}
