// RUN: tcopt %s --load %S/../../../examples/tile_accelerator.py | filecheck %s

// A program round-trips: instructions with loops and offsets, tokens, and the final op.
// CHECK-LABEL: accelerator.program @tokens(%x: memref<4x4xi8>, %y: memref<4x8xi32>)
// CHECK-NEXT:    accelerator.run "tile_clear" [4] out tile_sums[0 by 1]
// CHECK-NEXT:    accelerator.run "tile_load_data" [4] out tile_data[2 by 1] in %x[-4 by 4] inside [1 to 4] push(matrix)
// CHECK-NEXT:    accelerator.relay matrix pop(data) push(drain)
// CHECK-NEXT:    accelerator.run "tile_drain" [] out %y[8] in tile_sums[1] pop(matrix)
// CHECK-NEXT:    accelerator.finish
module attributes {tcopt.target = #tile.machine<waiting = "tokens">} {
  accelerator.program @tokens(%x: memref<4x4xi8>, %y: memref<4x8xi32>) {
    accelerator.run "tile_clear" [4] out tile_sums[0 by 1]
    accelerator.run "tile_load_data" [4] out tile_data[2 by 1] in %x[-4 by 4] inside [1 to 4] push(matrix)
    accelerator.relay matrix pop(data) push(drain)
    accelerator.run "tile_drain" [] out %y[8] in tile_sums[1] pop(matrix)
    accelerator.finish
  }
}
