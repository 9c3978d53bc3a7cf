// RUN: tcopt %s --load %S/../../../examples/tile_accelerator.py | filecheck %s

// On machines that synchronise by barriers, a barrier is an instruction.
// CHECK-LABEL: accelerator.program @barriers(%x: memref<4x4xi8>)
// CHECK-NEXT:    accelerator.run "tile_load_data" [4] out tile_data[0 by 1] in %x[0 by 4]
// CHECK-NEXT:    accelerator.barrier
// CHECK-NEXT:    accelerator.finish
module attributes {tcopt.target = #tile.machine<waiting = "barriers">} {
  accelerator.program @barriers(%x: memref<4x4xi8>) {
    accelerator.run "tile_load_data" [4] out tile_data[0 by 1] in %x[0 by 4]
    accelerator.barrier
    accelerator.finish
  }
}
