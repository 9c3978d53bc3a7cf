// RUN: tcopt %s -p apply-schedule --split-input-file --verify-diagnostics | filecheck %s

// Each kind is printed on its loop.
// CHECK:         loop.func @f(%x: memref<8x32xf32>, %w: memref<32x64xf32>, %y: memref<8x64xf32>) {
// CHECK:           loop.for %i = 0 to 8 parallel {
// CHECK:             loop.for %k = 0 to 32 unrolled attributes {pipeline = 2 : i64} {
// CHECK:               loop.for %j = 0 to 64 vectorized {
// CHECK:                 loop.block "mm" (%vi: spatial 8 = %i, %vj: spatial 64 = %j, %vk: reduce 32 = %k) attributes {note = "hot"} {
// CHECK:                   loop.init {
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
  sched.reorder %i, %k, %j
  sched.parallel %i
  sched.unroll %k
  sched.vectorize %j
  sched.annotate %k "pipeline" = 2 : i64
  sched.annotate %mm "note" = "hot"
}

// -----

// Thread axes and virtual threads.
// CHECK:         loop.func @f(%x: memref<30x7xf32>, %y: memref<30x7xf32>) {
// CHECK:           loop.for %i = 0 to 30 thread blockIdx.x {
// CHECK:             loop.for %jo = 0 to 4 thread threadIdx.x {
// CHECK:               loop.for %ji = 0 to 2 virtual {
// CHECK:                 loop.block "copy" (%vi: spatial 30 = %i, %vj: spatial 7 = %jo * 2 + %ji) {
loop.func @f(%x: memref<30x7xf32>, %y: memref<30x7xf32>) {
  loop.for %i = 0 to 30 {
    loop.for %j = 0 to 7 {
      loop.block "copy" (%vi: spatial 30 = %i, %vj: spatial 7 = %j) {
        %a = loop.load %x[%vi, %vj] : memref<30x7xf32>
        loop.store %a, %y[%vi, %vj] : memref<30x7xf32>
      }
    }
  }
}
sched.sequence @s for @f {
  %copy = sched.get_block "copy"
  %i, %j = sched.get_loops %copy
  sched.bind %i to blockIdx.x
  %jo, %ji = sched.split %j by [?, 2]
  sched.virtual_thread %ji
  sched.bind %jo to threadIdx.x
}

// -----

// Iterations of a reduction are not independent.
// CHECK:       illegal-schedule: 'sched.parallel': parallel: argument 'loop': block "mm" reduces over it, so its iterations depend on each other
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
  sched.parallel %k
}

// -----

// Only an innermost loop can be vectorised.
// CHECK:       illegal-schedule: 'sched.vectorize': vectorize: argument 'loop': it holds a loop.for, and only blocks become lanes
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
  sched.vectorize %j
}

// -----

// A reduction's loop cannot be vectorised while its block contains the init.
// CHECK:       illegal-schedule: 'sched.vectorize': vectorize: argument 'loop': block "mm" reduces over it, so its iterations depend on each other
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
  sched.vectorize %k
}

// -----

// Iterations that write the same elements cannot run in parallel.
// CHECK:         loop.func @f(%x: memref<64xf32>, %y: memref<62xf32>) {
// CHECK:           loop.for %io = 0 to 8 parallel {
// CHECK:             %t = loop.alloc global : memref<64xf32>
// CHECK:             loop.for %i = 0 to 10 parallel {
// CHECK:               loop.block "double" (%vi: spatial 64 = %io * 8 + %i) {
// CHECK:             loop.for %ii = 0 to 8 parallel {
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
  sched.parallel %io
  %c, %d = sched.get_loops %double
  sched.parallel %d
  sched.parallel %ii
}

// -----

// Loops that are too long are not unrolled.
// CHECK:       illegal-schedule: 'sched.unroll': unroll: argument 'loop': its 512 iterations are more than the limit of 256
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
  sched.unroll %k
}

// -----

// An axis can be bound to one loop of a nest.
// CHECK:       illegal-schedule: 'sched.bind': bind: argument 'axis': threadIdx.x is taken by %i
loop.func @f(%x: memref<30x7xf32>, %y: memref<30x7xf32>) {
  loop.for %i = 0 to 30 {
    loop.for %j = 0 to 7 {
      loop.block "copy" (%vi: spatial 30 = %i, %vj: spatial 7 = %j) {
        %a = loop.load %x[%vi, %vj] : memref<30x7xf32>
        loop.store %a, %y[%vi, %vj] : memref<30x7xf32>
      }
    }
  }
}
sched.sequence @s for @f {
  %copy = sched.get_block "copy"
  %i, %j = sched.get_loops %copy
  sched.bind %i to threadIdx.x
  sched.bind %j to threadIdx.x
}

// -----

// An attribute does not hide a property of the same name.
// CHECK:       illegal-schedule: 'sched.annotate': annotate: argument 'key': 'extent' is a property of loop.for
loop.func @f(%x: memref<64xf32>, %y: memref<64xf32>) {
  loop.for %i = 0 to 64 {
    loop.block "copy" (%vi: spatial 64 = %i) {
      %a = loop.load %x[%vi] : memref<64xf32>
      loop.store %a, %y[%vi] : memref<64xf32>
    }
  }
}
sched.sequence @s for @f {
  %copy = sched.get_block "copy"
  %i = sched.get_loops %copy
  sched.annotate %i "extent" = 3 : i64
}

// -----

// Inside a thread loop, filling a shared buffer is distributed over the same threads.
// CHECK:         loop.for %ii = 0 to 16 thread threadIdx.x {
// CHECK:           loop.for %d0_d1o = 0 to 8 {
// CHECK-NEXT:        loop.for %d0_d1i = 0 to 16 thread threadIdx.x {
// CHECK-NEXT:          loop.block "x_shared" (%vd0: spatial 64 = %io * 16 + %d0_d1o * 2 + %d0_d1i floordiv 8, %vd1: spatial 32 = %ko * 8 + %d0_d1i mod 8) {
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
  %i1, %t1, %k1, %d0, %d1 = sched.get_loops %x
  %d = sched.fuse %d0, %d1
  %do, %di = sched.split %d by [?, 16]
  sched.bind %di to threadIdx.x
}

// -----

// The inner loop must not have more threads than the outer one.
// CHECK:       illegal-schedule: 'sched.bind': bind: argument 'loop': %ii has only 16 threads for 128 iterations
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
  %i1, %t1, %k1, %d0, %d1 = sched.get_loops %x
  %d = sched.fuse %d0, %d1
  sched.bind %d to threadIdx.x
}

// -----

// Threads may reduce their terms if the loop does nothing else.
// CHECK:         loop.for %k = 0 to 32 thread threadIdx.x {
// CHECK-NEXT:      loop.block "sum"
loop.func @f(%x: memref<32xf32>, %y: memref<1xf32>) {
  loop.for %k = 0 to 32 {
    loop.block "sum" (%vk: reduce 32 = %k) {
      loop.init {
        %zero = arith.constant 0.0 : f32
        loop.store %zero, %y[0] : memref<1xf32>
      }
      %a = loop.load %x[%vk] : memref<32xf32>
      %o = loop.load %y[0] : memref<1xf32>
      %n = arith.addf %o, %a fastmath<reassoc> : f32
      loop.store %n, %y[0] : memref<1xf32>
    }
  }
}
sched.sequence @s for @f {
  %sum = sched.get_block "sum"
  %k = sched.get_loops %sum
  sched.bind %k to threadIdx.x
}
