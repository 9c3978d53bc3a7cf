// RUN: tcopt %s --load %S/../../../examples/tile_accelerator.py --split-input-file --verify-diagnostics

// Only a declared accelerator instruction can be run.
accelerator.program @other(%x: memref<4x4xi8>) {
  // expected-error @below {{"bf16_dot" is not an instruction of an accelerator}}
  accelerator.run "bf16_dot" [] out %x[0] in %x[0], %x[0]
  accelerator.finish
}

// -----

// Loop depth and trip counts of an instruction must not exceed the machine's limits.
accelerator.program @loops(%x: memref<4x4xi8>) {
  // expected-error @below {{a loop runs 2000 times, outside of 1 to 1024}}
  accelerator.run "tile_clear" [2000] out tile_sums[0 by 1]
  accelerator.finish
}

// -----

// Operands must be in the memories that the intrinsic declares.
accelerator.program @scopes(%x: memref<4x4xi8>) {
  // expected-error @below {{operand 'out' must be in tile_data, not in tile_sums}}
  accelerator.run "tile_load_data" [4] out tile_sums[0 by 1] in %x[0 by 4]
  accelerator.finish
}

// -----

// Iterations marked as outside the buffer read zeros; all others must stay in bounds.
accelerator.program @bounds(%x: memref<4x4xi8>) {
  // expected-error @below {{-4 to 15 of 16 elements}}
  accelerator.run "tile_load_data" [5] out tile_data[0 by 1] in %x[-4 by 4]
  accelerator.finish
}

// -----

// Entries must be within the accelerator's memories.
module attributes {tcopt.target = #tile.machine<kilobytes = 1>} {
  accelerator.program @entries(%x: memref<4x4xi8>) {
    // expected-error @below {{254 to 257 of 256 entries of tile_data}}
    accelerator.run "tile_load_data" [4] out tile_data[254 by 1] in %x[0 by 4]
    accelerator.finish
  }
}

// -----

// Barriers and tokens are legal only as the machine declares.
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

// A program ends with finish and contains only program steps.
// expected-error @below {{the last op of a program must be accelerator.finish}}
accelerator.program @end() {
  accelerator.run "tile_clear" [1] out tile_sums[0 by 1]
}
