// RUN: tcopt %s -p apply-schedule --split-input-file --verify-diagnostics | filecheck %s

// The buffer's dimensions are permuted; the loops that write it stay.
// CHECK-LABEL: loop.func @f
// CHECK:       %t = loop.alloc shared : memref<5x3x4xf32>
// CHECK:       loop.store %0, %t[%vk, %vi, %vj] : memref<5x3x4xf32>
// CHECK:       loop.load %t[%vk * -1 + 4, %vi, %vj] : memref<5x3x4xf32>
loop.func @f(%x: memref<3x4x5xf32>, %y: memref<3x4x5xf32>) {
  %t = loop.alloc shared : memref<3x4x5xf32>
  loop.for %i = 0 to 3 {
    loop.for %j = 0 to 4 {
      loop.for %k = 0 to 5 {
        loop.block "a" (%vi: spatial 3 = %i, %vj: spatial 4 = %j, %vk: spatial 5 = %k) {
          %0 = loop.load %x[%vi, %vj, %vk] : memref<3x4x5xf32>
          loop.store %0, %t[%vi, %vj, %vk] : memref<3x4x5xf32>
        }
      }
    }
  }
  loop.for %i = 0 to 3 {
    loop.for %j = 0 to 4 {
      loop.for %k = 0 to 5 {
        loop.block "b" (%vi: spatial 3 = %i, %vj: spatial 4 = %j, %vk: spatial 5 = %k) {
          %0 = loop.load %t[%vi, %vj, 4 - %vk] : memref<3x4x5xf32>
          loop.store %0, %y[%vi, %vj, %vk] : memref<3x4x5xf32>
        }
      }
    }
  }
}
sched.sequence @s for @f {
  %a = sched.get_block "a"
  sched.permute_layout %a to [2, 0, 1]
}

// -----

// The layout of an argument belongs to the caller.
// CHECK: permute_layout: argument 'block': it writes %y, an argument whose layout is given
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
  sched.permute_layout %a to [1, 0]
}

// -----

// Each dimension must be named once.
// CHECK: permute_layout: argument 'order': [1, 1] is not a permutation of 2 dimensions
loop.func @f(%y: memref<8xf32>) {
  %t = loop.alloc global : memref<8x2xf32>
  loop.for %i = 0 to 8 {
    loop.block "a" (%vi: spatial 8 = %i) {
      %0 = arith.constant 0.0 : f32
      loop.store %0, %t[%vi, 0] : memref<8x2xf32>
    }
  }
}
sched.sequence @s for @f {
  %a = sched.get_block "a"
  sched.permute_layout %a to [1, 1]
}

// -----

// Layout attributes refer to the current order of dimensions, so they prevent a permutation.
// CHECK: permute_layout: argument 'block': rows of %t are spaced
loop.func @f(%y: memref<8xf32>) {
  %t = loop.alloc global : memref<8x2xf32>
  loop.for %i = 0 to 8 {
    loop.block "a" (%vi: spatial 8 = %i) {
      %0 = arith.constant 0.0 : f32
      loop.store %0, %t[%vi, 0] : memref<8x2xf32>
    }
  }
}
sched.sequence @s for @f {
  %a = sched.get_block "a"
  sched.storage_align %a dim 0 by 4 + 1
  sched.permute_layout %a to [1, 0]
}
