// RUN: tcopt %s -p apply-schedule --split-input-file --verify-diagnostics | filecheck %s

// A reduction accumulates in its own buffer, which is copied out at the end.
// CHECK:         loop.func @f(%x: memref<8x32xf32>, %w: memref<32x64xf32>, %y: memref<8x64xf32>) {
// CHECK:           %y_register = loop.alloc register : memref<8x64xf32>
// CHECK:           loop.for %i = 0 to 8 {
// CHECK:             loop.for %j = 0 to 64 {
// CHECK:               loop.for %k = 0 to 32 {
// CHECK:                 loop.block "mm" (%vi: spatial 8 = %i, %vj: spatial 64 = %j, %vk: reduce 32 = %k) {
// CHECK:                   loop.init {
// CHECK:                     loop.store %zero, %y_register[%vi, %vj] : memref<8x64xf32>
// CHECK:                   %a = loop.load %x[%vi, %vk] : memref<8x32xf32>
// CHECK:                   %b = loop.load %w[%vk, %vj] : memref<32x64xf32>
// CHECK:                   %d = loop.load %y_register[%vi, %vj] : memref<8x64xf32>
// CHECK:                   loop.store %e, %y_register[%vi, %vj] : memref<8x64xf32>
// CHECK:           loop.for %d0 = 0 to 8 {
// CHECK:             loop.for %d1 = 0 to 64 {
// CHECK:               loop.block "mm_store" (%vd0: spatial 8 = %d0, %vd1: spatial 64 = %d1) {
// CHECK:                 %0 = loop.load %y_register[%vd0, %vd1] : memref<8x64xf32>
// CHECK:                 loop.store %0, %y[%vd0, %vd1] : memref<8x64xf32>
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
  %store = sched.cache_write %mm into register
}

// -----

// If a block writes a buffer from some offset on, the cache covers only that part.
// CHECK-LABEL: loop.func @inside(
// CHECK-NEXT:    %y_register = loop.alloc register : memref<8xf32>
// CHECK:         loop.store %{{.*}}, %y_register[%vi] : memref<8xf32>
// CHECK:         loop.block "e_store" (%[[V:.*]]: spatial 8 = %{{.*}}) {
// CHECK-NEXT:      %[[E:.*]] = loop.load %y_register[%[[V]]] : memref<8xf32>
// CHECK-NEXT:      loop.store %[[E]], %y[%[[V]] + 1] : memref<10xf32>
loop.func @inside(%x: memref<8xf32>, %y: memref<10xf32>) {
  loop.for %i = 0 to 8 {
    loop.block "e" (%vi: spatial 8 = %i) {
      %a = loop.load %x[%vi] : memref<8xf32>
      %b = math.exp %a : f32
      loop.store %b, %y[%vi + 1] : memref<10xf32>
    }
  }
}
sched.sequence @s for @inside {
  %e = sched.get_block "e"
  %store = sched.cache_write %e into register
}

// -----

// The copy moves to the loop of the finished tile, together with the buffer.
// CHECK:         loop.func @f(%x: memref<8x32xf32>, %w: memref<32x64xf32>, %y: memref<8x64xf32>) {
// CHECK:           loop.for %i = 0 to 8 {
// CHECK:             loop.for %jo = 0 to 4 {
// CHECK:               %y_register = loop.alloc register : memref<8x64xf32>
// CHECK:               loop.for %k = 0 to 32 {
// CHECK:                 loop.for %ji = 0 to 16 {
// CHECK:                   loop.block "mm" (%vi: spatial 8 = %i, %vj: spatial 64 = %jo * 16 + %ji, %vk: reduce 32 = %k) {
// CHECK:                     loop.init {
// CHECK:                       loop.store %zero, %y_register[%vi, %vj] : memref<8x64xf32>
// CHECK:                     %a = loop.load %x[%vi, %vk] : memref<8x32xf32>
// CHECK:                     %b = loop.load %w[%vk, %vj] : memref<32x64xf32>
// CHECK:                     %d = loop.load %y_register[%vi, %vj] : memref<8x64xf32>
// CHECK:                     loop.store %e, %y_register[%vi, %vj] : memref<8x64xf32>
// CHECK:               loop.for %d1 = 0 to 16 {
// CHECK:                 loop.block "mm_store" (%vd0: spatial 8 = %i, %vd1: spatial 64 = %jo * 16 + %d1) {
// CHECK:                   %0 = loop.load %y_register[%vd0, %vd1] : memref<8x64xf32>
// CHECK:                   loop.store %0, %y[%vd0, %vd1] : memref<8x64xf32>
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
  %store = sched.cache_write %mm into register
  %jo, %ji = sched.split %j by [?, 16]
  sched.reorder %jo, %k, %ji
  sched.reverse_compute_at %store at %jo
}

// -----

// The elements that a tile reads are copied before it.
// CHECK:         loop.func @f(%x: memref<8x32xf32>, %w: memref<32x64xf32>, %y: memref<8x64xf32>) {
// CHECK:           loop.for %i = 0 to 8 {
// CHECK:             loop.for %jo = 0 to 4 {
// CHECK:               %w_shared = loop.alloc shared : memref<32x64xf32>
// CHECK:               loop.for %d0 = 0 to 32 {
// CHECK:                 loop.for %d1 = 0 to 16 {
// CHECK:                   loop.block "w_shared" (%vd0: spatial 32 = %d0, %vd1: spatial 64 = %jo * 16 + %d1) {
// CHECK:                     %0 = loop.load %w[%vd0, %vd1] : memref<32x64xf32>
// CHECK:                     loop.store %0, %w_shared[%vd0, %vd1] : memref<32x64xf32>
// CHECK:               loop.for %k = 0 to 32 {
// CHECK:                 loop.for %ji = 0 to 16 {
// CHECK:                   loop.block "mm" (%vi: spatial 8 = %i, %vj: spatial 64 = %jo * 16 + %ji, %vk: reduce 32 = %k) {
// CHECK:                     loop.init {
// CHECK:                       loop.store %zero, %y[%vi, %vj] : memref<8x64xf32>
// CHECK:                     %a = loop.load %x[%vi, %vk] : memref<8x32xf32>
// CHECK:                     %b = loop.load %w_shared[%vk, %vj] : memref<32x64xf32>
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
  %copy = sched.cache_read %mm of "w" into shared
  %jo, %ji = sched.split %j by [?, 16]
  sched.reorder %jo, %k, %ji
  sched.compute_at %copy at %jo
}

// -----

// A buffer that the block does not read is rejected.
// CHECK:       illegal-schedule: 'sched.cache_read': cache_read: argument 'buffer': the block reads no buffer 'v'; it reads 0 %x, 1 %w, 2 %y
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
  %copy = sched.cache_read %mm of "v" into shared
}

// -----

// A buffer that the block also writes is rejected.
// CHECK:       illegal-schedule: 'sched.cache_read': cache_read: argument 'buffer': the block writes %y too
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
  %copy = sched.cache_read %mm of "y" into shared
}

// -----

// A local buffer changes its memory scope.
// CHECK:         loop.func @f(%x: memref<8x32xf32>, %w: memref<32x64xf32>, %y: memref<8x64xf32>) {
// CHECK:           %mm = loop.alloc register : memref<8x64xf32>
// CHECK:           loop.for %i = 0 to 8 {
// CHECK:             loop.for %j = 0 to 64 {
// CHECK:               loop.for %k = 0 to 32 {
// CHECK:                 loop.block "mm" (%vi: spatial 8 = %i, %vj: spatial 64 = %j, %vk: reduce 32 = %k) {
// CHECK:                   loop.init {
// CHECK:                     loop.store %zero, %mm[%vi, %vj] : memref<8x64xf32>
// CHECK:                   %a = loop.load %x[%vi, %vk] : memref<8x32xf32>
// CHECK:                   %b = loop.load %w[%vk, %vj] : memref<32x64xf32>
// CHECK:                   %d = loop.load %mm[%vi, %vj] : memref<8x64xf32>
// CHECK:                   loop.store %e, %mm[%vi, %vj] : memref<8x64xf32>
// CHECK:           loop.for %i = 0 to 8 {
// CHECK:             loop.for %j = 0 to 64 {
// CHECK:               loop.block "relu" (%vi: spatial 8 = %i, %vj: spatial 64 = %j) {
// CHECK:                 %a = loop.load %mm[%vi, %vj] : memref<8x64xf32>
// CHECK:                 loop.store %b, %y[%vi, %vj] : memref<8x64xf32>
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
  sched.set_scope %mm to register
}

// -----

// An argument stays in the caller's memory.
// CHECK:       illegal-schedule: 'sched.set_scope': set_scope: argument 'block': it writes %y, an argument of the function
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
  sched.set_scope %mm to register
}

// -----

// The reduction's init must still be in its block.
// CHECK:       illegal-schedule: 'sched.cache_write': cache_write: argument 'block': another block starts its reduction in %y
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
  %store = sched.cache_write %mm into register
}

// -----

// With steps only the elements that are read are copied: here every second row.
// CHECK-LABEL: loop.func @steps
// CHECK:         %x_acc_input = loop.alloc acc_input : memref<4x6x16xi8>
// CHECK:         loop.block "x_acc_input" (%vd0: spatial 4 = %d0, %vd1: spatial 6 = %d1, %vd2: spatial 16 = %d2) {
// CHECK-NEXT:      %0 = loop.load %x[%vd0 * 2, %vd1, %vd2] : memref<7x6x16xi8>
// CHECK-NEXT:      loop.store %0, %x_acc_input[%vd0, %vd1, %vd2] : memref<4x6x16xi8>
// CHECK:         loop.load %x_acc_input[%vi, %vj * 2, %vk] : memref<4x6x16xi8>
loop.func @steps(%x: memref<7x6x16xi8>, %y: memref<4x3x16xi8>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 3 {
      loop.for %k = 0 to 16 {
        loop.block "copy" (%vi: spatial 4 = %i, %vj: spatial 3 = %j, %vk: spatial 16 = %k) {
          %a = loop.load %x[%vi * 2, %vj * 2, %vk] : memref<7x6x16xi8>
          loop.store %a, %y[%vi, %vj, %vk] : memref<4x3x16xi8>
        }
      }
    }
  }
}
sched.sequence @s for @steps {
  %copy = sched.get_block "copy"
  %c = sched.cache_read %copy of 0 into acc_input steps [2, 1, 1]
}

// -----

// The block must not read elements that the steps skip.
// CHECK: cache_read: argument 'steps': the block reads other indices of %x than every 2
loop.func @f(%x: memref<8xf32>, %y: memref<6xf32>) {
  loop.for %i = 0 to 6 {
    loop.block "copy" (%vi: spatial 6 = %i) {
      %a = loop.load %x[%vi + 2] : memref<8xf32>
      loop.store %a, %y[%vi] : memref<6xf32>
    }
  }
}
sched.sequence @s for @f {
  %copy = sched.get_block "copy"
  %c = sched.cache_read %copy of 0 into global steps [2]
}
