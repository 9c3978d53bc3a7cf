// RUN: tcopt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// A program must end with finish.
// CHECK: the last op of a program must be accelerator.finish
accelerator.program @f(%x: memref<4x16xi32>) {
  vdla.load acc 0, %x[0] : 1x4
}

// -----

// Nothing may follow finish.
// CHECK: 'accelerator.finish' must be the last operation in its parent block
accelerator.program @f(%x: memref<4x16xi32>) {
  accelerator.finish
  vdla.load acc 0, %x[0] : 1x4
  accelerator.finish
}

// -----

// A program contains only steps and kernels.
// CHECK: 'arith.constant' is not a step of an accelerator's program
accelerator.program @f() {
  %0 = arith.constant 1 : index
  accelerator.finish
}

// -----

// Finish sends no tokens.
// CHECK: no instruction is left that could wait for a token
accelerator.program @f() {
  accelerator.finish push(store)
}

// -----

// The load unit exchanges tokens with the compute unit only.
// CHECK: there are no tokens between load and store
accelerator.program @f(%x: memref<4x16xi8>) {
  vdla.load inp 0, %x[0] : 1x4 push(store)
  accelerator.finish
}

// -----

// The generic form is verified in the same way.
// CHECK: there are no tokens between load and load
accelerator.program @f(%x: memref<4x16xi8>) {
  "vdla.load"(%x) <{memory = #vdla.memory inp, sram = 0 : i64, offset = 0 : i64, shape = array<i64: 1, 4>, stride = 4 : i64, pad = array<i64: 0, 0, 0, 0>, pushes = ["load"]}> : (memref<4x16xi8>) -> ()
  accelerator.finish
}

// -----

// Operands must be defined before use.
// CHECK: %y is not known here
accelerator.program @f(%x: memref<4x16xi8>) {
  vdla.load inp 0, %y[0] : 1x4
  accelerator.finish
}

// -----

// A store op only reads, from the accumulator registers.
// CHECK: the memory inp is not one of acc, out
accelerator.program @f(%x: memref<4x16xi8>) {
  vdla.store inp 0, %x[0] : 1x4
  accelerator.finish
}

// -----

// Micro-ops are loaded by their own op.
// CHECK: the memory uop is not one of wgt, inp, acc, acc8
accelerator.program @f(%x: memref<4x16xi8>) {
  vdla.load uop 0, %x[0] : 1x4
  accelerator.finish
}

// -----

// The buffer's element type must match the memory.
// CHECK: acc holds i32, not the elements of memref<4x16xi8>
accelerator.program @f(%x: memref<4x16xi8>) {
  vdla.load acc 0, %x[0] : 1x4
  accelerator.finish
}

// -----

// Buffers must be contiguous.
// CHECK: is not a contiguous buffer
accelerator.program @f(%x: memref<4x16xi8, strided<[32, 1]>>) {
  vdla.load inp 0, %x[0] : 1x4
  accelerator.finish
}

// -----

// A tile needs at least one row.
// CHECK: the number of rows is 0, the instruction holds 1 to 65535
accelerator.program @f(%x: memref<4x16xi8>) {
  vdla.load inp 0, %x[0] : 0x4
  accelerator.finish
}

// -----

// Strides must fit their instruction fields.
// CHECK: the stride is 65536, the instruction holds 0 to 65535
accelerator.program @f(%x: memref<4x16xi8>) {
  vdla.load inp 0, %x[0] : 1x4 stride 65536
  accelerator.finish
}

// -----

// Pads must fit 4 bits.
// CHECK: a pad is 16, the instruction holds 0 to 15
accelerator.program @f(%x: memref<4x16xi8>) {
  vdla.load inp 0, %x[0] : 1x4 pad [0, 0, 16, 0]
  accelerator.finish
}

// -----

// There must be four pads.
// CHECK: a tile must have rows, columns and four pads
accelerator.program @f(%x: memref<4x16xi8>) {
  vdla.load inp 0, %x[0] : 1x4 pad [0, 1]
  accelerator.finish
}

// -----

// A store cannot have pads.
// CHECK: a store has no pads
accelerator.program @f(%x: memref<4x16xi32>) {
  vdla.store acc 0, %x[0] : 1x4 pad [1, 0, 0, 0]
  accelerator.finish
}

// -----

// The rows of a store must not overlap.
// CHECK: rows of 4 entries with stride 2 overlap
accelerator.program @f(%x: memref<8x16xi32>) {
  vdla.store acc 0, %x[0] : 2x4 stride 2
  accelerator.finish
}

// -----

// A kernel has at most two loops.
// CHECK: a kernel has at most two loops
accelerator.program @f() {
  %k = vdla.kernel alu at 0 [2, 2, 2] dst [1, 1, 1] src [0, 0, 0] {
    uop 0, 0
  }
  accelerator.finish
}

// -----

// Each loop needs a factor for each field.
// CHECK: expected a factor for each loop
accelerator.program @f() {
  %k = vdla.kernel alu at 0 [2, 2] dst [1] src [0, 0] {
    uop 0, 0
  }
  accelerator.finish
}

// -----

// A kernel needs at least one micro-op.
// CHECK: micro-ops of gemm have 3 numbers each
accelerator.program @f() {
  %k = vdla.kernel gemm at 0 [] {
  }
  accelerator.finish
}

// -----

// A gemm micro-op has three entry indices.
// CHECK: expected the numbers dst, src, wgt
accelerator.program @f() {
  %k = vdla.kernel gemm at 0 [] {
    uop 0, 0
  }
  accelerator.finish
}

// -----

// The weight index of a micro-op must fit 10 bits.
// CHECK: wgt of a micro-op is 1024, the instruction holds 0 to 1023
accelerator.program @f() {
  %k = vdla.kernel gemm at 0 [] {
    uop 0, 0, 1024
  }
  accelerator.finish
}

// -----

// Loops need at least one iteration.
// CHECK: the extent of a loop is 0, the instruction holds 1 to 16383
accelerator.program @f() {
  %k = vdla.kernel alu at 0 [0] dst [0] src [0] {
    uop 0, 0
  }
  accelerator.finish
}

// -----

// A loop factor must fit its field.
// CHECK: a factor of dst is 2048, the instruction holds 0 to 2047
accelerator.program @f() {
  %k = vdla.kernel alu at 0 [2] dst [2048] src [0] {
    uop 0, 0
  }
  accelerator.finish
}

// -----

// A kernel must be inside the micro-op memory.
// CHECK: the address of its micro-ops is 8192, the instruction holds 0 to 8191
accelerator.program @f() {
  %k = vdla.kernel alu at 8192 [] {
    uop 0, 0
  }
  accelerator.finish
}

// -----

// The generic form cannot omit factors either.
// CHECK: each field of a micro-op has a factor for each loop
accelerator.program @f() {
  %k = "vdla.kernel"() <{kind = #vdla.kind alu, at = 0 : i64, loops = array<i64: 2>, factors = array<i64: 1>, micro_ops = array<i64: 0, 0>}> : () -> !vdla.kernel
  accelerator.finish
}

// -----

// Program arguments must be buffers.
// CHECK: f32 is not a contiguous buffer
accelerator.program @f(%x: f32) {
  accelerator.finish
}

// -----

// A gemm instruction needs a gemm kernel.
// CHECK: the kernel is for alu
accelerator.program @f() {
  %k = vdla.kernel alu at 0 [] {
    uop 0, 0
  }
  vdla.gemm %k
  accelerator.finish
}

// -----

// Kernels that are loaded together must be adjacent.
// CHECK: a kernel is at 8, but the one before it ends at 1
accelerator.program @f() {
  %a = vdla.kernel alu at 0 [] {
    uop 0, 0
  }
  %b = vdla.kernel alu at 8 [] {
    uop 0, 0
  }
  vdla.load_uops %a, %b
  accelerator.finish
}

// -----

// A shift must be smaller than the width of a lane.
// CHECK: 32 is not a shift of at most 31 bits
accelerator.program @f() {
  %k = vdla.kernel alu at 0 [] {
    uop 0, 0
  }
  vdla.alu shr %k, 32
  accelerator.finish
}

// -----

// An ALU immediate must fit 16 signed bits.
// CHECK: the number is 32768, the instruction holds -32768 to 32767
accelerator.program @f() {
  %k = vdla.kernel alu at 0 [] {
    uop 0, 0
  }
  vdla.alu add %k, 32768
  accelerator.finish
}
