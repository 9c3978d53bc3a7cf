// RUN: tcopt %s --load %S/../../../examples/tile_accelerator.py --split-input-file --verify-diagnostics

// Only what is declared as an instruction of an accelerator is run.
accelerator.program @other(%x: memref<4x4xi8>) {
  // expected-error @below {{"bf16_dot" is not an instruction of an accelerator}}
  accelerator.run "bf16_dot" [] out %x[0] in %x[0], %x[0]
  accelerator.finish
}

// -----

// An instruction has no more loops than the machine, and none that runs longer.
accelerator.program @loops(%x: memref<4x4xi8>) {
  // expected-error @below {{a loop runs 2000 times, outside of 1 to 1024}}
  accelerator.run "tile_clear" [2000] out tile_sums[0 by 1]
  accelerator.finish
}

// -----

// Operands lie where the intrinsic says.
accelerator.program @scopes(%x: memref<4x4xi8>) {
  // expected-error @below {{operand 'out' must be in tile_data, not in tile_sums}}
  accelerator.run "tile_load_data" [4] out tile_sums[0 by 1] in %x[0 by 4]
  accelerator.finish
}

// -----

// A tile outside of its buffer is zeros, so iterations that are inside stay in it.
accelerator.program @bounds(%x: memref<4x4xi8>) {
  // expected-error @below {{-4 to 15 of 16 elements}}
  accelerator.run "tile_load_data" [5] out tile_data[0 by 1] in %x[-4 by 4]
  accelerator.finish
}

// -----

// The accelerator has as many entries as its facts say.
module attributes {tcopt.target = #tile.machine<kilobytes = 1>} {
  accelerator.program @entries(%x: memref<4x4xi8>) {
    // expected-error @below {{254 to 257 of 256 entries of tile_data}}
    accelerator.run "tile_load_data" [4] out tile_data[254 by 1] in %x[0 by 4]
    accelerator.finish
  }
}

// -----

// There are barriers or tokens where the facts say so, and no others.
module attributes {tcopt.target = #tile.machine<waiting = "tokens">} {
  accelerator.program @barrier() {
    // expected-error @below {{the accelerator has no barriers}}
    accelerator.barrier
    accelerator.finish
  }
}

// -----

module attributes {tcopt.target = #tile.machine<>} {
  accelerator.program @tokens() {
    // expected-error @below {{there are no tokens from matrix to drain}}
    accelerator.finish pop(matrix)
  }
}

// -----

// A program ends with finish, and holds nothing but steps.
// expected-error @below {{the last op of a program must be accelerator.finish}}
accelerator.program @end() {
  accelerator.run "tile_clear" [1] out tile_sums[0 by 1]
}
