// RUN: tcopt %s --load %S/../../../examples/tile_accelerator.py -p order-units,accelerator-check --split-input-file | filecheck %s
// RUN: tcopt %s --load %S/../../../examples/tile_accelerator.py -p order-units,order-units --split-input-file | filecheck %s
// RUN: tcopt %s --load %S/../../../examples/tile_accelerator.py -p order-units --remarks --split-input-file -o /dev/null 2>&1 | filecheck %s --check-prefix=PLAN
// RUN: not tcopt %s --load %S/../../../examples/tile_accelerator.py -p accelerator-check --split-input-file 2>&1 | filecheck %s --check-prefix=RACE

// On a machine with barriers, one is inserted before an instruction that depends on another unit's
// work since the last barrier, and nowhere else. The second load writes unused entries and needs
// none.
// PLAN: done: order-units: @barriers ({{.*}}): 2 barriers
// RACE: race: races with task 0 for tile_data
// CHECK-LABEL: accelerator.program @barriers
// CHECK-NEXT:    accelerator.run "tile_load_data" [4]
// CHECK-NEXT:    accelerator.run "tile_load_weights" [1]
// CHECK-NEXT:    accelerator.run "tile_clear" [4]
// CHECK-NEXT:    accelerator.barrier
// CHECK-NEXT:    accelerator.run "tile_multiply" [4]
// CHECK-NEXT:    accelerator.run "tile_load_data" [4] out tile_data[4 by 1]
// CHECK-NEXT:    accelerator.barrier
// CHECK-NEXT:    accelerator.run "tile_drain" [4]
// CHECK-NEXT:    accelerator.finish
module attributes {tcopt.target = #tile.machine<>} {
  accelerator.program @barriers(%x: memref<8x4xi8>, %w: memref<8x4xi8>, %y: memref<4x8xi32>) {
    accelerator.run "tile_load_data" [4] out tile_data[0 by 1] in %x[0 by 4]
    accelerator.run "tile_load_weights" [1] out tile_weights[0 by 1] in %w[0 by 32]
    accelerator.run "tile_clear" [4] out tile_sums[0 by 1]
    accelerator.run "tile_multiply" [4] out tile_sums[0 by 1] in tile_data[0 by 1], tile_weights[0 by 0]
    accelerator.run "tile_load_data" [4] out tile_data[4 by 1] in %x[16 by 4]
    accelerator.run "tile_drain" [4] out %y[0 by 8] in tile_sums[0 by 1]
    accelerator.finish
  }
}

// -----

// On a machine with tokens, an instruction waits for its dependences, except those that others
// imply: a store after the sums implies that the loads are done.
// PLAN: done: order-units: @tokens ({{.*}}): 3 tokens for 6 dependences
// CHECK-LABEL: accelerator.program @tokens
// CHECK-NEXT:    accelerator.run "tile_load_data" [4] {{.*}} push(matrix)
// CHECK-NEXT:    accelerator.run "tile_clear" [4]
// CHECK:         accelerator.run "tile_multiply" [4] {{.*}} pop(data, weights) push(drain)
module attributes {tcopt.target = #tile.machine<waiting = "tokens">} {
  accelerator.program @tokens(%x: memref<8x4xi8>, %w: memref<8x4xi8>, %y: memref<4x8xi32>) {
    accelerator.run "tile_load_data" [4] out tile_data[0 by 1] in %x[0 by 4]
    accelerator.run "tile_clear" [4] out tile_sums[0 by 1]
    accelerator.run "tile_load_weights" [1] out tile_weights[0 by 1] in %w[0 by 32]
    accelerator.run "tile_multiply" [4] out tile_sums[0 by 1] in tile_data[0 by 1], tile_weights[0 by 0]
    accelerator.run "tile_drain" [4] out %y[0 by 8] in tile_sums[0 by 1]
    accelerator.finish
  }
}
