// RUN: tcopt %s -p apply-schedule --split-input-file --verify-diagnostics | filecheck %s

// Copies are padded to whole tiles, with 0 past the end of the reduction. The result keeps its
// size.
// CHECK-LABEL: loop.func @f
// CHECK:       %y_register = loop.alloc register : memref<32x24xf32>
// CHECK-NEXT:  %x_shared = loop.alloc shared : memref<32x32xf32>
// CHECK:       loop.block "x_shared" (%vd0: spatial 20 = {{.*}}, %vd1: spatial 32 = {{.*}}) {
// CHECK-NEXT:    loop.load %x[%vd0, %vd1] else 0.000000e+00 : memref<20x30xf32>
// CHECK:       %w_shared = loop.alloc shared : memref<32x24xf32>
// CHECK:       loop.block "w_shared" (%vd0: spatial 32 = {{.*}}, %vd1: spatial 24 = {{.*}}) {
// CHECK-NEXT:    loop.load %w[%vd0, %vd1] else 0.000000e+00 : memref<30x24xf32>
// CHECK:       loop.for %i = 0 to 32 {
// CHECK-NEXT:    loop.for %j = 0 to 24 {
// CHECK-NEXT:      loop.for %k = 0 to 32 {
// CHECK-NEXT:        loop.block "mm" (%vi: spatial 32 = %i, %vj: spatial 24 = %j, %vk: reduce 32 = %k) {
// CHECK:       loop.block "mm_store" (%vd0: spatial 20 = {{.*}}, %vd1: spatial 24 = {{.*}}) {
loop.func @f(%x: memref<20x30xf32>, %w: memref<30x24xf32>, %y: memref<20x24xf32>) {
  loop.for %i = 0 to 20 {
    loop.for %j = 0 to 24 {
      loop.for %k = 0 to 30 {
        loop.block "mm" (%vi: spatial 20 = %i, %vj: spatial 24 = %j, %vk: reduce 30 = %k) {
          loop.init {
            %z = arith.constant 0.0 : f32
            loop.store %z, %y[%vi, %vj] : memref<20x24xf32>
          }
          %a = loop.load %x[%vi, %vk] : memref<20x30xf32>
          %b = loop.load %w[%vk, %vj] : memref<30x24xf32>
          %c = arith.mulf %a, %b : f32
          %d = loop.load %y[%vi, %vj] : memref<20x24xf32>
          %e = arith.addf %d, %c fastmath<reassoc> : f32
          loop.store %e, %y[%vi, %vj] : memref<20x24xf32>
        }
      }
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  %out = sched.cache_write %mm into register
  %x = sched.cache_read %mm of "x" into shared
  %w = sched.cache_read %mm of "w" into shared
  sched.pad_einsum %mm to [16, 8, 16]
}

// -----

// An operand that is visible outside keeps its size.
// CHECK: pad_einsum: argument 'block': %x is not copied for it alone
loop.func @f(%x: memref<20x30xf32>, %w: memref<30x24xf32>, %y: memref<20x24xf32>) {
  loop.for %i = 0 to 20 {
    loop.for %j = 0 to 24 {
      loop.for %k = 0 to 30 {
        loop.block "mm" (%vi: spatial 20 = %i, %vj: spatial 24 = %j, %vk: reduce 30 = %k) {
          loop.init {
            %z = arith.constant 0.0 : f32
            loop.store %z, %y[%vi, %vj] : memref<20x24xf32>
          }
          %a = loop.load %x[%vi, %vk] : memref<20x30xf32>
          %b = loop.load %w[%vk, %vj] : memref<30x24xf32>
          %c = arith.mulf %a, %b : f32
          %d = loop.load %y[%vi, %vj] : memref<20x24xf32>
          %e = arith.addf %d, %c fastmath<reassoc> : f32
          loop.store %e, %y[%vi, %vj] : memref<20x24xf32>
        }
      }
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  %out = sched.cache_write %mm into register
  sched.pad_einsum %mm to [16, 8, 16]
}

// -----

// The result of a function keeps its size too.
// CHECK: pad_einsum: argument 'block': %y is not an allocated buffer that only it writes
loop.func @f(%x: memref<20x30xf32>, %w: memref<30x24xf32>, %y: memref<20x24xf32>) {
  loop.for %i = 0 to 20 {
    loop.for %j = 0 to 24 {
      loop.for %k = 0 to 30 {
        loop.block "mm" (%vi: spatial 20 = %i, %vj: spatial 24 = %j, %vk: reduce 30 = %k) {
          loop.init {
            %z = arith.constant 0.0 : f32
            loop.store %z, %y[%vi, %vj] : memref<20x24xf32>
          }
          %a = loop.load %x[%vi, %vk] : memref<20x30xf32>
          %b = loop.load %w[%vk, %vj] : memref<30x24xf32>
          %c = arith.mulf %a, %b : f32
          %d = loop.load %y[%vi, %vj] : memref<20x24xf32>
          %e = arith.addf %d, %c fastmath<reassoc> : f32
          loop.store %e, %y[%vi, %vj] : memref<20x24xf32>
        }
      }
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  %x = sched.cache_read %mm of "x" into shared
  %w = sched.cache_read %mm of "w" into shared
  sched.pad_einsum %mm to [16, 8, 16]
}

// -----

// Padding must precede tiling.
// CHECK: pad_einsum: argument 'block': %vi has no loop of its own
loop.func @f(%x: memref<20x30xf32>, %w: memref<30x24xf32>, %y: memref<20x24xf32>) {
  loop.for %i = 0 to 20 {
    loop.for %j = 0 to 24 {
      loop.for %k = 0 to 30 {
        loop.block "mm" (%vi: spatial 20 = %i, %vj: spatial 24 = %j, %vk: reduce 30 = %k) {
          loop.init {
            %z = arith.constant 0.0 : f32
            loop.store %z, %y[%vi, %vj] : memref<20x24xf32>
          }
          %a = loop.load %x[%vi, %vk] : memref<20x30xf32>
          %b = loop.load %w[%vk, %vj] : memref<30x24xf32>
          %c = arith.mulf %a, %b : f32
          %d = loop.load %y[%vi, %vj] : memref<20x24xf32>
          %e = arith.addf %d, %c fastmath<reassoc> : f32
          loop.store %e, %y[%vi, %vj] : memref<20x24xf32>
        }
      }
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  %out = sched.cache_write %mm into register
  %x = sched.cache_read %mm of "x" into shared
  %w = sched.cache_read %mm of "w" into shared
  %i, %j, %k = sched.get_loops %mm
  %io, %ii = sched.split %i by [?, 4]
  sched.pad_einsum %mm to [16, 8, 16]
}

// -----

// Each variable needs a multiple.
// CHECK: pad_einsum: argument 'multiples': [16, 8] are not 3 positive numbers
loop.func @f(%x: memref<20x30xf32>, %w: memref<30x24xf32>, %y: memref<20x24xf32>) {
  loop.for %i = 0 to 20 {
    loop.for %j = 0 to 24 {
      loop.for %k = 0 to 30 {
        loop.block "mm" (%vi: spatial 20 = %i, %vj: spatial 24 = %j, %vk: reduce 30 = %k) {
          loop.init {
            %z = arith.constant 0.0 : f32
            loop.store %z, %y[%vi, %vj] : memref<20x24xf32>
          }
          %a = loop.load %x[%vi, %vk] : memref<20x30xf32>
          %b = loop.load %w[%vk, %vj] : memref<30x24xf32>
          %c = arith.mulf %a, %b : f32
          %d = loop.load %y[%vi, %vj] : memref<20x24xf32>
          %e = arith.addf %d, %c fastmath<reassoc> : f32
          loop.store %e, %y[%vi, %vj] : memref<20x24xf32>
        }
      }
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  %out = sched.cache_write %mm into register
  %x = sched.cache_read %mm of "x" into shared
  %w = sched.cache_read %mm of "w" into shared
  sched.pad_einsum %mm to [16, 8]
}

// -----

// A padded window would read adjacent elements, which may be nan.
// CHECK: pad_einsum: argument 'block': %x_shared may not be 0 beyond the end of %vk
loop.func @f(%x: memref<20x49xf32>, %w: memref<30x24xf32>, %y: memref<20x24xf32>) {
  loop.for %i = 0 to 20 {
    loop.for %j = 0 to 24 {
      loop.for %k = 0 to 30 {
        loop.block "mm" (%vi: spatial 20 = %i, %vj: spatial 24 = %j, %vk: reduce 30 = %k) {
          loop.init {
            %z = arith.constant 0.0 : f32
            loop.store %z, %y[%vi, %vj] : memref<20x24xf32>
          }
          %a = loop.load %x[0, %vi + %vk] : memref<20x49xf32>
          %b = loop.load %w[%vk, %vj] : memref<30x24xf32>
          %c = arith.mulf %a, %b : f32
          %d = loop.load %y[%vi, %vj] : memref<20x24xf32>
          %e = arith.addf %d, %c fastmath<reassoc> : f32
          loop.store %e, %y[%vi, %vj] : memref<20x24xf32>
        }
      }
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  %out = sched.cache_write %mm into register
  %x = sched.cache_read %mm of "x" into shared
  %w = sched.cache_read %mm of "w" into shared
  sched.pad_einsum %mm to [1, 1, 16]
}
