// RUN: not tcopt %s --split-input-file -t 'vdla{machine=vta}' 2>&1 | filecheck %s

// A module without a program cannot be printed as a stream.
// CHECK: unsupported: the module has no accelerator.program
module {}

// -----

// The named machine must support all that the program uses.
// CHECK: invalid-ir: 'vdla.store': the target does not store i32, its results are i8
accelerator.program @f(%y: memref<2x16xi32>) {
  vdla.store acc 0, %y[0] : 1x2
  accelerator.finish
}
