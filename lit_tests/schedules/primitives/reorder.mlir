// RUN: tcopt %s -p apply-schedule --split-input-file --verify-diagnostics | filecheck %s

// A reduction moves outside of spatial loops; its init moves with it.
// CHECK:         loop.func @f(%x: memref<8x32xf32>, %w: memref<32x64xf32>, %y: memref<8x64xf32>) {
// CHECK:           loop.for %k = 0 to 32 {
// CHECK:             loop.for %i = 0 to 8 {
// CHECK:               loop.for %j = 0 to 64 {
// CHECK:                 loop.block "mm" (%vi: spatial 8 = %i, %vj: spatial 64 = %j, %vk: reduce 32 = %k) {
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
  sched.reorder %k, %i, %j
}

// -----

// Loops that are not named keep their positions.
// CHECK:         loop.func @f(%x: memref<8x32xf32>, %w: memref<32x64xf32>, %y: memref<8x64xf32>) {
// CHECK:           loop.for %k = 0 to 32 {
// CHECK:             loop.for %j = 0 to 64 {
// CHECK:               loop.for %i = 0 to 8 {
// CHECK:                 loop.block "mm" (%vi: spatial 8 = %i, %vj: spatial 64 = %j, %vk: reduce 32 = %k) {
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
  sched.reorder %k, %i
}

// -----

// Loops of different nests are rejected.
// CHECK:       illegal-schedule: 'sched.reorder': reorder: argument 'loops': %i and %i are not in one nest
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
  %i2, %j2 = sched.get_loops %relu
  sched.reorder %i2, %i
}

// -----

// Loops with another block between them are rejected.
// CHECK:       illegal-schedule: 'sched.reorder': reorder: argument 'loops': %i holds more than %j
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
  sched.reorder %j, %i
}

// -----

// A vectorized loop stays innermost.
// CHECK:       illegal-schedule: 'sched.reorder': reorder: argument 'loops': the vectorized %j would not stay innermost
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
  sched.vectorize %j
  sched.reorder %j, %i
}
