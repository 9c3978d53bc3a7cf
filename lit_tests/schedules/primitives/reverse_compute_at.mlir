// RUN: tcopt %s -p apply-schedule --split-input-file --verify-diagnostics | filecheck %s

// The epilogue of a tile follows the tile's reduction.
// CHECK:         loop.func @f(%x: memref<8x32xf32>, %w: memref<32x64xf32>, %y: memref<8x64xf32>) {
// CHECK:           loop.for %i = 0 to 8 {
// CHECK:             loop.for %jo = 0 to 4 {
// CHECK:               %mm = loop.alloc global : memref<8x64xf32>
// CHECK:               loop.for %k = 0 to 32 {
// CHECK:                 loop.for %ji = 0 to 16 {
// CHECK:                   loop.block "mm" (%vi: spatial 8 = %i, %vj: spatial 64 = %jo * 16 + %ji, %vk: reduce 32 = %k) {
// CHECK:                     loop.init {
// CHECK:               loop.for %j = 0 to 16 {
// CHECK:                 loop.block "relu" (%vi: spatial 8 = %i, %vj: spatial 64 = %jo * 16 + %j) {
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
  %jo, %ji = sched.split %j by [?, 16]
  sched.reorder %jo, %k, %ji
  %relu = sched.get_block "relu"
  sched.reverse_compute_at %relu at %jo
}

// -----

// Tiles of fused loops are recognised.
// CHECK:         loop.func @f(%x: memref<8x32xf32>, %w: memref<32x64xf32>, %y: memref<8x64xf32>) {
// CHECK:           loop.for %i_jo = 0 to 32 {
// CHECK:             %mm = loop.alloc global : memref<8x64xf32>
// CHECK:             loop.for %k = 0 to 32 {
// CHECK:               loop.for %ji = 0 to 16 {
// CHECK:                 loop.block "mm" (%vi: spatial 8 = %i_jo floordiv 4, %vj: spatial 64 = %ji + %i_jo mod 4 * 16, %vk: reduce 32 = %k) {
// CHECK:                   loop.init {
// CHECK:             loop.for %j = 0 to 16 {
// CHECK:               loop.block "relu" (%vi: spatial 8 = %i_jo floordiv 4, %vj: spatial 64 = %j + %i_jo mod 4 * 16) {
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
  %jo, %ji = sched.split %j by [?, 16]
  sched.reorder %jo, %k, %ji
  %f = sched.fuse %i, %jo
  %relu = sched.get_block "relu"
  sched.reverse_compute_at %relu at %f
}

// -----

// Inside a loop of the reduction the result is not complete.
// CHECK:       illegal-schedule: 'sched.reverse_compute_at': reverse_compute_at: argument 'loop': block "mm" reduces over %k, so its result is not complete inside
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
  sched.reorder %k, %j
  %relu = sched.get_block "relu"
  sched.reverse_compute_at %relu at %k
}

// -----

// A consumer that reads elements of other iterations would run too early.
// CHECK:       illegal-schedule: 'sched.reverse_compute_at': reverse_compute_at: argument 'block': its reads need different values of %vi in one iteration
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
  %use = sched.get_block "use"
  %double = sched.get_block "double"
  %i = sched.get_loops %double
  %io, %ii = sched.split %i by [?, 8]
  sched.reverse_compute_at %use at %io
}

// -----

// A consumer with a border covers elements that no iteration of the producer computes.
// CHECK:       illegal-schedule: 'sched.reverse_compute_at': reverse_compute_at: argument 'block': %vi has values for which %t is never written, and no iteration would run them
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
  %use = sched.get_block "use"
  %double = sched.get_block "double"
  %i = sched.get_loops %double
  %io, %ii = sched.split %i by [?, 8]
  sched.reverse_compute_at %use at %io
}

// -----

// An input that is written later is not ready in the loop.
// CHECK:       illegal-schedule: 'sched.reverse_compute_at': reverse_compute_at: argument 'block': its input %mm is written by "mm_store", after the loop
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
  %copy = sched.cache_write %mm into global
  %a, %b = sched.get_loops %copy
  sched.compute_at %mm at %b
  %relu = sched.get_block "relu"
  %l0, %l1, %l2 = sched.get_loops %mm
  sched.reverse_compute_at %relu at %l2
}
