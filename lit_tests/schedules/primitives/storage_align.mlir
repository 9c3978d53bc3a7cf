// RUN: tcopt %s -p apply-schedule --split-input-file --verify-diagnostics | filecheck %s

// The allocation records the alignment of its row stride.
// CHECK-LABEL: loop.func @f
// CHECK:       %t = loop.alloc global {storage_align = array<i64: 0, 32, 16>} : memref<8x64xf32>
loop.func @f(%x: memref<8x64xf32>, %y: memref<8x64xf32>) {
  %t = loop.alloc global : memref<8x64xf32>
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 64 {
      loop.block "a" (%vi: spatial 8 = %i, %vj: spatial 64 = %j) {
        %0 = loop.load %x[%vi, %vj] : memref<8x64xf32>
        loop.store %0, %t[%vi, %vj] : memref<8x64xf32>
      }
      loop.block "b" (%vi: spatial 8 = %i, %vj: spatial 64 = %j) {
        %0 = loop.load %t[%vi, %vj] : memref<8x64xf32>
        loop.store %0, %y[%vi, %vj] : memref<8x64xf32>
      }
    }
  }
}
sched.sequence @s for @f {
  %a = sched.get_block "a"
  sched.storage_align %a dim 0 by 32 + 16
}

// -----

// The strides of an argument belong to the caller.
// CHECK: storage_align: argument 'block': it writes %y, an argument whose strides are given
loop.func @f(%y: memref<8x64xf32>) {
  loop.for %i = 0 to 8 {
    loop.block "a" (%vi: spatial 8 = %i) {
      %0 = arith.constant 0.0 : f32
      loop.store %0, %y[%vi, 0] : memref<8x64xf32>
    }
  }
}
sched.sequence @s for @f {
  %a = sched.get_block "a"
  sched.storage_align %a dim 0 by 32 + 16
}

// -----

// The last dimension is contiguous and cannot be padded.
// CHECK: storage_align: argument 'dim': 1 is not a dimension before the last of 2
loop.func @f(%x: memref<8x64xf32>) {
  %t = loop.alloc global : memref<8x64xf32>
  loop.for %i = 0 to 8 {
    loop.block "a" (%vi: spatial 8 = %i) {
      %0 = loop.load %x[%vi, 0] : memref<8x64xf32>
      loop.store %0, %t[%vi, 0] : memref<8x64xf32>
    }
  }
}
sched.sequence @s for @f {
  %a = sched.get_block "a"
  sched.storage_align %a dim 1 by 32 + 16
}

// -----

// The offset must be less than the factor.
// CHECK: storage_align: argument 'offset': 16 is not in [0, factor = 16)
loop.func @f(%x: memref<8x64xf32>) {
  %t = loop.alloc global : memref<8x64xf32>
  loop.for %i = 0 to 8 {
    loop.block "a" (%vi: spatial 8 = %i) {
      %0 = loop.load %x[%vi, 0] : memref<8x64xf32>
      loop.store %0, %t[%vi, 0] : memref<8x64xf32>
    }
  }
}
sched.sequence @s for @f {
  %a = sched.get_block "a"
  sched.storage_align %a dim 0 by 16 + 16
}
