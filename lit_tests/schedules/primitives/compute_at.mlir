// RUN: tcopt %s -p apply-schedule --split-input-file --verify-diagnostics | filecheck %s

// Each tile of the consumer computes the elements it reads, including the overlap between tiles.
// CHECK:         loop.func @f(%x: memref<64xf32>, %y: memref<62xf32>) {
// CHECK:           loop.for %io = 0 to 8 {
// CHECK:             %t = loop.alloc global : memref<64xf32>
// CHECK:             loop.for %i = 0 to 10 {
// CHECK:               loop.block "double" (%vi: spatial 64 = %io * 8 + %i) {
// CHECK:             loop.for %ii = 0 to 8 {
// CHECK:               loop.block "use" (%vi: spatial 62 = %io * 8 + %ii) {
loop.func @f(%x: memref<64xf32>, %y: memref<62xf32>) {
  %t = loop.alloc global : memref<64xf32>
  loop.for %i = 0 to 64 {
    loop.block "double" (%vi: spatial 64 = %i) {
      %a = loop.load %x[%vi] : memref<64xf32>
      %b = arith.addf %a, %a fastmath<reassoc> : f32
      loop.store %b, %t[%vi] : memref<64xf32>
    }
  }
  loop.for %i = 0 to 62 {
    loop.block "use" (%vi: spatial 62 = %i) {
      %p = loop.load %t[%vi] : memref<64xf32>
      %q = loop.load %t[%vi + 2] : memref<64xf32>
      %r = arith.addf %p, %q fastmath<reassoc> : f32
      loop.store %r, %y[%vi] : memref<62xf32>
    }
  }
}
sched.sequence @s for @f {
  %double = sched.get_block "double"
  %use = sched.get_block "use"
  %i = sched.get_loops %use
  %io, %ii = sched.split %i by [?, 8]
  sched.compute_at %double at %io
}

// -----

// In the innermost loop the producer computes each element where it is read.
// CHECK:         loop.func @f(%x: memref<64xf32>, %y: memref<62xf32>) {
// CHECK:           loop.for %io = 0 to 8 {
// CHECK:             loop.for %ii = 0 to 8 {
// CHECK:               %t = loop.alloc global : memref<64xf32>
// CHECK:               loop.for %i = 0 to 3 {
// CHECK:                 loop.block "double" (%vi: spatial 64 = %io * 8 + %ii + %i) {
// CHECK:               loop.block "use" (%vi: spatial 62 = %io * 8 + %ii) {
loop.func @f(%x: memref<64xf32>, %y: memref<62xf32>) {
  %t = loop.alloc global : memref<64xf32>
  loop.for %i = 0 to 64 {
    loop.block "double" (%vi: spatial 64 = %i) {
      %a = loop.load %x[%vi] : memref<64xf32>
      %b = arith.addf %a, %a fastmath<reassoc> : f32
      loop.store %b, %t[%vi] : memref<64xf32>
    }
  }
  loop.for %i = 0 to 62 {
    loop.block "use" (%vi: spatial 62 = %i) {
      %p = loop.load %t[%vi] : memref<64xf32>
      %q = loop.load %t[%vi + 2] : memref<64xf32>
      %r = arith.addf %p, %q fastmath<reassoc> : f32
      loop.store %r, %y[%vi] : memref<62xf32>
    }
  }
}
sched.sequence @s for @f {
  %double = sched.get_block "double"
  %use = sched.get_block "use"
  %i = sched.get_loops %use
  %io, %ii = sched.split %i by [?, 8]
  sched.compute_at %double at %ii
}

// -----

// A reduction moves with all its loops.
// CHECK:         loop.func @f(%x: memref<8x32xf32>, %w: memref<32x64xf32>, %y: memref<8x64xf32>) {
// CHECK:           loop.for %i = 0 to 8 {
// CHECK:             loop.for %jo = 0 to 4 {
// CHECK:               %mm = loop.alloc global : memref<8x64xf32>
// CHECK:               loop.for %j = 0 to 16 {
// CHECK:                 loop.for %k = 0 to 32 {
// CHECK:                   loop.block "mm" (%vi: spatial 8 = %i, %vj: spatial 64 = %jo * 16 + %j, %vk: reduce 32 = %k) {
// CHECK:                     loop.init {
// CHECK:               loop.for %ji = 0 to 16 {
// CHECK:                 loop.block "relu" (%vi: spatial 8 = %i, %vj: spatial 64 = %jo * 16 + %ji) {
loop.func @f(%x: memref<8x32xf32>, %w: memref<32x64xf32>, %y: memref<8x64xf32>) {
  %mm = loop.alloc global : memref<8x64xf32>
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 64 {
      loop.for %k = 0 to 32 {
        loop.block "mm" (%vi: spatial 8 = %i, %vj: spatial 64 = %j, %vk: reduce 32 = %k) {
          loop.init {
            %zero = arith.constant 0.0 : f32
            loop.store %zero, %mm[%vi, %vj] : memref<8x64xf32>
          }
          %a = loop.load %x[%vi, %vk] : memref<8x32xf32>
          %b = loop.load %w[%vk, %vj] : memref<32x64xf32>
          %c = arith.mulf %a, %b : f32
          %d = loop.load %mm[%vi, %vj] : memref<8x64xf32>
          %e = arith.addf %d, %c fastmath<reassoc> : f32
          loop.store %e, %mm[%vi, %vj] : memref<8x64xf32>
        }
      }
    }
  }
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 64 {
      loop.block "relu" (%vi: spatial 8 = %i, %vj: spatial 64 = %j) {
        %a = loop.load %mm[%vi, %vj] : memref<8x64xf32>
        %zero = arith.constant 0.0 : f32
        %b = arith.maximumf %a, %zero : f32
        loop.store %b, %y[%vi, %vj] : memref<8x64xf32>
      }
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  %relu = sched.get_block "relu"
  %i, %j = sched.get_loops %relu
  %jo, %ji = sched.split %j by [?, 16]
  sched.compute_at %mm at %jo
}

// -----

// Elements covered by a read's default are not computed.
// CHECK:         loop.func @f(%x: memref<64xf32>, %y: memref<66xf32>) {
// CHECK:           loop.for %io = 0 to 9 {
// CHECK:             %t = loop.alloc global : memref<64xf32>
// CHECK:             loop.for %i = 0 to 8 {
// CHECK:               loop.block "double" (%vi: spatial 64 = %io * 8 + %i - 1) {
// CHECK:             loop.for %ii = 0 to 8 {
// CHECK:               loop.block "use" (%vi: spatial 66 = %io * 8 + %ii) {
loop.func @f(%x: memref<64xf32>, %y: memref<66xf32>) {
  %t = loop.alloc global : memref<64xf32>
  loop.for %i = 0 to 64 {
    loop.block "double" (%vi: spatial 64 = %i) {
      %a = loop.load %x[%vi] : memref<64xf32>
      %b = arith.addf %a, %a fastmath<reassoc> : f32
      loop.store %b, %t[%vi] : memref<64xf32>
    }
  }
  loop.for %i = 0 to 66 {
    loop.block "use" (%vi: spatial 66 = %i) {
      %r = loop.load %t[%vi - 1] else 7.0 : memref<64xf32>
      loop.store %r, %y[%vi] : memref<66xf32>
    }
  }
}
sched.sequence @s for @f {
  %double = sched.get_block "double"
  %use = sched.get_block "use"
  %i = sched.get_loops %use
  %io, %ii = sched.split %i by [?, 8]
  sched.compute_at %double at %io
}

// -----

// An output must be written completely.
// CHECK:       illegal-schedule: 'sched.compute_at': compute_at: argument 'block': it writes %y, an argument that must be written completely
loop.func @f(%x: memref<64xf32>, %y: memref<62xf32>) {
  %t = loop.alloc global : memref<64xf32>
  loop.for %i = 0 to 64 {
    loop.block "double" (%vi: spatial 64 = %i) {
      %a = loop.load %x[%vi] : memref<64xf32>
      %b = arith.addf %a, %a fastmath<reassoc> : f32
      loop.store %b, %t[%vi] : memref<64xf32>
    }
  }
  loop.for %i = 0 to 62 {
    loop.block "use" (%vi: spatial 62 = %i) {
      %p = loop.load %t[%vi] : memref<64xf32>
      %q = loop.load %t[%vi + 2] : memref<64xf32>
      %r = arith.addf %p, %q fastmath<reassoc> : f32
      loop.store %r, %y[%vi] : memref<62xf32>
    }
  }
}
sched.sequence @s for @f {
  %double = sched.get_block "double"
  %use = sched.get_block "use"
  %i = sched.get_loops %use
  %io, %ii = sched.split %i by [?, 8]
  %d = sched.get_loops %double
  sched.compute_at %use at %d
}

// -----

// The target loop must contain the consumer.
// CHECK:       illegal-schedule: 'sched.compute_at': compute_at: argument 'loop': block "mm_global", which reads %mm, is outside %i
loop.func @f(%x: memref<8x32xf32>, %w: memref<32x64xf32>, %y: memref<8x64xf32>) {
  %mm = loop.alloc global : memref<8x64xf32>
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 64 {
      loop.for %k = 0 to 32 {
        loop.block "mm" (%vi: spatial 8 = %i, %vj: spatial 64 = %j, %vk: reduce 32 = %k) {
          loop.init {
            %zero = arith.constant 0.0 : f32
            loop.store %zero, %mm[%vi, %vj] : memref<8x64xf32>
          }
          %a = loop.load %x[%vi, %vk] : memref<8x32xf32>
          %b = loop.load %w[%vk, %vj] : memref<32x64xf32>
          %c = arith.mulf %a, %b : f32
          %d = loop.load %mm[%vi, %vj] : memref<8x64xf32>
          %e = arith.addf %d, %c fastmath<reassoc> : f32
          loop.store %e, %mm[%vi, %vj] : memref<8x64xf32>
        }
      }
    }
  }
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 64 {
      loop.block "relu" (%vi: spatial 8 = %i, %vj: spatial 64 = %j) {
        %a = loop.load %mm[%vi, %vj] : memref<8x64xf32>
        %zero = arith.constant 0.0 : f32
        %b = arith.maximumf %a, %zero : f32
        loop.store %b, %y[%vi, %vj] : memref<8x64xf32>
      }
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  %i, %j, %k = sched.get_loops %mm
  %relu = sched.get_block "relu"
  %copy = sched.cache_read %relu of 0 into global
  %a, %b = sched.get_loops %copy
  sched.compute_at %mm at %a
  %i2, %j2 = sched.get_loops %relu
  sched.compute_at %mm at %i2
}

// -----

// A reduction whose init is a separate block does not move.
// CHECK:       illegal-schedule: 'sched.compute_at': compute_at: argument 'block': block "mm_init" writes %mm too
loop.func @f(%x: memref<8x32xf32>, %w: memref<32x64xf32>, %y: memref<8x64xf32>) {
  %mm = loop.alloc global : memref<8x64xf32>
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 64 {
      loop.for %k = 0 to 32 {
        loop.block "mm" (%vi: spatial 8 = %i, %vj: spatial 64 = %j, %vk: reduce 32 = %k) {
          loop.init {
            %zero = arith.constant 0.0 : f32
            loop.store %zero, %mm[%vi, %vj] : memref<8x64xf32>
          }
          %a = loop.load %x[%vi, %vk] : memref<8x32xf32>
          %b = loop.load %w[%vk, %vj] : memref<32x64xf32>
          %c = arith.mulf %a, %b : f32
          %d = loop.load %mm[%vi, %vj] : memref<8x64xf32>
          %e = arith.addf %d, %c fastmath<reassoc> : f32
          loop.store %e, %mm[%vi, %vj] : memref<8x64xf32>
        }
      }
    }
  }
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 64 {
      loop.block "relu" (%vi: spatial 8 = %i, %vj: spatial 64 = %j) {
        %a = loop.load %mm[%vi, %vj] : memref<8x64xf32>
        %zero = arith.constant 0.0 : f32
        %b = arith.maximumf %a, %zero : f32
        loop.store %b, %y[%vi, %vj] : memref<8x64xf32>
      }
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  %i, %j, %k = sched.get_loops %mm
  %init = sched.decompose_reduction %mm at %k
  %relu = sched.get_block "relu"
  %i2, %j2 = sched.get_loops %relu
  sched.compute_at %mm at %i2
}

// -----

// Shared memory must be filled for all threads of the block, not for one.
// CHECK:         loop.func @f(%x: memref<64x32xf32>, %y: memref<64xf32>) {
// CHECK-NEXT:      loop.for %io = 0 to 4 thread blockIdx.x {
// CHECK-NEXT:        loop.for %ii = 0 to 16 thread threadIdx.x {
// CHECK-NEXT:          loop.for %ko = 0 to 4 {
// CHECK-NEXT:            %x_shared = loop.alloc shared : memref<64x32xf32>
// CHECK-NEXT:            loop.for %d0 = 0 to 16 {
// CHECK-NEXT:              loop.for %d1 = 0 to 8 {
// CHECK-NEXT:                loop.block "x_shared" (%vd0: spatial 64 = %io * 16 + %d0, %vd1: spatial 32 = %ko * 8 + %d1) {
loop.func @f(%x: memref<64x32xf32>, %y: memref<64xf32>) {
  loop.for %i = 0 to 64 {
    loop.for %k = 0 to 32 {
      loop.block "sum" (%vi: spatial 64 = %i, %vk: reduce 32 = %k) {
        loop.init {
          %zero = arith.constant 0.0 : f32
          loop.store %zero, %y[%vi] : memref<64xf32>
        }
        %a = loop.load %x[%vi, %vk] : memref<64x32xf32>
        %o = loop.load %y[%vi] : memref<64xf32>
        %n = arith.addf %o, %a fastmath<reassoc> : f32
        loop.store %n, %y[%vi] : memref<64xf32>
      }
    }
  }
}
sched.sequence @s for @f {
  %sum = sched.get_block "sum"
  %i, %k = sched.get_loops %sum
  %b, %t = sched.split %i by [?, 16]
  %ko, %ki = sched.split %k by [?, 8]
  sched.bind %b to blockIdx.x
  sched.bind %t to threadIdx.x
  %x = sched.cache_read %sum of "x" into shared
  sched.compute_at %x at %ko
}
