// RUN: tcopt %s --load %S/../../../examples/tile_accelerator.py -p order-units,encode-accelerator | filecheck %s
// RUN: not tcopt %s --load %S/../../../examples/tile_accelerator.py -p encode-accelerator 2>&1 | filecheck %s --check-prefix=RACE

// A program becomes a function that the host calls, with the program as text; missing
// synchronisation between units is an error.
// CHECK:      func.func private @copy(memref<4x4xi8>, memref<4x8xi32>) -> ()
// CHECK-SAME: function = "accelerator_run"
// CHECK-SAME: accelerator.program @copy
// RACE: race: races with task 1 for tile_sums
module attributes {tcopt.target = #tile.machine<>} {
  accelerator.program @copy(%x: memref<4x4xi8>, %y: memref<4x8xi32>) {
    accelerator.run "tile_load_data" [4] out tile_data[0 by 1] in %x[0 by 4]
    accelerator.run "tile_clear" [4] out tile_sums[0 by 1]
    accelerator.run "tile_drain" [4] out %y[0 by 8] in tile_sums[0 by 1]
    accelerator.finish
  }
}
