// RUN: not tcopt %s --split-input-file -t 'vdla{machine=vta}' 2>&1 | filecheck %s

// There is nothing to print without a program.
// CHECK: unsupported: the module has no vdla.program
module {}

// -----

// The machine that is named must have what the program needs.
// CHECK: invalid-ir: 'vdla.store': the target does not store i32, its results are i8
vdla.program @f(%y: memref<2x16xi32>) {
  vdla.store acc 0, %y[0] : 1x2
  vdla.finish
}
