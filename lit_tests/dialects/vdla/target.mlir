// RUN: tcopt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// Loads are checked against the memory sizes of the module's target.
// CHECK: 'vdla.load': entries 2040 to 2055 of inp, which has 2048
module attributes {tcopt.target = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  accelerator.program @f(%x: memref<64x16xi8>) {
    vdla.load inp 2040, %x[0] : 1x14 pad [0, 0, 1, 1]
    accelerator.finish
  }
}

// -----

// A program may name its own target.
// CHECK: 'vdla.load': entries 0 to 129 of wgt, which has 128
accelerator.program @f(%x: memref<130x256xi8>) attributes {tcopt.target = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  vdla.load wgt 0, %x[0] : 1x130
  accelerator.finish
}

// -----

// Accesses must stay inside the buffer.
// CHECK: 'vdla.load': entries 0 to 64 of a buffer of 64
module attributes {tcopt.target = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  accelerator.program @f(%x: memref<64x16xi8>) {
    vdla.load inp 0, %x[0] : 1x65
    accelerator.finish
  }
}

// -----

// Buffers must be multiples of an entry.
// CHECK: 'vdla.load': memref<9xi8> has 9 bytes, not a multiple of an entry of inp (16 bytes)
module attributes {tcopt.target = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  accelerator.program @f(%x: memref<9xi8>) {
    vdla.load inp 0, %x[0] : 1x1
    accelerator.finish
  }
}

// -----

// The range of a micro-op includes its loop offsets: two weights and 64 steps.
// CHECK: 'vdla.gemm': entry 128 of wgt, which has 128
module attributes {tcopt.target = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  accelerator.program @f(%x: memref<64x16xi8>) {
    %k = vdla.kernel gemm at 0 [64] dst [1] src [1] wgt [2] {
      uop 0, 0, 2
    }
    vdla.gemm %k
    accelerator.finish
  }
}

// -----

// A gemm reset reads no weights, so their indices are not checked.
// CHECK: vdla.gemm reset %k
module attributes {tcopt.target = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  accelerator.program @f(%x: memref<64x16xi8>) {
    %k = vdla.kernel gemm at 0 [64] dst [1] src [1] wgt [2] {
      uop 0, 0, 2
    }
    vdla.gemm reset %k
    accelerator.finish
  }
}

// -----

// Kernels must fit the micro-op memory.
// CHECK: 'vdla.kernel': entry 8 of uop, which has 8
module attributes {tcopt.target = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32>} {
  accelerator.program @f() {
    %k = vdla.kernel gemm at 7 [] {
      uop 0, 0, 0
      uop 0, 0, 1
    }
    accelerator.finish
  }
}

// -----

// ALU ops need a machine with an ALU.
// CHECK: 'vdla.alu': the target has no "alu"
module attributes {tcopt.target = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  accelerator.program @f() {
    %k = vdla.kernel alu at 0 [] {
      uop 0, 0
    }
    vdla.alu max %k, 0
    accelerator.finish
  }
}

// -----

// ALU multiplications need an ALU that multiplies.
// CHECK: 'vdla.alu': the target's alu has no "mulh"
module attributes {tcopt.target = #target.vdla<features = "alu", inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  accelerator.program @f() {
    %k = vdla.kernel alu at 0 [] {
      uop 0, 0
    }
    vdla.alu mulh %k
    accelerator.finish
  }
}

// -----

// The target declares which types a store can write.
// CHECK: 'vdla.store': the target does not store i8, its results are i32
module attributes {tcopt.target = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  accelerator.program @f(%y: memref<64x16xi8>) {
    vdla.store out 0, %y[0] : 1x1
    accelerator.finish
  }
}

// -----

// The target declares whether bytes can be loaded into registers.
// CHECK: 'vdla.load': the target does not load bytes into registers ("load_i8")
module attributes {tcopt.target = #target.vdla<features = "alu", inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  accelerator.program @f(%y: memref<64x16xi8>) {
    vdla.load acc8 0, %y[0] : 1x1
    accelerator.finish
  }
}
