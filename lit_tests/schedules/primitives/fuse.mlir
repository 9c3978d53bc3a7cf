// RUN: tcopt %s -p apply-schedule --split-input-file --verify-diagnostics | filecheck %s

// The fused loops' variables become digits of the new variable.
// CHECK:         loop.func @f(%x: memref<30x7xf32>, %y: memref<30x7xf32>) {
// CHECK:           loop.for %i_j = 0 to 210 {
// CHECK:             loop.block "copy" (%vi: spatial 30 = %i_j floordiv 7, %vj: spatial 7 = %i_j mod 7) {
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
  %f = sched.fuse %i, %j
}

// -----

// A split after a fusion yields simple indices if the extents divide.
// CHECK:         loop.func @f(%x: memref<30x7xf32>, %y: memref<30x7xf32>) {
// CHECK:           loop.for %i_jo = 0 to 30 {
// CHECK:             loop.for %i_ji = 0 to 7 {
// CHECK:               loop.block "copy" (%vi: spatial 30 = %i_jo, %vj: spatial 7 = %i_ji) {
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
  %f = sched.fuse %i, %j
  %fo, %fi = sched.split %f by [30, 7]
}

// -----

// Loops with code between them are rejected.
// CHECK:       illegal-schedule: 'sched.fuse': fuse: argument 'loops': %i does not hold exactly %j
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
  sched.reverse_compute_at %relu at %i
  %f = sched.fuse %i, %j
}

// -----

// The inner loop cannot be named first.
// CHECK:       illegal-schedule: 'sched.fuse': fuse: argument 'loops': %j does not hold exactly %i
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
  %f = sched.fuse %j, %i
}
