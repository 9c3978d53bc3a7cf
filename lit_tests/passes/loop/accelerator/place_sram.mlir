// RUN: tcopt %s -p place-sram --split-input-file --verify-diagnostics | filecheck %s

// Buffers with overlapping live ranges are placed apart, the largest first; each memory has its own
// offsets, in entries.
// CHECK-LABEL: loop.func @apart
// CHECK:         %small = loop.alloc acc_input {places = array<i64: 8>} : memref<4x16xi8>
// CHECK-NEXT:    %large = loop.alloc acc_input {places = array<i64: 0>} : memref<8x16xi8>
// CHECK-NEXT:    %w = loop.alloc acc_weight {places = array<i64: 0>} : memref<16x16xi8>
// CHECK-NEXT:    %c = loop.alloc acc_register {places = array<i64: 0>} : memref<8x16xi32>
builtin.module attributes {tcopt.target = #target.vdla<inp_bytes = 512, wgt_bytes = 512, acc_bytes = 1024, uop_bytes = 64>} {
  loop.func @apart(%x: memref<8x16xi8>) {
    %small = loop.alloc acc_input : memref<4x16xi8>
    %large = loop.alloc acc_input : memref<8x16xi8>
    %w = loop.alloc acc_weight : memref<16x16xi8>
    %c = loop.alloc acc_register : memref<8x16xi32>
    loop.for %i = 0 to 8 {
      loop.intrin "vdla_load_inp_1x16" outs(%large[%i, 0] by [0, 1] : memref<8x16xi8>) ins(%x[%i, 0] by [0, 1] : memref<8x16xi8>)
    }
    loop.for %i = 0 to 4 {
      loop.intrin "vdla_load_inp_1x16" outs(%small[%i, 0] by [0, 1] : memref<4x16xi8>) ins(%x[%i, 0] by [0, 1] : memref<8x16xi8>)
    }
    loop.for %i = 0 to 8 {
      loop.intrin "vdla_gemm_1x16x16" outs(%c[%i, 0] by [0, 1] : memref<8x16xi32>) ins(%large[%i, 0] by [0, 1] : memref<8x16xi8>, %w[0, 0] by [1, 0] [0, 1] : memref<16x16xi8>)
    }
    loop.for %i = 0 to 4 {
      loop.intrin "vdla_gemm_1x16x16" outs(%c[%i, 0] by [0, 1] : memref<8x16xi32>) ins(%small[%i, 0] by [0, 1] : memref<4x16xi8>, %w[0, 0] by [1, 0] [0, 1] : memref<16x16xi8>)
    }
  }
}

// -----

// Buffers with disjoint live ranges share memory.
// CHECK-LABEL: loop.func @in_turn
// CHECK:         %a = loop.alloc acc_register {places = array<i64: 0>} : memref<8x16xi32>
// CHECK-NEXT:    %b = loop.alloc acc_register {places = array<i64: 0>} : memref<8x16xi32>
builtin.module attributes {tcopt.target = #target.vdla<inp_bytes = 512, wgt_bytes = 512, acc_bytes = 512, uop_bytes = 64>} {
  loop.func @in_turn(%x: memref<8x16xi32>, %y: memref<2x8x16xi32>) {
    %a = loop.alloc acc_register : memref<8x16xi32>
    %b = loop.alloc acc_register : memref<8x16xi32>
    loop.for %i = 0 to 8 {
      loop.intrin "vdla_load_acc_1x16" outs(%a[%i, 0] by [0, 1] : memref<8x16xi32>) ins(%x[%i, 0] by [0, 1] : memref<8x16xi32>)
    }
    loop.for %i = 0 to 8 {
      loop.intrin "vdla_store_acc_1x16" outs(%y[0, %i, 0] by [0, 0, 1] : memref<2x8x16xi32>) ins(%a[%i, 0] by [0, 1] : memref<8x16xi32>)
    }
    loop.for %i = 0 to 8 {
      loop.intrin "vdla_load_acc_1x16" outs(%b[%i, 0] by [0, 1] : memref<8x16xi32>) ins(%x[%i, 0] by [0, 1] : memref<8x16xi32>)
    }
    loop.for %i = 0 to 8 {
      loop.intrin "vdla_store_acc_1x16" outs(%y[1, %i, 0] by [0, 0, 1] : memref<2x8x16xi32>) ins(%b[%i, 0] by [0, 1] : memref<8x16xi32>)
    }
  }
}

// -----

// Slots are placed apart from each other and from every buffer that is live in the loops around
// them.
// CHECK-LABEL: loop.func @slots
// CHECK:         %a = loop.alloc acc_register {slots = 2 : i64, places = array<i64: 0, 4>} : memref<4x16xi32>
// CHECK:         %b = loop.alloc acc_register {places = array<i64: 8>} : memref<4x16xi32>
builtin.module attributes {tcopt.target = #target.vdla<inp_bytes = 512, wgt_bytes = 512, acc_bytes = 1024, uop_bytes = 64>} {
  loop.func @slots(%x: memref<2x4x16xi32>, %y: memref<2x4x16xi32>) {
    loop.for %n = 0 to 2 {
      %a = loop.alloc acc_register {slots = 2 : i64} : memref<4x16xi32>
      loop.for %i = 0 to 4 {
        loop.intrin "vdla_load_acc_1x16" outs(%a[%i, 0] by [0, 1] : memref<4x16xi32>) ins(%x[%n, %i, 0] by [0, 0, 1] : memref<2x4x16xi32>)
      }
      loop.for %i = 0 to 4 {
        loop.intrin "vdla_store_acc_1x16" outs(%y[%n, %i, 0] by [0, 0, 1] : memref<2x4x16xi32>) ins(%a[%i, 0] by [0, 1] : memref<4x16xi32>)
      }
      %b = loop.alloc acc_register : memref<4x16xi32>
      loop.for %i = 0 to 4 {
        loop.intrin "vdla_reset_1x16" outs(%b[%i, 0] by [0, 1] : memref<4x16xi32>) ins()
      }
    }
  }
}

// -----

// A buffer that does not fit is reported with the buffers that are live at the same time.
// CHECK: unsupported: 'loop.alloc': %b (2 times 256 bytes) does not fit acc_register, which has 1,024 bytes and holds %a (768 bytes) (at {{.*}}); smaller tiles, or fewer slots, need less
builtin.module attributes {tcopt.target = #target.vdla<inp_bytes = 512, wgt_bytes = 512, acc_bytes = 1024, uop_bytes = 64>} {
  loop.func @full(%x: memref<12x16xi32>, %y: memref<12x16xi32>) {
    %a = loop.alloc acc_register : memref<12x16xi32>
    %b = loop.alloc acc_register {slots = 2 : i64} : memref<4x16xi32>
    loop.for %i = 0 to 12 {
      loop.intrin "vdla_load_acc_1x16" outs(%a[%i, 0] by [0, 1] : memref<12x16xi32>) ins(%x[%i, 0] by [0, 1] : memref<12x16xi32>)
    }
    loop.for %i = 0 to 4 {
      loop.intrin "vdla_reset_1x16" outs(%b[%i, 0] by [0, 1] : memref<4x16xi32>) ins()
    }
    loop.for %i = 0 to 12 {
      loop.intrin "vdla_store_acc_1x16" outs(%y[%i, 0] by [0, 1] : memref<12x16xi32>) ins(%a[%i, 0] by [0, 1] : memref<12x16xi32>)
    }
  }
}

// -----

// A buffer must be a multiple of an entry.
// CHECK: unsupported: 'loop.alloc': %a has 24 bytes, which are not whole entries of acc_input of 16 bytes
builtin.module attributes {tcopt.target = #target.vdla<inp_bytes = 512, wgt_bytes = 512, acc_bytes = 1024, uop_bytes = 64>} {
  loop.func @odd() {
    %a = loop.alloc acc_input : memref<24xi8>
  }
}
