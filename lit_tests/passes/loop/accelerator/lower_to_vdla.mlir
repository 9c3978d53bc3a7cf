// RUN: tcopt %s -p lower-loop-to-accelerator --split-input-file --verify-diagnostics | filecheck %s

// Loops around several calls are unrolled; loops around one call become a padded row transfer, or
// two hardware loops with micro-ops for the rest. Each slot has its own kernels, equal kernels are
// shared, and all are loaded at once if they fit.
// CHECK-LABEL: accelerator.program @conv(%x: memref<4x6x16xi8>, %w: memref<2x3x16x16xi8>, %y: memref<2x4x4x16xi32>) {
// CHECK-NEXT:    %reset = vdla.kernel gemm at 0 [16] dst [1] src [0] wgt [0] {
// CHECK-NEXT:      uop 0, 0, 0
// CHECK-NEXT:    }
// CHECK-NEXT:    %gemm = vdla.kernel gemm at 1 [4, 4] dst [4, 1] src [6, 1] wgt [0, 0] {
// CHECK-NEXT:      uop 0, 0, 0
// CHECK-NEXT:      uop 0, 1, 1
// CHECK-NEXT:      uop 0, 2, 2
// CHECK-NEXT:    }
// CHECK-NEXT:    %gemm_1 = vdla.kernel gemm at 4 [4, 4] dst [4, 1] src [6, 1] wgt [0, 0] {
// CHECK-NEXT:      uop 0, 24, 3
// CHECK-NEXT:      uop 0, 25, 4
// CHECK-NEXT:      uop 0, 26, 5
// CHECK-NEXT:    }
// CHECK-NEXT:    vdla.load_uops %reset, %gemm, %gemm_1
// CHECK-NEXT:    vdla.gemm reset %reset
// CHECK-NEXT:    vdla.load inp 0, %x[0] : 4x5 stride 6 pad [0, 0, 1, 0]
// CHECK-NEXT:    vdla.load wgt 0, %w[0] : 1x3
// CHECK-NEXT:    vdla.gemm %gemm
// CHECK-NEXT:    vdla.store acc 0, %y[0] : 1x16
// CHECK-NEXT:    vdla.gemm reset %reset
// CHECK-NEXT:    vdla.load inp 24, %x[0] : 4x5 stride 6 pad [0, 0, 1, 0]
// CHECK-NEXT:    vdla.load wgt 3, %w[3] : 1x3
// CHECK-NEXT:    vdla.gemm %gemm_1
// CHECK-NEXT:    vdla.store acc 0, %y[16] : 1x16
// CHECK-NEXT:    accelerator.finish
builtin.module attributes {tcopt.target = #target.vdla<inp_bytes = 1024, wgt_bytes = 2048, acc_bytes = 1024, uop_bytes = 64>} {
  loop.func @conv(%x: memref<4x6x16xi8>, %w: memref<2x3x16x16xi8>, %y: memref<2x4x4x16xi32>) {
    loop.for %o = 0 to 2 {
      %a = loop.alloc acc_input {slots = 2 : i64, places = array<i64: 0, 24>} : memref<4x6x16xi8>
      %b = loop.alloc acc_weight {slots = 2 : i64, places = array<i64: 0, 3>} : memref<3x16x16xi8>
      %c = loop.alloc acc_register {places = array<i64: 0>} : memref<4x4x16xi32>
      loop.for %i = 0 to 4 {
        loop.for %j = 0 to 4 {
          loop.intrin "vdla_reset_1x16" outs(%c[%i, %j, 0] by [0, 0, 1] : memref<4x4x16xi32>) ins()
        }
      }
      loop.for %i = 0 to 4 {
        loop.for %j = 0 to 6 {
          loop.intrin "vdla_load_inp_1x16" outs(%a[%i, %j, 0] by [0, 0, 1] : memref<4x6x16xi8>) ins(%x[%i, %j - 1, 0] by [0, 0, 1] : memref<4x6x16xi8>)
        }
      }
      loop.for %k = 0 to 3 {
        loop.intrin "vdla_load_wgt_16x16" outs(%b[%k, 0, 0] by [0, 1, 0] [0, 0, 1] : memref<3x16x16xi8>) ins(%w[%o, %k, 0, 0] by [0, 0, 1, 0] [0, 0, 0, 1] : memref<2x3x16x16xi8>)
      }
      loop.for %k = 0 to 3 {
        loop.for %i = 0 to 4 {
          loop.for %j = 0 to 4 {
            loop.intrin "vdla_gemm_1x16x16" outs(%c[%i, %j, 0] by [0, 0, 1] : memref<4x4x16xi32>) ins(%a[%i, %j + %k, 0] by [0, 0, 1] : memref<4x6x16xi8>, %b[%k, 0, 0] by [0, 1, 0] [0, 0, 1] : memref<3x16x16xi8>)
          }
        }
      }
      loop.for %i = 0 to 4 {
        loop.for %j = 0 to 4 {
          loop.intrin "vdla_store_acc_1x16" outs(%y[%o, %i, %j, 0] by [0, 0, 0, 1] : memref<2x4x4x16xi32>) ins(%c[%i, %j, 0] by [0, 0, 1] : memref<4x4x16xi32>)
        }
      }
    }
  }
}

// -----

// Guards shorten loops, as in the smaller last tile. Transfers that exceed an instruction are
// split.
// CHECK-LABEL: accelerator.program @guards
// CHECK:         vdla.load acc 0, %x[0] : 3x2 stride 5
// CHECK-NEXT:    vdla.load acc 6, %x[25] : 3x2 stride 5
// CHECK-NEXT:    vdla.store acc 0, %y[0] : 3x2 stride 5
// CHECK-NEXT:    vdla.store acc 6, %y[25] : 3x2 stride 5
// CHECK-NEXT:    vdla.load acc 0, %x[15] : 2x2 stride 5
// CHECK-NEXT:    vdla.load acc 6, %x[40] : 2x2 stride 5
builtin.module attributes {tcopt.target = #target.vdla<inp_bytes = 1024, wgt_bytes = 2048, acc_bytes = 1024, uop_bytes = 64>} {
  loop.func @guards(%x: memref<2x5x5x16xi32>, %y: memref<2x5x5x16xi32>) {
    loop.for %t = 0 to 2 {
      %a = loop.alloc acc_register {places = array<i64: 0>} : memref<2x3x2x16xi32>
      loop.for %n = 0 to 2 {
        loop.for %i = 0 to 3 {
          loop.guard ([%t * 3 + %i] in 5) {
            loop.for %j = 0 to 2 {
              loop.intrin "vdla_load_acc_1x16" outs(%a[%n, %i, %j, 0] by [0, 0, 0, 1] : memref<2x3x2x16xi32>) ins(%x[%n, %t * 3 + %i, %j, 0] by [0, 0, 0, 1] : memref<2x5x5x16xi32>)
            }
          }
        }
      }
      loop.for %n = 0 to 2 {
        loop.for %i = 0 to 3 {
          loop.guard ([%t * 3 + %i] in 5) {
            loop.for %j = 0 to 2 {
              loop.intrin "vdla_store_acc_1x16" outs(%y[%n, %t * 3 + %i, %j, 0] by [0, 0, 0, 1] : memref<2x5x5x16xi32>) ins(%a[%n, %i, %j, 0] by [0, 0, 0, 1] : memref<2x3x2x16xi32>)
            }
          }
        }
      }
    }
  }
}

// -----

// Loops are interchanged if consecutive iterations would write the same register too soon.
// CHECK-LABEL: accelerator.program @rewrite
// CHECK:         %gemm = vdla.kernel gemm at 0 [3, 4] dst [0, 1] src [1, 1] wgt [0, 0] {
builtin.module attributes {tcopt.target = #target.vdla<inp_bytes = 1024, wgt_bytes = 2048, acc_bytes = 1024, uop_bytes = 64, rewrite = 2>} {
  loop.func @rewrite() {
    %a = loop.alloc acc_input {places = array<i64: 0>} : memref<6x16xi8>
    %b = loop.alloc acc_weight {places = array<i64: 0>} : memref<16x16xi8>
    %c = loop.alloc acc_register {places = array<i64: 0>} : memref<4x16xi32>
    loop.for %i = 0 to 4 {
      loop.for %k = 0 to 3 {
        loop.intrin "vdla_gemm_1x16x16" outs(%c[%i, 0] by [0, 1] : memref<4x16xi32>) ins(%a[%i + %k, 0] by [0, 1] : memref<6x16xi8>, %b[0, 0] by [1, 0] [0, 1] : memref<16x16xi8>)
      }
    }
  }
}

// -----

// Functions for other targets are unchanged.
// CHECK-LABEL: loop.func @host
builtin.module attributes {tcopt.target = #target.vdla<inp_bytes = 1024, wgt_bytes = 2048, acc_bytes = 1024, uop_bytes = 64>} {
  loop.func @host(%x: memref<4xi32>) {
  }
}

// -----

// Only calls of intrinsics can become instructions.
// CHECK: unsupported: 'loop.load': the accelerator has no instruction for loop.load (at {{.*}}); sched.tensorize makes calls of its intrinsics
builtin.module attributes {tcopt.target = #target.vdla<inp_bytes = 1024, wgt_bytes = 2048, acc_bytes = 1024, uop_bytes = 64>} {
  loop.func @scalar(%x: memref<16xi8>) {
    %a = loop.alloc acc_input {places = array<i64: 0>} : memref<16xi8>
    loop.for %i = 0 to 16 {
      %0 = loop.load %x[%i] : memref<16xi8>
      loop.store %0, %a[%i] : memref<16xi8>
    }
  }
}

// -----

// A buffer without an address is reported.
// CHECK: unsupported: 'loop.alloc': %a in acc_input has no address on the accelerator (at {{.*}}); run place-sram first
builtin.module attributes {tcopt.target = #target.vdla<inp_bytes = 1024, wgt_bytes = 2048, acc_bytes = 1024, uop_bytes = 64>} {
  loop.func @nowhere() {
    %a = loop.alloc acc_input : memref<16xi8>
  }
}

// -----

// An intrinsic of another accelerator is rejected.
// CHECK: unsupported: 'loop.intrin': 'vdla_load_inp_1x8' works on entries of 8 bytes, those of acc_input have 16
builtin.module attributes {tcopt.target = #target.vdla<inp_bytes = 1024, wgt_bytes = 2048, acc_bytes = 1024, uop_bytes = 64>} {
  loop.func @other(%x: memref<2x8xi8>) {
    %a = loop.alloc acc_input {places = array<i64: 0>} : memref<2x8xi8>
    loop.for %i = 0 to 2 {
      loop.intrin "vdla_load_inp_1x8" outs(%a[%i, 0] by [0, 1] : memref<2x8xi8>) ins(%x[%i, 0] by [0, 1] : memref<2x8xi8>)
    }
  }
}

// -----

// A load must read some data, not only pads.
// CHECK: unsupported: 'loop.intrin': a tile is entirely outside of %x: no instruction writes only zeros (at {{.*}}); larger tiles reach into the data
builtin.module attributes {tcopt.target = #target.vdla<inp_bytes = 1024, wgt_bytes = 2048, acc_bytes = 1024, uop_bytes = 64>} {
  loop.func @zeros(%x: memref<2x16xi8>) {
    %a = loop.alloc acc_input {places = array<i64: 0>} : memref<2x16xi8>
    loop.for %i = 0 to 2 {
      loop.intrin "vdla_load_inp_1x16" outs(%a[%i, 0] by [0, 1] : memref<2x16xi8>) ins(%x[%i + 2, 0] by [0, 1] : memref<2x16xi8>)
    }
  }
}

// -----

// ALU ops update registers in place, with an immediate or with other registers, which may be
// broadcast.
// CHECK-LABEL: accelerator.program @alu
// CHECK-NEXT:    %add = vdla.kernel alu at 0 [8] dst [1] src [0] {
// CHECK-NEXT:      uop 0, 8
// CHECK-NEXT:    }
// CHECK-NEXT:    %shr = vdla.kernel alu at 1 [8] dst [1] src [0] {
// CHECK-NEXT:      uop 0, 0
// CHECK-NEXT:    }
// CHECK:         vdla.load acc 0, %x[0] : 1x8
// CHECK-NEXT:    vdla.load acc 8, %b[0] : 1x1
// CHECK-NEXT:    vdla.load_uops %add, %shr
// CHECK-NEXT:    vdla.alu add %add
// CHECK-NEXT:    vdla.alu shr %shr, 4
// CHECK-NEXT:    vdla.alu max %shr, -128
// CHECK-NEXT:    vdla.store out 0, %y[0] : 1x8
builtin.module attributes {tcopt.target = #target.vdla<results = "i8", features = "alu", inp_bytes = 1024, wgt_bytes = 2048, acc_bytes = 1024, uop_bytes = 64>} {
  loop.func @alu(%x: memref<8x16xi32>, %b: memref<16xi32>, %y: memref<8x16xi8>) {
    %a = loop.alloc acc_register {places = array<i64: 0>} : memref<8x16xi32>
    %c = loop.alloc acc_register {places = array<i64: 8>} : memref<16xi32>
    loop.for %i = 0 to 8 {
      loop.intrin "vdla_load_acc_1x16" outs(%a[%i, 0] by [0, 1] : memref<8x16xi32>) ins(%x[%i, 0] by [0, 1] : memref<8x16xi32>)
    }
    loop.intrin "vdla_load_acc_1x16" outs(%c[0] by [1] : memref<16xi32>) ins(%b[0] by [1] : memref<16xi32>)
    loop.for %i = 0 to 8 {
      loop.intrin "vdla_add_1x16" outs(%a[%i, 0] by [0, 1] : memref<8x16xi32>) ins(%c[0] by [1] : memref<16xi32>)
    }
    loop.for %i = 0 to 8 {
      loop.intrin "vdla_shr_1x16_by_4" outs(%a[%i, 0] by [0, 1] : memref<8x16xi32>) ins()
    }
    loop.for %i = 0 to 8 {
      loop.intrin "vdla_max_1x16_by_-128" outs(%a[%i, 0] by [0, 1] : memref<8x16xi32>) ins()
    }
    loop.for %i = 0 to 8 {
      loop.intrin "vdla_store_out_1x16" outs(%y[%i, 0] by [0, 1] : memref<8x16xi8>) ins(%a[%i, 0] by [0, 1] : memref<8x16xi32>)
    }
  }
}

// -----

// If micro-op memory is too small for all kernels, they are loaded again.
// CHECK-LABEL: accelerator.program @again
// CHECK:         vdla.load_uops %reset
// CHECK-NEXT:    vdla.gemm reset %reset
// CHECK-NEXT:    vdla.load_uops %reset_1
// CHECK-NEXT:    vdla.gemm reset %reset_1
// CHECK-NEXT:    vdla.load_uops %reset
// CHECK-NEXT:    vdla.gemm reset %reset
// CHECK-NEXT:    accelerator.finish
builtin.module attributes {tcopt.target = #target.vdla<inp_bytes = 1024, wgt_bytes = 2048, acc_bytes = 1024, uop_bytes = 4>} {
  loop.func @again() {
    loop.for %n = 0 to 3 {
      %a = loop.alloc acc_register {slots = 2 : i64, places = array<i64: 0, 4>} : memref<4x16xi32>
      loop.for %i = 0 to 4 {
        loop.intrin "vdla_reset_1x16" outs(%a[%i, 0] by [0, 1] : memref<4x16xi32>) ins()
      }
    }
  }
}

// -----

// Registers are set to a constant by a reset, an add and a shift. The padding of loaded bytes is
// first zero, then set to the constant: rows above and below, and columns left and right.
// CHECK-LABEL: accelerator.program @around
// CHECK-NEXT:    %reset = vdla.kernel gemm at 0 [20] dst [1] src [0] wgt [0] {
// CHECK:         %add = vdla.kernel alu at 1 [20] dst [1] src [0] {
// CHECK:         %min = vdla.kernel alu at 2 [5] dst [1] src [0] {
// CHECK-NEXT:      uop 0, 0
// CHECK:         %min_1 = vdla.kernel alu at 3 [3] dst [5] src [0] {
// CHECK-NEXT:      uop 5, 0
// CHECK:         %min_2 = vdla.kernel alu at 4 [3] dst [5] src [0] {
// CHECK-NEXT:      uop 9, 0
// CHECK:         vdla.gemm reset %reset
// CHECK-NEXT:    vdla.alu add %add, -24576
// CHECK-NEXT:    vdla.alu shr %add, -3
// CHECK-NEXT:    vdla.load acc8 0, %x[0] : 3x3 pad [1, 0, 1, 1]
// CHECK-NEXT:    vdla.alu min %min, -128
// CHECK-NEXT:    vdla.alu min %min_1, -128
// CHECK-NEXT:    vdla.alu min %min_2, -128
builtin.module attributes {tcopt.target = #target.vdla<results = "i8", features = "alu,load_i8", inp_bytes = 1024, wgt_bytes = 2048, acc_bytes = 4096, uop_bytes = 64>} {
  loop.func @around(%x: memref<3x3x16xi8>, %y: memref<4x5x16xi8>) {
    %a = loop.alloc acc_register {places = array<i64: 0>} : memref<4x5x16xi32>
    loop.for %i = 0 to 4 {
      loop.for %j = 0 to 5 {
        loop.intrin "vdla_set_1x16_by_-196608" outs(%a[%i, %j, 0] by [0, 0, 1] : memref<4x5x16xi32>) ins()
      }
    }
    loop.for %i = 0 to 4 {
      loop.for %j = 0 to 5 {
        loop.intrin "vdla_load_acc8_1x16_by_-128" outs(%a[%i, %j, 0] by [0, 0, 1] : memref<4x5x16xi32>) ins(%x[%i - 1, %j - 1, 0] by [0, 0, 1] : memref<3x3x16xi8>)
      }
    }
    loop.for %i = 0 to 4 {
      loop.for %j = 0 to 5 {
        loop.intrin "vdla_store_out_1x16" outs(%y[%i, %j, 0] by [0, 0, 1] : memref<4x5x16xi8>) ins(%a[%i, %j, 0] by [0, 0, 1] : memref<4x5x16xi32>)
      }
    }
  }
}
