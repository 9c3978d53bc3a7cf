// RUN: tcopt %s --split-input-file | filecheck %s
// RUN: tcopt %s --split-input-file --print-op-generic | tcopt --split-input-file | filecheck %s

// A program loads padded tiles, multiplies in two loops of micro-ops, and stores the sums; units
// synchronise by tokens.
// CHECK-LABEL: accelerator.program @conv(%x: memref<3136x16xi8>, %w: memref<18x256xi8>, %y: memref<784x16xi32>) {
// CHECK-NEXT:    %k = vdla.kernel gemm at 0 [7, 28] dst [28, 1] src [30, 1] wgt [0, 0] {
// CHECK-NEXT:      uop 0, 0, 0
// CHECK-NEXT:      uop 0, 1, 1
// CHECK-NEXT:    }
// CHECK-NEXT:    vdla.load_uops %k
// CHECK-NEXT:    vdla.load inp 0, %x[0] : 8x29 stride 56 pad [1, 0, 1, 0]
// CHECK-NEXT:    vdla.load wgt 0, %w[0] : 1x18 push(compute)
// CHECK-NEXT:    vdla.gemm reset %k
// CHECK-NEXT:    vdla.gemm %k pop(load) push(store)
// CHECK-NEXT:    vdla.store acc 0, %y[0] : 7x28 stride 56 pop(compute) push(compute) {why = "example"}
// CHECK-NEXT:    accelerator.finish pop(store)
// CHECK-NEXT:  }
accelerator.program @conv(%x: memref<3136x16xi8>, %w: memref<18x256xi8>, %y: memref<784x16xi32>) {
  %k = vdla.kernel gemm at 0 [7, 28] dst [28, 1] src [30, 1] wgt [0, 0] {
    uop 0, 0, 0
    uop 0, 1, 1
  }
  vdla.load_uops %k
  vdla.load inp 0, %x[0] : 8x29 stride 56 pad [1, 0, 1, 0]
  vdla.load wgt 0, %w[0] : 1x18 push(compute)
  vdla.gemm reset %k
  vdla.gemm %k pop(load) push(store)
  vdla.store acc 0, %y[0] : 7x28 stride 56 pop(compute) push(compute) {why = "example"}
  accelerator.finish pop(store)
}

// -----

// ALU ops with an immediate or a second register; kernels without loops, loads of several kernels,
// loads of bytes into registers, and stores of bytes.
// CHECK-LABEL: accelerator.program @residual
// CHECK-NEXT:    %one = vdla.kernel alu at 0 [] {
// CHECK-NEXT:      uop 0, 0
// CHECK-NEXT:    }
// CHECK-NEXT:    %two = vdla.kernel alu at 1 [4] dst [1] src [1] attributes {why = "example"} {
// CHECK-NEXT:      uop 0, 4
// CHECK-NEXT:    }
// CHECK-NEXT:    vdla.load_uops %one, %two
// CHECK-NEXT:    vdla.load acc 0, %b[0] : 1x4
// CHECK-NEXT:    vdla.load acc8 4, %r[0] : 2x2 stride 8
// CHECK-NEXT:    vdla.alu add %two
// CHECK-NEXT:    vdla.alu shr %one, 8
// CHECK-NEXT:    vdla.alu min %one, 127
// CHECK-NEXT:    vdla.alu max %one, -128 push(load, store)
// CHECK-NEXT:    vdla.store out 0, %y[0] : 1x4 pop(compute) push(compute)
// CHECK-NEXT:    accelerator.finish pop(store)
accelerator.program @residual(%b: memref<4x16xi32>, %r: memref<16x16xi8>, %y: memref<4x16xi8>) {
  %one = vdla.kernel alu at 0 [] {
    uop 0, 0
  }
  %two = vdla.kernel alu at 1 [4] dst [1] src [1] attributes {why = "example"} {
    uop 0, 4
  }
  vdla.load_uops %one, %two
  vdla.load acc 0, %b[0] : 1x4
  vdla.load acc8 4, %r[0] : 2x2 stride 8
  vdla.alu add %two
  vdla.alu shr %one, 8
  vdla.alu min %one, 127
  vdla.alu max %one, -128 push(load, store)
  vdla.store out 0, %y[0] : 1x4 pop(compute) push(compute)
  accelerator.finish pop(store)
}
