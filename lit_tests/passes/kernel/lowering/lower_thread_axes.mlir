// RUN: tcopt %s -p lower-loop-to-kernel --split-input-file --verify-diagnostics | filecheck %s

// A bound loop variable becomes the thread's index in the grid; the function records the grid size.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK:      func.func private @f(%x: memref<1024xf32>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 256, 1, 1>, gpu.known_grid_size = array<i32: 4, 1, 1>} {
// CHECK-DAG:    %block_x = "gpu.block_id"() <{dimension = #gpu<dim x>}>
// CHECK-DAG:    %thread_x = "gpu.thread_id"() <{dimension = #gpu<dim x>}>
// CHECK:        [[B:%.*]] = arith.muli %block_x, %c256
// CHECK-NEXT:   [[P:%.*]] = arith.addi [[B]], %thread_x
// CHECK-NOT:    scf.for
// CHECK-NOT:    scf.if
// CHECK:        memref.load %x[[[P]]]
loop.func @f(%x: memref<1024xf32>) {
  loop.for %b = 0 to 4 thread blockIdx.x {
    loop.for %t = 0 to 256 thread threadIdx.x {
      %a = loop.load %x[%b * 256 + %t] : memref<1024xf32>
      %n = arith.negf %a : f32
      loop.store %n, %x[%b * 256 + %t] : memref<1024xf32>
    }
  }
}
}

// -----

// Loops of one axis share its threads, and shorter loops leave some threads idle. Threads of a
// block share memory of space 3 and synchronise by barriers.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK:      gpu.known_block_size = array<i32: 64, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>
// CHECK:        [[T:%.*]] = memref.alloca() {{.*}} : memref<64xf32, 3 : i64>
// CHECK:        memref.store {{.*}}, [[T]][%thread_x]
// CHECK-NEXT:   "gpu.barrier"()
// CHECK:        [[C:%.*]] = arith.cmpi ult, %thread_x, %c16
// CHECK:        scf.if [[C]] {
// CHECK-NEXT:     {{.*}} = memref.load [[T]]
loop.func @g(%x: memref<64xf32>, %y: memref<16xf32>) {
  %t = loop.alloc shared : memref<64xf32>
  loop.for %i = 0 to 64 thread threadIdx.x {
    %a = loop.load %x[%i] : memref<64xf32>
    loop.store %a, %t[%i] : memref<64xf32>
  }
  loop.barrier
  loop.for %i = 0 to 16 thread threadIdx.x {
    %a = loop.load %t[%i * 4] : memref<64xf32>
    loop.store %a, %y[%i] : memref<16xf32>
  }
}
}

// -----

// A CPU has no thread axes.
// CHECK: a loop is bound to threadIdx.x, but the module's target has no thread blocks
loop.func @h(%x: memref<8xf32>) {
  loop.for %i = 0 to 8 thread threadIdx.x {
    %a = loop.load %x[%i] : memref<8xf32>
    loop.store %a, %x[%i] : memref<8xf32>
  }
}

// -----

// A register buffer indexed by the thread becomes one element in each thread.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK: func.func private @own
// CHECK: %r = memref.alloca() {{.*}} : memref<2xf32>
loop.func @own(%x: memref<64x2xf32>, %y: memref<64x2xf32>) {
  loop.for %t = 0 to 64 thread threadIdx.x {
    %r = loop.alloc register : memref<2x64xf32>
    loop.for %i = 0 to 2 {
      loop.for %c = 0 to 64 thread threadIdx.x {
        %a = loop.load %x[%c, %i] : memref<64x2xf32>
        loop.store %a, %r[%i, %c] : memref<2x64xf32>
      }
    }
    loop.for %i = 0 to 2 {
      loop.for %c = 0 to 64 thread threadIdx.x {
        %a = loop.load %r[%i, %c] : memref<2x64xf32>
        loop.store %a, %y[%c, %i] : memref<64x2xf32>
      }
    }
  }
}
}

// -----

// An inner loop must not have more iterations than the loop of the same axis around it.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK: threadIdx.x has 64 iterations inside of a loop with 32
loop.func @more(%x: memref<64xf32>, %y: memref<64xf32>) {
  loop.for %t = 0 to 32 thread threadIdx.x {
    loop.for %c = 0 to 64 thread threadIdx.x {
      %a = loop.load %x[%c] : memref<64xf32>
      loop.store %a, %y[%c] : memref<64xf32>
    }
  }
}
}

// -----

// Buffers that threads share must be in shared memory.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK: %t would be global memory that a kernel allocates for several threads
loop.func @global(%x: memref<64xf32>, %y: memref<64xf32>) {
  %t = loop.alloc global : memref<64xf32>
  loop.for %c = 0 to 64 thread threadIdx.x {
    %a = loop.load %x[%c] : memref<64xf32>
    loop.store %a, %t[%c] : memref<64xf32>
    %b = loop.load %t[%c] : memref<64xf32>
    loop.store %b, %y[%c] : memref<64xf32>
  }
}
}

// -----

// A thread cannot read the registers of another.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK: threads store in the private buffer %r for other threads
loop.func @others(%x: memref<64xf32>, %y: memref<64xf32>) {
  %r = loop.alloc register : memref<64xf32>
  loop.for %c = 0 to 64 thread threadIdx.x {
    %a = loop.load %x[%c] : memref<64xf32>
    loop.store %a, %r[%c] : memref<64xf32>
  }
  loop.for %c = 0 to 64 thread threadIdx.x {
    %b = loop.load %r[63 - %c] : memref<64xf32>
    loop.store %b, %y[%c] : memref<64xf32>
  }
}
}
