// RUN: tcopt %s -p inject-virtual-threads --split-input-file | filecheck %s

// Code that does not depend on the virtual thread, such as filling shared memory, runs once; each
// virtual thread has its own register.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @shared
// CHECK:       loop.for %t = 0 to 16 thread threadIdx.x {
// CHECK-NEXT:    %r = loop.alloc register : memref<2x1xf32>
// CHECK-NEXT:    %zero = arith.constant
// CHECK-NEXT:    loop.for %v = 0 to 2 unrolled {
// CHECK-NEXT:      loop.store %zero, %r[%v, 0]
// CHECK:         loop.for %k = 0 to 4 {
// CHECK-NEXT:      loop.for %c = 0 to 32 {
// CHECK-NEXT:        %a = loop.load %x[%k * 16 + %c]
// CHECK-NEXT:        loop.store %a, %s[%c]
// CHECK:           loop.for %v = 0 to 2 unrolled {
// CHECK-NEXT:        %b = loop.load %s[%v * 16 + %t]
// CHECK-NEXT:        %o = loop.load %r[%v, 0]
// CHECK-NEXT:        %n = arith.addf %o, %b
// CHECK-NEXT:        loop.store %n, %r[%v, 0]
// CHECK:         loop.for %v = 0 to 2 unrolled {
// CHECK-NEXT:      %e = loop.load %r[%v, 0]
// CHECK-NEXT:      loop.store %e, %y[%v * 16 + %t]
loop.func @shared(%x: memref<64xf32>, %y: memref<32xf32>) {
  %s = loop.alloc shared : memref<32xf32>
  loop.for %v = 0 to 2 virtual {
    loop.for %t = 0 to 16 thread threadIdx.x {
      %r = loop.alloc register : memref<1xf32>
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %r[0] : memref<1xf32>
      loop.for %k = 0 to 4 {
        loop.for %c = 0 to 32 {
          %a = loop.load %x[%k * 16 + %c] else 0.0 : memref<64xf32>
          loop.store %a, %s[%c] : memref<32xf32>
        }
        %b = loop.load %s[%v * 16 + %t] : memref<32xf32>
        %o = loop.load %r[0] : memref<1xf32>
        %n = arith.addf %o, %b : f32
        loop.store %n, %r[0] : memref<1xf32>
      }
      %e = loop.load %r[0] : memref<1xf32>
      loop.store %e, %y[%v * 16 + %t] : memref<32xf32>
    }
  }
}
}

// -----

// A condition on the virtual thread stays inside the loop over virtual threads, as do vectors.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @guard
// CHECK:       loop.for %t = 0 to 4 thread threadIdx.x {
// CHECK-NEXT:    loop.for %v = 0 to 2 unrolled {
// CHECK-NEXT:      loop.guard ([%v * 4 + %t] in 7) {
// CHECK:         loop.for %v = 0 to 2 unrolled {
// CHECK-NEXT:      loop.for %l = 0 to 4 vectorized {
loop.func @guard(%x: memref<8x4xf32>, %y: memref<8x4xf32>) {
  loop.for %v = 0 to 2 virtual {
    loop.for %t = 0 to 4 thread threadIdx.x {
      loop.guard ([%v * 4 + %t] in 7) {
        %a = loop.load %x[%v * 4 + %t, 0] : memref<8x4xf32>
        loop.store %a, %y[%v * 4 + %t, 0] : memref<8x4xf32>
      }
      loop.for %l = 0 to 4 vectorized {
        %a = loop.load %x[%v * 4 + %t, %l] : memref<8x4xf32>
        loop.store %a, %y[%v * 4 + %t, %l] : memref<8x4xf32>
      }
    }
  }
}
}

// -----

// A value with a user further inside keeps the code between them in one loop.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @value
// CHECK:       loop.for %v = 0 to 2 unrolled {
// CHECK-NEXT:    %a = loop.load %x[%v]
// CHECK-NEXT:    loop.for %k = 0 to 4 {
// CHECK-NEXT:      loop.store %a, %y[%v * 4 + %k]
loop.func @value(%x: memref<2xf32>, %y: memref<8xf32>) {
  loop.for %v = 0 to 2 virtual {
    %a = loop.load %x[%v] : memref<2xf32>
    loop.for %k = 0 to 4 {
      loop.store %a, %y[%v * 4 + %k] : memref<8xf32>
    }
  }
}
}

// -----

// On an accelerator, virtual threads have their own parts of its memories. A single instruction
// stays whole, and shared data is loaded once.
module attributes {tcopt.target = #target.vdla<inp_bytes = 1024, wgt_bytes = 2048, acc_bytes = 1024, uop_bytes = 64>} {
// CHECK-LABEL: loop.func @accelerator
// CHECK-NEXT:    %c = loop.alloc acc_register : memref<2x4x16xi32>
// CHECK-NEXT:    loop.for %v = 0 to 2 unrolled {
// CHECK-NEXT:      loop.for %i = 0 to 4 {
// CHECK-NEXT:        loop.intrin "vdla_reset_1x16" outs(%c[%v, %i, 0] by [0, 0, 1] : memref<2x4x16xi32>) ins()
// CHECK:         loop.for %k = 0 to 3 {
// CHECK-NEXT:      %a = loop.alloc acc_input : memref<4x16xi8>
// CHECK-NEXT:      %b = loop.alloc acc_weight : memref<2x16x16xi8>
// CHECK-NEXT:      loop.for %i = 0 to 4 {
// CHECK-NEXT:        loop.intrin "vdla_load_inp_1x16" outs(%a[%i, 0] by [0, 1] : memref<4x16xi8>) ins(%x[%k, %i, 0] by [0, 0, 1] : memref<3x4x16xi8>)
// CHECK-NEXT:      }
// CHECK-NEXT:      loop.for %v = 0 to 2 unrolled {
// CHECK-NEXT:        loop.intrin "vdla_load_wgt_16x16" outs(%b[%v, 0, 0] by [0, 1, 0] [0, 0, 1] : memref<2x16x16xi8>)
// CHECK-NEXT:      }
// CHECK-NEXT:      loop.for %v = 0 to 2 unrolled {
// CHECK-NEXT:        loop.for %i = 0 to 4 {
// CHECK-NEXT:          loop.intrin "vdla_gemm_1x16x16" outs(%c[%v, %i, 0] by [0, 0, 1] : memref<2x4x16xi32>) ins(%a[%i, 0] by [0, 1] : memref<4x16xi8>, %b[%v, 0, 0] by [0, 1, 0] [0, 0, 1] : memref<2x16x16xi8>)
  loop.func @accelerator(%x: memref<3x4x16xi8>, %w: memref<2x3x16x16xi8>, %y: memref<2x4x16xi32>) {
    loop.for %v = 0 to 2 virtual {
      %c = loop.alloc acc_register : memref<4x16xi32>
      loop.for %i = 0 to 4 {
        loop.intrin "vdla_reset_1x16" outs(%c[%i, 0] by [0, 1] : memref<4x16xi32>) ins()
      }
      loop.for %k = 0 to 3 {
        %a = loop.alloc acc_input : memref<4x16xi8>
        %b = loop.alloc acc_weight : memref<16x16xi8>
        loop.for %i = 0 to 4 {
          loop.intrin "vdla_load_inp_1x16" outs(%a[%i, 0] by [0, 1] : memref<4x16xi8>) ins(%x[%k, %i, 0] by [0, 0, 1] : memref<3x4x16xi8>)
        }
        loop.intrin "vdla_load_wgt_16x16" outs(%b[0, 0] by [1, 0] [0, 1] : memref<16x16xi8>) ins(%w[%v, %k, 0, 0] by [0, 0, 1, 0] [0, 0, 0, 1] : memref<2x3x16x16xi8>)
        loop.for %i = 0 to 4 {
          loop.intrin "vdla_gemm_1x16x16" outs(%c[%i, 0] by [0, 1] : memref<4x16xi32>) ins(%a[%i, 0] by [0, 1] : memref<4x16xi8>, %b[0, 0] by [1, 0] [0, 1] : memref<16x16xi8>)
        }
      }
      loop.for %i = 0 to 4 {
        loop.intrin "vdla_store_acc_1x16" outs(%y[%v, %i, 0] by [0, 0, 1] : memref<2x4x16xi32>) ins(%c[%i, 0] by [0, 1] : memref<4x16xi32>)
      }
    }
  }
}
