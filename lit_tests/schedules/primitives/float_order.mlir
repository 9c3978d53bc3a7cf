// RUN: tcopt %s -p apply-schedule --split-input-file --verify-diagnostics | filecheck %s

// Steps that reorder the terms of a float sum need `fastmath<reassoc>` on it.

// Partial sums regroup the terms.
// CHECK: rfactor: argument 'block': it writes %y, whose elements may depend on the order of steps: in block "sum" arith.addf has no fastmath<reassoc>, so its terms keep their order
loop.func @f(%x: memref<8x16xf32>, %y: memref<1xf32>) {
  loop.for %i = 0 to 8 {
    loop.for %k = 0 to 16 {
      loop.block "sum" (%vi: reduce 8 = %i, %vk: reduce 16 = %k) {
        loop.init {
          %zero = arith.constant 0.0 : f32
          loop.store %zero, %y[0] : memref<1xf32>
        }
        %a = loop.load %x[%vi, %vk] : memref<8x16xf32>
        %b = loop.load %y[0] : memref<1xf32>
        %c = arith.addf %b, %a : f32
        loop.store %c, %y[0] : memref<1xf32>
      }
    }
  }
}
sched.sequence @s for @f {
  %b = sched.get_block "sum"
  %i, %k = sched.get_loops %b
  %r = sched.rfactor %k axis 0
}

// -----

// The order of two reduce loops determines the order of the terms.
// CHECK: reorder: argument 'loops': {{.*}} which may access the same element, would be exchanged
loop.func @f(%x: memref<8x16xf32>, %y: memref<1xf32>) {
  loop.for %i = 0 to 8 {
    loop.for %k = 0 to 16 {
      loop.block "sum" (%vi: reduce 8 = %i, %vk: reduce 16 = %k) {
        loop.init {
          %zero = arith.constant 0.0 : f32
          loop.store %zero, %y[0] : memref<1xf32>
        }
        %a = loop.load %x[%vi, %vk] : memref<8x16xf32>
        %b = loop.load %y[0] : memref<1xf32>
        %c = arith.addf %b, %a : f32
        loop.store %c, %y[0] : memref<1xf32>
      }
    }
  }
}
sched.sequence @s for @f {
  %b = sched.get_block "sum"
  %i, %k = sched.get_loops %b
  sched.reorder %k, %i
}

// -----

// A vectorised loop adds up its lanes first.
// CHECK: vectorize: argument 'loop': in block "sum" arith.addf has no fastmath<reassoc>
loop.func @f(%x: memref<8x16xf32>, %y: memref<1xf32>) {
  loop.for %i = 0 to 8 {
    loop.for %k = 0 to 16 {
      loop.block "sum" (%vi: reduce 8 = %i, %vk: reduce 16 = %k) {
        loop.init {
          %zero = arith.constant 0.0 : f32
          loop.store %zero, %y[0] : memref<1xf32>
        }
        %a = loop.load %x[%vi, %vk] : memref<8x16xf32>
        %b = loop.load %y[0] : memref<1xf32>
        %c = arith.addf %b, %a : f32
        loop.store %c, %y[0] : memref<1xf32>
      }
    }
  }
}
sched.sequence @s for @f {
  %b = sched.get_block "sum"
  %i, %k = sched.get_loops %b
  %init = sched.decompose_reduction %b at %i
  sched.vectorize %k
}

// -----

// A thread loop adds up the terms of its threads first.
// CHECK: bind: argument 'loop': in block "sum" arith.addf has no fastmath<reassoc>
loop.func @f(%x: memref<8x16xf32>, %y: memref<1xf32>) {
  loop.for %i = 0 to 8 {
    loop.for %k = 0 to 16 {
      loop.block "sum" (%vi: reduce 8 = %i, %vk: reduce 16 = %k) {
        loop.init {
          %zero = arith.constant 0.0 : f32
          loop.store %zero, %y[0] : memref<1xf32>
        }
        %a = loop.load %x[%vi, %vk] : memref<8x16xf32>
        %b = loop.load %y[0] : memref<1xf32>
        %c = arith.addf %b, %a : f32
        loop.store %c, %y[0] : memref<1xf32>
      }
    }
  }
}
sched.sequence @s for @f {
  %b = sched.get_block "sum"
  %i, %k = sched.get_loops %b
  sched.bind %k to threadIdx.x
}

// -----

// Steps that keep the order of each sum need no flag: splits, and loops around independent sums.
// CHECK-LABEL: loop.func @g
// CHECK:       loop.for %ko = 0 to 4
// CHECK-NEXT:    loop.for %i = 0 to 8
// CHECK-NEXT:      loop.for %ki = 0 to 4
loop.func @g(%x: memref<8x16xf32>, %y: memref<8xf32>) {
  loop.for %i = 0 to 8 {
    loop.for %k = 0 to 16 {
      loop.block "sum" (%vi: spatial 8 = %i, %vk: reduce 16 = %k) {
        loop.init {
          %zero = arith.constant 0.0 : f32
          loop.store %zero, %y[%vi] : memref<8xf32>
        }
        %a = loop.load %x[%vi, %vk] : memref<8x16xf32>
        %b = loop.load %y[%vi] : memref<8xf32>
        %c = arith.addf %b, %a : f32
        loop.store %c, %y[%vi] : memref<8xf32>
      }
    }
  }
}
sched.sequence @s for @g {
  %b = sched.get_block "sum"
  %i, %k = sched.get_loops %b
  %ko, %ki = sched.split %k by [4, 4]
  sched.reorder %ko, %i, %ki
}
