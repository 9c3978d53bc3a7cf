// RUN: tcopt %s -p apply-schedule --split-input-file --verify-diagnostics | filecheck %s

// The loop over a group becomes the intrinsic. The block's indices give the first element of each
// tile; operands may have any linear layout, and factors any order.
// CHECK-LABEL: loop.func @f
// CHECK:         loop.for %ko = 0 to 4 {
// CHECK-NEXT:      loop.for %j = 0 to 16 vectorized {
// CHECK-NEXT:        loop.block "mm" (%vj: spatial 16 = %j, %vk: reduce 8 = %ko * 2) {
// CHECK-NEXT:          loop.intrin "bf16_dot" outs(%y[%vj] : memref<16xf32>) ins(%w[%vk floordiv 2, %vj, %vk mod 2] by [0, 0, 1] : memref<4x16x2xbf16>, %x[%vk * 3] by [3] : memref<24xbf16>)
loop.func @f(%x: memref<24xbf16>, %w: memref<4x16x2xbf16>, %y: memref<16xf32>) {
  loop.for %ko = 0 to 4 {
    loop.for %j = 0 to 16 {
      loop.for %ki = 0 to 2 {
        loop.block "mm" (%vj: spatial 16 = %j, %vk: reduce 8 = %ko * 2 + %ki) {
          %a = loop.load %x[%vk * 3] : memref<24xbf16>
          %0 = arith.extf %a : bf16 to f32
          %b = loop.load %w[%vk floordiv 2, %vj, %vk mod 2] : memref<4x16x2xbf16>
          %1 = arith.extf %b : bf16 to f32
          %c = arith.mulf %1, %0 fastmath<contract> : f32
          %d = loop.load %y[%vj] : memref<16xf32>
          %e = arith.addf %c, %d fastmath<reassoc,contract> : f32
          loop.store %e, %y[%vj] : memref<16xf32>
        }
      }
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  %ko, %j, %ki = sched.get_loops %mm
  sched.tensorize %ki as "bf16_dot"
  sched.vectorize %j
}

// -----

// A block is replaced together with as many loops as the intrinsic has; signedness is taken from
// the arithmetic.
// CHECK-LABEL: loop.func @f
// CHECK:         loop.intrin "u8s8_dot" outs(%y[0] : memref<1xi32>) ins(%x[%vk] by [1] : memref<4xi8>, %w[%vk] by [1] : memref<4xi8>)
loop.func @f(%w: memref<4xi8>, %x: memref<4xi8>, %y: memref<1xi32>) {
  loop.for %k = 0 to 4 {
    loop.block "mm" (%vk: reduce 4 = %k) {
      %a = loop.load %w[%vk] : memref<4xi8>
      %0 = arith.extsi %a : i8 to i32
      %b = loop.load %x[%vk] : memref<4xi8>
      %1 = arith.extui %b : i8 to i32
      %c = arith.muli %0, %1 : i32
      %d = loop.load %y[0] : memref<1xi32>
      %e = arith.addi %d, %c : i32
      loop.store %e, %y[0] : memref<1xi32>
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  sched.tensorize %mm as "u8s8_dot"
}

// -----

// The intrinsic must exist.
// CHECK: tensorize: argument 'intrinsic': there is no intrinsic 'dp2a' {{.*}}; one of bf16_dot, dp4a, {{.*}}, u8s8_dot
loop.func @f(%y: memref<4xf32>) {
  loop.for %i = 0 to 2 {
    loop.block "b" (%vi: spatial 4 = %i) {
      %0 = arith.constant 0.0 : f32
      loop.store %0, %y[%vi] : memref<4xf32>
    }
  }
}
sched.sequence @s for @f {
  %b = sched.get_block "b"
  sched.tensorize %b as "dp2a"
}

// -----

// The number of loops differs.
// CHECK: tensorize: argument 'target': the loops do not match intrinsic 'bf16_dot': there are 2 loops where the intrinsic has 1
loop.func @f(%y: memref<4x2xf32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 2 {
      loop.block "b" (%vi: spatial 4 = %i, %vj: spatial 2 = %j) {
        %0 = arith.constant 0.0 : f32
        loop.store %0, %y[%vi, %vj] : memref<4x2xf32>
      }
    }
  }
}
sched.sequence @s for @f {
  %b = sched.get_block "b"
  %i, %j = sched.get_loops %b
  sched.tensorize %i as "bf16_dot"
}

// -----

// An extent differs.
// CHECK: the loops do not match intrinsic 'bf16_dot': %i has 4 iterations where the intrinsic's 'p' has 2
loop.func @f(%y: memref<4xf32>) {
  loop.for %i = 0 to 4 {
    loop.block "b" (%vi: spatial 4 = %i) {
      %0 = arith.constant 0.0 : f32
      loop.store %0, %y[%vi] : memref<4xf32>
    }
  }
}
sched.sequence @s for @f {
  %b = sched.get_block "b"
  sched.tensorize %b as "bf16_dot"
}

// -----

// The kind of a variable differs.
// CHECK: the loops do not match intrinsic 'bf16_dot': %i is a spatial loop where the intrinsic's 'p' is reduce
loop.func @f(%y: memref<2xf32>) {
  loop.for %i = 0 to 2 {
    loop.block "b" (%vi: spatial 2 = %i) {
      %0 = arith.constant 0.0 : f32
      loop.store %0, %y[%vi] : memref<2xf32>
    }
  }
}
sched.sequence @s for @f {
  %b = sched.get_block "b"
  sched.tensorize %b as "bf16_dot"
}

// -----

// The init is still inside the block.
// CHECK: block "mm" still starts its reduction {{.*}}; decompose_reduction comes before tensorize
loop.func @f(%x: memref<2xf32>, %y: memref<1xf32>) {
  loop.for %k = 0 to 2 {
    loop.block "mm" (%vk: reduce 2 = %k) {
      loop.init {
        %0 = arith.constant 0.0 : f32
        loop.store %0, %y[0] : memref<1xf32>
      }
      %a = loop.load %x[%vk] : memref<2xf32>
      %d = loop.load %y[0] : memref<1xf32>
      %e = arith.addf %d, %a fastmath<reassoc,contract> : f32
      loop.store %e, %y[0] : memref<1xf32>
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  sched.tensorize %mm as "bf16_dot"
}

// -----

// Element types differ.
// CHECK: the loops do not match intrinsic 'bf16_dot': the block reads f32 and f32 where the intrinsic reads bf16 and bf16
loop.func @f(%x: memref<2xf32>, %w: memref<2xf32>, %y: memref<1xf32>) {
  loop.for %k = 0 to 2 {
    loop.block "mm" (%vk: reduce 2 = %k) {
      %a = loop.load %x[%vk] : memref<2xf32>
      %b = loop.load %w[%vk] : memref<2xf32>
      %c = arith.mulf %a, %b fastmath<contract> : f32
      %d = loop.load %y[0] : memref<1xf32>
      %e = arith.addf %d, %c fastmath<reassoc,contract> : f32
      loop.store %e, %y[0] : memref<1xf32>
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  sched.tensorize %mm as "bf16_dot"
}

// -----

// The arithmetic differs: products are combined by their maximum.
// CHECK: the loops do not match intrinsic 'bf16_dot': the block has arith.maximumf where the intrinsic has arith.addf
loop.func @f(%x: memref<2xbf16>, %w: memref<2xbf16>, %y: memref<1xf32>) {
  loop.for %k = 0 to 2 {
    loop.block "mm" (%vk: reduce 2 = %k) {
      %a = loop.load %x[%vk] : memref<2xbf16>
      %0 = arith.extf %a : bf16 to f32
      %b = loop.load %w[%vk] : memref<2xbf16>
      %1 = arith.extf %b : bf16 to f32
      %c = arith.mulf %0, %1 fastmath<contract> : f32
      %d = loop.load %y[0] : memref<1xf32>
      %e = arith.maximumf %d, %c : f32
      loop.store %e, %y[0] : memref<1xf32>
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  sched.tensorize %mm as "bf16_dot"
}

// -----

// The arithmetic differs: both factors are signed.
// CHECK: the loops do not match intrinsic 'u8s8_dot': the block has arith.extsi where the intrinsic has arith.extui
loop.func @f(%x: memref<4xi8>, %w: memref<4xi8>, %y: memref<1xi32>) {
  loop.for %k = 0 to 4 {
    loop.block "mm" (%vk: reduce 4 = %k) {
      %a = loop.load %x[%vk] : memref<4xi8>
      %0 = arith.extsi %a : i8 to i32
      %b = loop.load %w[%vk] : memref<4xi8>
      %1 = arith.extsi %b : i8 to i32
      %c = arith.muli %0, %1 : i32
      %d = loop.load %y[0] : memref<1xi32>
      %e = arith.addi %d, %c : i32
      loop.store %e, %y[0] : memref<1xi32>
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  sched.tensorize %mm as "u8s8_dot"
}

// -----

// The sum is read from another index than it is written to.
// CHECK: the loops do not match intrinsic 's8_dot': the block does not add to the element that it stores
loop.func @f(%x: memref<4xi8>, %w: memref<4xi8>, %y: memref<2xi32>) {
  loop.for %k = 0 to 4 {
    loop.block "mm" (%vk: reduce 4 = %k) {
      %a = loop.load %x[%vk] : memref<4xi8>
      %0 = arith.extsi %a : i8 to i32
      %b = loop.load %w[%vk] : memref<4xi8>
      %1 = arith.extsi %b : i8 to i32
      %c = arith.muli %0, %1 : i32
      %d = loop.load %y[1] : memref<2xi32>
      %e = arith.addi %d, %c : i32
      loop.store %e, %y[0] : memref<2xi32>
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  sched.tensorize %mm as "s8_dot"
}

// -----

// A tile must not cross the end of the domain.
// CHECK: the loops do not match intrinsic 's8_dot': a tile may stick out of the 7 iterations of %vk
loop.func @f(%x: memref<7xi8>, %w: memref<7xi8>, %y: memref<1xi32>) {
  loop.for %ko = 0 to 2 {
    loop.for %ki = 0 to 4 {
      loop.block "mm" (%vk: reduce 7 = %ko * 4 + %ki) {
        %a = loop.load %x[%vk] : memref<7xi8>
        %0 = arith.extsi %a : i8 to i32
        %b = loop.load %w[%vk] : memref<7xi8>
        %1 = arith.extsi %b : i8 to i32
        %c = arith.muli %0, %1 : i32
        %d = loop.load %y[0] : memref<1xi32>
        %e = arith.addi %d, %c : i32
        loop.store %e, %y[0] : memref<1xi32>
      }
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  sched.tensorize %mm as "s8_dot"
}

// -----

// Rows that end inside a tile are not linear.
// CHECK: the loops do not match intrinsic 's8_dot': an index of %w divides by a loop of the tile
loop.func @f(%x: memref<8xi8>, %w: memref<4x2xi8>, %y: memref<1xi32>) {
  loop.for %ko = 0 to 2 {
    loop.for %ki = 0 to 4 {
      loop.block "mm" (%vk: reduce 8 = %ko * 4 + %ki) {
        %a = loop.load %x[%vk] : memref<8xi8>
        %0 = arith.extsi %a : i8 to i32
        %b = loop.load %w[%vk floordiv 2, %vk mod 2] : memref<4x2xi8>
        %1 = arith.extsi %b : i8 to i32
        %c = arith.muli %0, %1 : i32
        %d = loop.load %y[0] : memref<1xi32>
        %e = arith.addi %d, %c : i32
        loop.store %e, %y[0] : memref<1xi32>
      }
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  sched.tensorize %mm as "s8_dot"
}

// -----

// The loops must not contain other blocks.
// CHECK: tensorize: argument 'target': %k holds 2 ops, not one
loop.func @f(%y: memref<2xf32>, %z: memref<2xf32>) {
  loop.for %k = 0 to 2 {
    loop.block "a" (%vk: spatial 2 = %k) {
      %0 = arith.constant 0.0 : f32
      loop.store %0, %y[%vk] : memref<2xf32>
    }
    loop.block "b" (%vk: spatial 2 = %k) {
      %0 = arith.constant 0.0 : f32
      loop.store %0, %z[%vk] : memref<2xf32>
    }
  }
}
sched.sequence @s for @f {
  %a = sched.get_block "a"
  %k = sched.get_loops %a
  sched.tensorize %k as "bf16_dot"
}

// -----

// There are too few loops around the block.
// CHECK: tensorize: argument 'target': 0 loops are around the block where the intrinsic has 1
loop.func @f(%y: memref<f32>) {
  loop.block "a" () {
    %0 = arith.constant 0.0 : f32
    loop.store %0, %y[] : memref<f32>
  }
}
sched.sequence @s for @f {
  %a = sched.get_block "a"
  sched.tensorize %a as "bf16_dot"
}

// -----

// A product of small matrices becomes one instruction of a warp.
// CHECK-LABEL: loop.func @f
// CHECK-NEXT:    loop.block "mm"
// CHECK-NEXT:      loop.intrin "mma_m16n8k16_f16" outs(%y[%vi, %vj] by [1, 0] [0, 1] : memref<16x8xf32>) ins(%x[%vi, %vk] by [1, 0] [0, 1] : memref<16x16xf16>, %w[%vk, %vj] by [1, 0] [0, 1] : memref<16x8xf16>)
loop.func @f(%x: memref<16x16xf16>, %w: memref<16x8xf16>, %y: memref<16x8xf32>) {
  loop.for %i = 0 to 16 {
    loop.for %j = 0 to 8 {
      loop.for %k = 0 to 16 {
        loop.block "mm" (%vi: spatial 16 = %i, %vj: spatial 8 = %j, %vk: reduce 16 = %k) {
          %a = loop.load %x[%vi, %vk] : memref<16x16xf16>
          %0 = arith.extf %a : f16 to f32
          %b = loop.load %w[%vk, %vj] : memref<16x8xf16>
          %1 = arith.extf %b : f16 to f32
          %c = arith.mulf %0, %1 fastmath<contract> : f32
          %d = loop.load %y[%vi, %vj] : memref<16x8xf32>
          %e = arith.addf %d, %c fastmath<reassoc,contract> : f32
          loop.store %e, %y[%vi, %vj] : memref<16x8xf32>
        }
      }
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  sched.tensorize %mm as "mma_m16n8k16_f16"
}

// -----

// With half the depth it is another instruction.
// CHECK: illegal-schedule: 'sched.tensorize': tensorize: argument 'target': the loops do not match intrinsic 'mma_m16n8k16_f16': {{.*}}8{{.*}}16
loop.func @f(%x: memref<16x8xf16>, %w: memref<8x8xf16>, %y: memref<16x8xf32>) {
  loop.for %i = 0 to 16 {
    loop.for %j = 0 to 8 {
      loop.for %k = 0 to 8 {
        loop.block "mm" (%vi: spatial 16 = %i, %vj: spatial 8 = %j, %vk: reduce 8 = %k) {
          %a = loop.load %x[%vi, %vk] : memref<16x8xf16>
          %0 = arith.extf %a : f16 to f32
          %b = loop.load %w[%vk, %vj] : memref<8x8xf16>
          %1 = arith.extf %b : f16 to f32
          %c = arith.mulf %0, %1 fastmath<contract> : f32
          %d = loop.load %y[%vi, %vj] : memref<16x8xf32>
          %e = arith.addf %d, %c fastmath<reassoc,contract> : f32
          loop.store %e, %y[%vi, %vj] : memref<16x8xf32>
        }
      }
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  sched.tensorize %mm as "mma_m16n8k16_f16"
}

// -----

// Both factors must have the same type.
// CHECK: illegal-schedule: 'sched.tensorize': tensorize: argument 'target': the loops do not match intrinsic 'mma_m16n8k8_bf16': {{.*}}f16
loop.func @f(%x: memref<16x8xf16>, %w: memref<8x8xf16>, %y: memref<16x8xf32>) {
  loop.for %i = 0 to 16 {
    loop.for %j = 0 to 8 {
      loop.for %k = 0 to 8 {
        loop.block "mm" (%vi: spatial 16 = %i, %vj: spatial 8 = %j, %vk: reduce 8 = %k) {
          %a = loop.load %x[%vi, %vk] : memref<16x8xf16>
          %0 = arith.extf %a : f16 to f32
          %b = loop.load %w[%vk, %vj] : memref<8x8xf16>
          %1 = arith.extf %b : f16 to f32
          %c = arith.mulf %0, %1 fastmath<contract> : f32
          %d = loop.load %y[%vi, %vj] : memref<16x8xf32>
          %e = arith.addf %d, %c fastmath<reassoc,contract> : f32
          loop.store %e, %y[%vi, %vj] : memref<16x8xf32>
        }
      }
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  sched.tensorize %mm as "mma_m16n8k8_bf16"
}

// -----

// Factors of the same type are distinguished by the loops that index them, in either order.
// CHECK: loop.intrin "mma_m16n8k8_f16" outs(%y[%vi, %vj] by [1, 0] [0, 1] : memref<16x8xf32>)
// CHECK-SAME: ins(%x[%vi, %vk] by [1, 0] [0, 1] : memref<16x8xf16>, %w[%vk, %vj] by [1, 0] [0, 1] : memref<8x8xf16>)
loop.func @f(%x: memref<16x8xf16>, %w: memref<8x8xf16>, %y: memref<16x8xf32>) {
  loop.for %i = 0 to 16 {
    loop.for %j = 0 to 8 {
      loop.for %k = 0 to 8 {
        loop.block "mm" (%vi: spatial 16 = %i, %vj: spatial 8 = %j, %vk: reduce 8 = %k) {
          %b = loop.load %w[%vk, %vj] : memref<8x8xf16>
          %0 = arith.extf %b : f16 to f32
          %a = loop.load %x[%vi, %vk] : memref<16x8xf16>
          %1 = arith.extf %a : f16 to f32
          %c = arith.mulf %0, %1 fastmath<contract> : f32
          %d = loop.load %y[%vi, %vj] : memref<16x8xf32>
          %e = arith.addf %d, %c fastmath<reassoc,contract> : f32
          loop.store %e, %y[%vi, %vj] : memref<16x8xf32>
        }
      }
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  sched.tensorize %mm as "mma_m16n8k8_f16"
}
