// RUN: tcopt %s -p apply-schedule --split-input-file --verify-diagnostics | filecheck %s

// The init becomes a block before the outermost loop of the reduction.
// CHECK:         loop.func @f(%x: memref<8x32xf32>, %w: memref<32x64xf32>, %y: memref<8x64xf32>) {
// CHECK:           loop.for %i = 0 to 8 {
// CHECK:             loop.for %jo = 0 to 4 {
// CHECK:               loop.for %ji = 0 to 16 vectorized {
// CHECK:                 loop.block "mm_init" (%vi: spatial 8 = %i, %vj: spatial 64 = %jo * 16 + %ji) {
// CHECK:                   loop.store %zero, %y[%vi, %vj] : memref<8x64xf32>
// CHECK:               loop.for %k = 0 to 32 {
// CHECK:                 loop.for %ji = 0 to 16 vectorized {
// CHECK:                   loop.block "mm" (%vi: spatial 8 = %i, %vj: spatial 64 = %jo * 16 + %ji, %vk: reduce 32 = %k) {
// CHECK:                     %a = loop.load %x[%vi, %vk] : memref<8x32xf32>
// CHECK:                     %b = loop.load %w[%vk, %vj] : memref<32x64xf32>
// CHECK:                     %d = loop.load %y[%vi, %vj] : memref<8x64xf32>
// CHECK:                     loop.store %e, %y[%vi, %vj] : memref<8x64xf32>
loop.func @f(%x: memref<8x32xf32>, %w: memref<32x64xf32>, %y: memref<8x64xf32>) {
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 64 {
      loop.for %k = 0 to 32 {
        loop.block "mm" (%vi: spatial 8 = %i, %vj: spatial 64 = %j, %vk: reduce 32 = %k) {
          loop.init {
            %zero = arith.constant 0.0 : f32
            loop.store %zero, %y[%vi, %vj] : memref<8x64xf32>
          }
          %a = loop.load %x[%vi, %vk] : memref<8x32xf32>
          %b = loop.load %w[%vk, %vj] : memref<32x64xf32>
          %c = arith.mulf %a, %b : f32
          %d = loop.load %y[%vi, %vj] : memref<8x64xf32>
          %e = arith.addf %d, %c fastmath<reassoc> : f32
          loop.store %e, %y[%vi, %vj] : memref<8x64xf32>
        }
      }
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  %i, %j, %k = sched.get_loops %mm
  %jo, %ji = sched.split %j by [?, 16]
  sched.reorder %jo, %k, %ji
  sched.vectorize %ji
  %init = sched.decompose_reduction %mm at %k
}

// -----

// Inside one of its loops, a reduction would be initialised again.
// CHECK:       illegal-schedule: 'sched.decompose_reduction': decompose_reduction: argument 'loop': %k, outside it, is a loop of the reduction, and each of its iterations would start over
loop.func @f(%x: memref<8x32xf32>, %w: memref<32x64xf32>, %y: memref<8x64xf32>) {
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 64 {
      loop.for %k = 0 to 32 {
        loop.block "mm" (%vi: spatial 8 = %i, %vj: spatial 64 = %j, %vk: reduce 32 = %k) {
          loop.init {
            %zero = arith.constant 0.0 : f32
            loop.store %zero, %y[%vi, %vj] : memref<8x64xf32>
          }
          %a = loop.load %x[%vi, %vk] : memref<8x32xf32>
          %b = loop.load %w[%vk, %vj] : memref<32x64xf32>
          %c = arith.mulf %a, %b : f32
          %d = loop.load %y[%vi, %vj] : memref<8x64xf32>
          %e = arith.addf %d, %c fastmath<reassoc> : f32
          loop.store %e, %y[%vi, %vj] : memref<8x64xf32>
        }
      }
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  %i, %j, %k = sched.get_loops %mm
  sched.reorder %k, %j
  %init = sched.decompose_reduction %mm at %j
}

// -----

// An init can be separated only once.
// CHECK:       illegal-schedule: 'sched.decompose_reduction': decompose_reduction: argument 'block': it has no loop.init to move
loop.func @f(%x: memref<8x32xf32>, %w: memref<32x64xf32>, %y: memref<8x64xf32>) {
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 64 {
      loop.for %k = 0 to 32 {
        loop.block "mm" (%vi: spatial 8 = %i, %vj: spatial 64 = %j, %vk: reduce 32 = %k) {
          loop.init {
            %zero = arith.constant 0.0 : f32
            loop.store %zero, %y[%vi, %vj] : memref<8x64xf32>
          }
          %a = loop.load %x[%vi, %vk] : memref<8x32xf32>
          %b = loop.load %w[%vk, %vj] : memref<32x64xf32>
          %c = arith.mulf %a, %b : f32
          %d = loop.load %y[%vi, %vj] : memref<8x64xf32>
          %e = arith.addf %d, %c fastmath<reassoc> : f32
          loop.store %e, %y[%vi, %vj] : memref<8x64xf32>
        }
      }
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  %i, %j, %k = sched.get_loops %mm
  %init = sched.decompose_reduction %mm at %k
  %again = sched.decompose_reduction %mm at %k
}

// -----

// Each lane gets a partial sum; a second block adds them up.
// CHECK:         loop.func @f(%x: memref<8x512xf32>, %y: memref<8xf32>) {
// CHECK:           loop.for %i = 0 to 8 {
// CHECK:             %y_rf = loop.alloc global : memref<16x8xf32>
// CHECK:             loop.for %ko = 0 to 32 {
// CHECK:               loop.for %ki = 0 to 16 vectorized {
// CHECK:                 loop.block "sum_rf" (%vi: spatial 8 = %i, %vki: spatial 16 = %ki, %vko: reduce 32 = %ko) {
// CHECK:                   loop.init {
// CHECK:                     loop.store %zero, %y_rf[%vki, %vi] : memref<16x8xf32>
// CHECK:                   %a = loop.load %x[%vi, %vki + %vko * 16] : memref<8x512xf32>
// CHECK:                   %b = loop.load %y_rf[%vki, %vi] : memref<16x8xf32>
// CHECK:                   loop.store %c, %y_rf[%vki, %vi] : memref<16x8xf32>
// CHECK:             loop.for %ki = 0 to 16 {
// CHECK:               loop.block "sum" (%vi: spatial 8 = %i, %vki: reduce 16 = %ki) {
// CHECK:                 loop.init {
// CHECK:                   loop.store %zero, %y[%vi] : memref<8xf32>
// CHECK:                 %0 = loop.load %y[%vi] : memref<8xf32>
// CHECK:                 %1 = loop.load %y_rf[%vki, %vi] : memref<16x8xf32>
// CHECK:                 loop.store %c, %y[%vi] : memref<8xf32>
loop.func @f(%x: memref<8x512xf32>, %y: memref<8xf32>) {
  loop.for %i = 0 to 8 {
    loop.for %k = 0 to 512 {
      loop.block "sum" (%vi: spatial 8 = %i, %vk: reduce 512 = %k) {
        loop.init {
          %zero = arith.constant 0.0 : f32
          loop.store %zero, %y[%vi] : memref<8xf32>
        }
        %a = loop.load %x[%vi, %vk] : memref<8x512xf32>
        %b = loop.load %y[%vi] : memref<8xf32>
        %c = arith.addf %b, %a fastmath<reassoc> : f32
        loop.store %c, %y[%vi] : memref<8xf32>
      }
    }
  }
}
sched.sequence @s for @f {
  %sum = sched.get_block "sum"
  %i, %k = sched.get_loops %sum
  %ko, %ki = sched.split %k by [?, 16]
  %rf = sched.rfactor %ki
  sched.vectorize %ki
}

// -----

// Partial sums may be stored along another dimension.
// CHECK:         loop.func @f(%x: memref<8x512xf32>, %y: memref<8xf32>) {
// CHECK:           loop.for %i = 0 to 8 {
// CHECK:             %y_rf = loop.alloc global : memref<8x16xf32>
// CHECK:             loop.for %ko = 0 to 32 {
// CHECK:               loop.for %ki = 0 to 16 {
// CHECK:                 loop.block "sum_rf" (%vi: spatial 8 = %i, %vki: spatial 16 = %ki, %vko: reduce 32 = %ko) {
// CHECK:                   loop.init {
// CHECK:                     loop.store %zero, %y_rf[%vi, %vki] : memref<8x16xf32>
// CHECK:                   %a = loop.load %x[%vi, %vki + %vko * 16] : memref<8x512xf32>
// CHECK:                   %b = loop.load %y_rf[%vi, %vki] : memref<8x16xf32>
// CHECK:                   loop.store %c, %y_rf[%vi, %vki] : memref<8x16xf32>
// CHECK:             loop.for %ki = 0 to 16 {
// CHECK:               loop.block "sum" (%vi: spatial 8 = %i, %vki: reduce 16 = %ki) {
// CHECK:                 loop.init {
// CHECK:                   loop.store %zero, %y[%vi] : memref<8xf32>
// CHECK:                 %0 = loop.load %y[%vi] : memref<8xf32>
// CHECK:                 %1 = loop.load %y_rf[%vi, %vki] : memref<8x16xf32>
// CHECK:                 loop.store %c, %y[%vi] : memref<8xf32>
loop.func @f(%x: memref<8x512xf32>, %y: memref<8xf32>) {
  loop.for %i = 0 to 8 {
    loop.for %k = 0 to 512 {
      loop.block "sum" (%vi: spatial 8 = %i, %vk: reduce 512 = %k) {
        loop.init {
          %zero = arith.constant 0.0 : f32
          loop.store %zero, %y[%vi] : memref<8xf32>
        }
        %a = loop.load %x[%vi, %vk] : memref<8x512xf32>
        %b = loop.load %y[%vi] : memref<8xf32>
        %c = arith.addf %b, %a fastmath<reassoc> : f32
        loop.store %c, %y[%vi] : memref<8xf32>
      }
    }
  }
}
sched.sequence @s for @f {
  %sum = sched.get_block "sum"
  %i, %k = sched.get_loops %sum
  %ko, %ki = sched.split %k by [?, 16]
  %rf = sched.rfactor %ki axis 1
}

// -----

// If the lanes do not divide the reduction, its variable guards the last ones.
// CHECK:         loop.func @f(%x: memref<8x512xf32>, %y: memref<8xf32>) {
// CHECK:           loop.for %i = 0 to 8 {
// CHECK:             %y_rf = loop.alloc global : memref<24x8xf32>
// CHECK:             loop.for %ko = 0 to 22 {
// CHECK:               loop.for %ki = 0 to 24 {
// CHECK:                 loop.block "sum_rf" (%vi: spatial 8 = %i, %guard: spatial 512 = %ko * 24 + %ki, %vki: spatial 24 = %ki, %vko: reduce 22 = %ko) {
// CHECK:                   loop.init {
// CHECK:                     loop.store %zero, %y_rf[%vki, %vi] : memref<24x8xf32>
// CHECK:                   %a = loop.load %x[%vi, %vki + %vko * 24] : memref<8x512xf32>
// CHECK:                   %b = loop.load %y_rf[%vki, %vi] : memref<24x8xf32>
// CHECK:                   loop.store %c, %y_rf[%vki, %vi] : memref<24x8xf32>
// CHECK:             loop.for %ki = 0 to 24 {
// CHECK:               loop.block "sum" (%vi: spatial 8 = %i, %vki: reduce 24 = %ki) {
// CHECK:                 loop.init {
// CHECK:                   loop.store %zero, %y[%vi] : memref<8xf32>
// CHECK:                 %0 = loop.load %y[%vi] : memref<8xf32>
// CHECK:                 %1 = loop.load %y_rf[%vki, %vi] : memref<24x8xf32>
// CHECK:                 loop.store %c, %y[%vi] : memref<8xf32>
loop.func @f(%x: memref<8x512xf32>, %y: memref<8xf32>) {
  loop.for %i = 0 to 8 {
    loop.for %k = 0 to 512 {
      loop.block "sum" (%vi: spatial 8 = %i, %vk: reduce 512 = %k) {
        loop.init {
          %zero = arith.constant 0.0 : f32
          loop.store %zero, %y[%vi] : memref<8xf32>
        }
        %a = loop.load %x[%vi, %vk] : memref<8x512xf32>
        %b = loop.load %y[%vi] : memref<8xf32>
        %c = arith.addf %b, %a fastmath<reassoc> : f32
        loop.store %c, %y[%vi] : memref<8xf32>
      }
    }
  }
}
sched.sequence @s for @f {
  %sum = sched.get_block "sum"
  %i, %k = sched.get_loops %sum
  %ko, %ki = sched.split %k by [?, 24]
  %rf = sched.rfactor %ki
}

// -----

// For a loop fused from two reduce loops, each partial result takes every 32nd term; the domain of
// the outer variable limits them.
// CHECK-LABEL: loop.func @fused(%x: memref<8x7x30xf32>, %y: memref<8xf32>) {
// CHECK:       %y_rf = loop.alloc global : memref<32x8xf32>
// CHECK:       loop.block "sum_rf" (%vi: spatial 8 = %i, %guard: spatial 7 = (%k_lo * 32 + %k_li) floordiv 30, %vk_li: spatial 32 = %k_li, %vk_lo: reduce 7 = %k_lo)
// CHECK:         loop.load %x[%vi, (%vk_li + %vk_lo * 32) floordiv 30, (%vk_li + %vk_lo * 32) mod 30]
// CHECK:       loop.block "sum" (%vi: spatial 8 = %i, %vk_li: reduce 32 = %k_li)
loop.func @fused(%x: memref<8x7x30xf32>, %y: memref<8xf32>) {
  loop.for %i = 0 to 8 {
    loop.for %k = 0 to 7 {
      loop.for %l = 0 to 30 {
        loop.block "sum" (%vi: spatial 8 = %i, %vk: reduce 7 = %k, %vl: reduce 30 = %l) {
          loop.init {
            %zero = arith.constant 0.0 : f32
            loop.store %zero, %y[%vi] : memref<8xf32>
          }
          %a = loop.load %x[%vi, %vk, %vl] : memref<8x7x30xf32>
          %b = loop.load %y[%vi] : memref<8xf32>
          %c = arith.addf %b, %a fastmath<reassoc> : f32
          loop.store %c, %y[%vi] : memref<8xf32>
        }
      }
    }
  }
}
sched.sequence @s for @fused {
  %sum = sched.get_block "sum"
  %i, %k, %l = sched.get_loops %sum
  %k_l = sched.fuse %k, %l
  %k_lo, %k_li = sched.split %k_l by [?, 32]
  %rf = sched.rfactor %k_li
}

// -----

// A block without loops gets one, in which other blocks can be computed.
// CHECK-LABEL: loop.func @one(
// CHECK:         loop.for %u = 0 to 1 thread blockIdx.x {
// CHECK-NEXT:      loop.block "one" ()
loop.func @one(%x: memref<f32>, %y: memref<f32>) {
  loop.block "one" () {
    %a = loop.load %x[] : memref<f32>
    loop.store %a, %y[] : memref<f32>
  }
}
sched.sequence @s for @one {
  %one = sched.get_block "one"
  %u = sched.add_unit_loop %one
  sched.bind %u to blockIdx.x
}

// -----

// A spatial loop has no partial results.
// CHECK:       illegal-schedule: 'sched.rfactor': rfactor: argument 'loop': it does not run over reduce variables of block "sum" alone
loop.func @f(%x: memref<8x512xf32>, %y: memref<8xf32>) {
  loop.for %i = 0 to 8 {
    loop.for %k = 0 to 512 {
      loop.block "sum" (%vi: spatial 8 = %i, %vk: reduce 512 = %k) {
        loop.init {
          %zero = arith.constant 0.0 : f32
          loop.store %zero, %y[%vi] : memref<8xf32>
        }
        %a = loop.load %x[%vi, %vk] : memref<8x512xf32>
        %b = loop.load %y[%vi] : memref<8xf32>
        %c = arith.addf %b, %a fastmath<reassoc> : f32
        loop.store %c, %y[%vi] : memref<8xf32>
      }
    }
  }
}
sched.sequence @s for @f {
  %sum = sched.get_block "sum"
  %i, %k = sched.get_loops %sum
  %rf = sched.rfactor %i
}

// -----

// The axis must be one of the possible positions of a new dimension.
// CHECK:       illegal-schedule: 'sched.rfactor': rfactor: argument 'axis': 3 is outside [0, 1]
loop.func @f(%x: memref<8x512xf32>, %y: memref<8xf32>) {
  loop.for %i = 0 to 8 {
    loop.for %k = 0 to 512 {
      loop.block "sum" (%vi: spatial 8 = %i, %vk: reduce 512 = %k) {
        loop.init {
          %zero = arith.constant 0.0 : f32
          loop.store %zero, %y[%vi] : memref<8xf32>
        }
        %a = loop.load %x[%vi, %vk] : memref<8x512xf32>
        %b = loop.load %y[%vi] : memref<8xf32>
        %c = arith.addf %b, %a fastmath<reassoc> : f32
        loop.store %c, %y[%vi] : memref<8xf32>
      }
    }
  }
}
sched.sequence @s for @f {
  %sum = sched.get_block "sum"
  %i, %k = sched.get_loops %sum
  %rf = sched.rfactor %k axis 3
}
