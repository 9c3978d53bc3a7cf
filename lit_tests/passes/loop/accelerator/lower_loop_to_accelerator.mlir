// RUN: tcopt %s --load %S/../../../../examples/tile_accelerator.py -p lower-loop-to-accelerator --split-input-file | filecheck %s

// Loops around one call become loops of an instruction; out-of-bounds rows are marked as outside.
// CHECK-LABEL: accelerator.program @rows
// CHECK-NEXT:    accelerator.run "tile_load_data" [4, 2] out tile_data[3 by 2, 1] in %x[-12 by 12, 4] inside [1 to 4, 0 to 2]
// CHECK-NEXT:    accelerator.run "tile_clear" [8] out tile_sums[0 by 1]
// CHECK-NEXT:    accelerator.finish
module attributes {tcopt.target = #tile.machine<>} {
  loop.func @rows(%x: memref<3x3x4xi8>) {
    %a = loop.alloc tile_data {places = array<i64: 3>} : memref<4x2x4xi8>
    %s = loop.alloc tile_sums {places = array<i64: 0>} : memref<8x8xi32>
    loop.for %i = 0 to 4 {
      loop.for %j = 0 to 2 {
        loop.intrin "tile_load_data" outs(%a[%i, %j, 0] by [0, 0, 1] : memref<4x2x4xi8>)
          ins(%x[%i - 1, %j, 0] by [0, 0, 1] : memref<3x3x4xi8>)
      }
    }
    loop.for %k = 0 to 8 {
      loop.intrin "tile_clear" outs(%s[%k, 0] by [0, 1] : memref<8x8xi32>) ins()
    }
  }
}

// -----

// Loops that an instruction cannot express are unrolled into several instructions, the shortest
// loop first.
// CHECK-LABEL: accelerator.program @pieces
// CHECK-NEXT:    accelerator.run "tile_clear" [4] out tile_sums[0 by 2]
// CHECK-NEXT:    accelerator.run "tile_clear" [4] out tile_sums[16 by 2]
// CHECK-NEXT:    accelerator.finish
module attributes {tcopt.target = #tile.machine<>} {
  loop.func @pieces() {
    %s = loop.alloc tile_sums {places = array<i64: 0>} : memref<2x16x8xi32>
    loop.for %k = 0 to 2 {
      loop.for %l = 0 to 4 {
        loop.intrin "tile_clear" outs(%s[%k, %l * 2, 0] by [0, 0, 1] : memref<2x16x8xi32>) ins()
      }
    }
  }
}
