// RUN: tcopt %s -p apply-schedule --split-input-file --verify-diagnostics | filecheck %s

// The buffer is marked for a later pass.
// CHECK: %x_shared = loop.alloc shared {slots = 2 : i64} : memref<64x32xf32>
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
        %n = arith.addf %o, %a : f32
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
  sched.double_buffer %x
}

// -----

// Only shared memory can be prefetched for the next iteration.
// CHECK: illegal-schedule: 'sched.double_buffer': double_buffer: argument 'block': %y is not shared
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
        %n = arith.addf %o, %a : f32
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
  sched.double_buffer %sum
}

// -----

// The buffer must be refilled in a loop.
// CHECK: illegal-schedule: 'sched.double_buffer': double_buffer: argument 'block': %x_shared is filled once, outside of loops
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
        %n = arith.addf %o, %a : f32
        loop.store %n, %y[%vi] : memref<64xf32>
      }
    }
  }
}
sched.sequence @s for @f {
  %sum = sched.get_block "sum"
  %x = sched.cache_read %sum of "x" into shared
  sched.double_buffer %x
}

// -----

// Buffers in accelerator memory can have any number of slots, whatever writes them.
// CHECK: %x_acc_input = loop.alloc acc_input {slots = 3 : i64} : memref<64x16xi8>
loop.func @f(%x: memref<64x16xi8>, %y: memref<64x16xi8>) {
  loop.for %i = 0 to 64 {
    loop.for %k = 0 to 16 {
      loop.block "copy" (%vi: spatial 64 = %i, %vk: spatial 16 = %k) {
        %a = loop.load %x[%vi, %vk] : memref<64x16xi8>
        loop.store %a, %y[%vi, %vk] : memref<64x16xi8>
      }
    }
  }
}
sched.sequence @s for @f {
  %copy = sched.get_block "copy"
  %i, %k = sched.get_loops %copy
  %x = sched.cache_read %copy of "x" into acc_input
  sched.compute_at %x at %i
  sched.double_buffer %x slots 3
}

// -----

// Shared memory has at least two slots.
// CHECK: double_buffer: argument 'slots': %x_shared is in memory where tiles have at least two slots, not 1
loop.func @f(%x: memref<64x16xi8>, %y: memref<64x16xi8>) {
  loop.for %i = 0 to 64 {
    loop.for %k = 0 to 16 {
      loop.block "copy" (%vi: spatial 64 = %i, %vk: spatial 16 = %k) {
        %a = loop.load %x[%vi, %vk] : memref<64x16xi8>
        loop.store %a, %y[%vi, %vk] : memref<64x16xi8>
      }
    }
  }
}
sched.sequence @s for @f {
  %copy = sched.get_block "copy"
  %i, %k = sched.get_loops %copy
  %x = sched.cache_read %copy of "x" into shared
  sched.compute_at %x at %i
  sched.double_buffer %x slots 1
}
