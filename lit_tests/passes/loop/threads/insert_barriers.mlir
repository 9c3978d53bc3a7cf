// RUN: tcopt %s -p insert-barriers --split-input-file --verify-diagnostics | filecheck %s

// A barrier is inserted before threads read what others wrote.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @exchange(
// CHECK:      loop.for %t = 0 to 64 thread threadIdx.x {
// CHECK-NEXT:   {{.*}} = loop.load %x
// CHECK-NEXT:   loop.store
// CHECK-NEXT:   loop.barrier
// CHECK-NEXT:   {{.*}} = loop.load %s
// CHECK-NOT:    loop.barrier
loop.func @exchange(%x: memref<64xf32>, %y: memref<64xf32>) {
  %s = loop.alloc shared : memref<64xf32>
  loop.for %t = 0 to 64 thread threadIdx.x {
    %a = loop.load %x[%t] : memref<64xf32>
    loop.store %a, %s[%t] : memref<64xf32>
    %b = loop.load %s[63 - %t] : memref<64xf32>
    loop.store %b, %y[%t] : memref<64xf32>
  }
}
}

// -----

// A thread may read its own writes without a barrier.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @own(
// CHECK-NOT: loop.barrier
loop.func @own(%x: memref<64xf32>, %y: memref<64xf32>) {
  %s = loop.alloc shared : memref<64xf32>
  loop.for %t = 0 to 64 thread threadIdx.x {
    %a = loop.load %x[%t] : memref<64xf32>
    loop.store %a, %s[%t] : memref<64xf32>
    %b = loop.load %s[%t] : memref<64xf32>
    loop.store %b, %y[%t] : memref<64xf32>
  }
}
}

// -----

// A thread reads four elements, three of them written by others, so a barrier is needed.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @spread(
// CHECK:     loop.for %t = 0 to 16
// CHECK:     loop.barrier
// CHECK-NEXT: loop.for %i = 0 to 4
// CHECK-NOT: loop.barrier
loop.func @spread(%x: memref<64xf32>, %y: memref<64xf32>) {
  %s = loop.alloc shared : memref<64xf32>
  loop.for %t = 0 to 16 thread threadIdx.x {
    loop.for %i = 0 to 4 {
      %a = loop.load %x[%i * 16 + %t] : memref<64xf32>
      loop.store %a, %s[%i * 16 + %t] : memref<64xf32>
    }
    loop.for %i = 0 to 4 {
      %b = loop.load %s[%t * 4 + %i] : memref<64xf32>
      loop.store %b, %y[%t * 4 + %i] : memref<64xf32>
    }
  }
}
}

// -----

// A thread reads only the four elements that it wrote itself.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @four(
// CHECK-NOT: loop.barrier
loop.func @four(%x: memref<64xf32>, %y: memref<64xf32>) {
  %s = loop.alloc shared : memref<64xf32>
  loop.for %t = 0 to 16 thread threadIdx.x {
    loop.for %i = 0 to 4 {
      %a = loop.load %x[%t * 4 + %i] : memref<64xf32>
      loop.store %a, %s[%t * 4 + %i] : memref<64xf32>
    }
    loop.for %i = 0 to 4 {
      %b = loop.load %s[%t * 4 - %i + 3] : memref<64xf32>
      loop.store %b, %y[%t * 4 + %i] : memref<64xf32>
    }
  }
}
}

// -----

// In a loop, the next iteration must not overwrite what other threads still read.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @carried(
// CHECK:      loop.for %k = 0 to 4 {
// CHECK-NEXT:   {{.*}} = loop.load %x
// CHECK-NEXT:   loop.barrier
// CHECK-NEXT:   loop.store
// CHECK-NEXT:   loop.barrier
// CHECK-NEXT:   {{.*}} = loop.load %s
// CHECK-NOT:    loop.barrier
loop.func @carried(%x: memref<64xf32>, %y: memref<64xf32>) {
  %s = loop.alloc shared : memref<64xf32>
  loop.for %t = 0 to 64 thread threadIdx.x {
    loop.for %k = 0 to 4 {
      %a = loop.load %x[%t] : memref<64xf32>
      loop.store %a, %s[%t] : memref<64xf32>
      %b = loop.load %s[63 - %t] : memref<64xf32>
      loop.store %b, %y[%t] : memref<64xf32>
    }
  }
}
}

// -----

// With alternating buffers one barrier per iteration is enough.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @in_turn(
// CHECK:      loop.for %k = 0 to 8 {
// CHECK-NEXT:   {{.*}} = loop.load %x
// CHECK-NEXT:   loop.store
// CHECK-NEXT:   loop.barrier
// CHECK-NEXT:   {{.*}} = loop.load %s
// CHECK-NOT:    loop.barrier
loop.func @in_turn(%x: memref<64xf32>, %y: memref<64xf32>) {
  %s = loop.alloc shared : memref<2x64xf32>
  loop.for %t = 0 to 64 thread threadIdx.x {
    loop.for %k = 0 to 8 {
      %a = loop.load %x[%t] : memref<64xf32>
      loop.store %a, %s[%k mod 2, %t] : memref<2x64xf32>
      %b = loop.load %s[%k mod 2, 63 - %t] : memref<2x64xf32>
      loop.store %b, %y[%t] : memref<64xf32>
    }
  }
}
}

// -----

// The next tile is written while the current one is read: one barrier covers both.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @ahead(
// CHECK:      loop.store %c, %s[0, %t]
// CHECK-NEXT: loop.for %k = 0 to 8 {
// CHECK-NEXT:   {{.*}} = loop.load %x
// CHECK-NEXT:   loop.barrier
// CHECK-NEXT:   loop.store
// CHECK-NOT:    loop.barrier
loop.func @ahead(%x: memref<64xf32>, %y: memref<64xf32>) {
  %s = loop.alloc shared : memref<2x64xf32>
  loop.for %t = 0 to 64 thread threadIdx.x {
    %c = loop.load %x[%t] : memref<64xf32>
    loop.store %c, %s[0, %t] : memref<2x64xf32>
    loop.for %k = 0 to 8 {
      %a = loop.load %x[%t] : memref<64xf32>
      loop.store %a, %s[(%k + 1) mod 2, %t] : memref<2x64xf32>
      %b = loop.load %s[%k mod 2, 63 - %t] : memref<2x64xf32>
      loop.store %b, %y[%t] : memref<64xf32>
    }
  }
}
}

// -----

// Two buffers are filled before both are read: one barrier is enough.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @together(
// CHECK:      loop.store %a, %u
// CHECK-NEXT: loop.barrier
// CHECK-NOT:  loop.barrier
loop.func @together(%x: memref<64xf32>, %y: memref<64xf32>) {
  %s = loop.alloc shared : memref<64xf32>
  %u = loop.alloc shared : memref<64xf32>
  loop.for %t = 0 to 64 thread threadIdx.x {
    %a = loop.load %x[%t] : memref<64xf32>
    loop.store %a, %s[%t] : memref<64xf32>
    loop.store %a, %u[%t] : memref<64xf32>
    %b = loop.load %s[63 - %t] : memref<64xf32>
    %c = loop.load %u[%t floordiv 2] : memref<64xf32>
    %d = arith.addf %b, %c : f32
    loop.store %d, %y[%t] : memref<64xf32>
  }
}
}

// -----

// Threads cooperate inside their loop: all fill a tile, then all read it.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @cooperative(
// CHECK:      loop.for %k = 0 to 2 {
// CHECK-NEXT:   loop.barrier
// CHECK-NEXT:   loop.for %c = 0 to 32 thread threadIdx.x {
// CHECK:        loop.barrier
// CHECK-NEXT:   loop.for %i = 0 to 32 {
// CHECK-NOT:    loop.barrier
loop.func @cooperative(%x: memref<64xf32>, %y: memref<64xf32>) {
  %s = loop.alloc shared : memref<32xf32>
  loop.for %t = 0 to 32 thread threadIdx.x {
    loop.for %k = 0 to 2 {
      loop.for %c = 0 to 32 thread threadIdx.x {
        %a = loop.load %x[%k * 32 + %c] : memref<64xf32>
        loop.store %a, %s[%c] : memref<32xf32>
      }
      loop.for %i = 0 to 32 {
        %b = loop.load %s[%i] : memref<32xf32>
        loop.store %b, %y[%t] : memref<64xf32>
      }
    }
  }
}
}

// -----

// A tree reduction needs a barrier for all threads after each step, although fewer of them work.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @tree(
// CHECK:      loop.barrier
// CHECK-NEXT: loop.for %t = 0 to 32
// CHECK:      loop.barrier
// CHECK-NEXT: loop.for %t = 0 to 16
// CHECK:      loop.barrier
// CHECK-NEXT: loop.for %t = 0 to 64
// CHECK-NOT:  loop.barrier
loop.func @tree(%x: memref<64xf32>, %y: memref<64xf32>) {
  %s = loop.alloc shared : memref<64xf32>
  loop.for %b = 0 to 4 thread blockIdx.x {
    loop.for %t = 0 to 64 thread threadIdx.x {
      %a = loop.load %x[%t] : memref<64xf32>
      loop.store %a, %s[%t] : memref<64xf32>
    }
    loop.for %t = 0 to 32 thread threadIdx.x {
      %a = loop.load %s[%t] : memref<64xf32>
      %b1 = loop.load %s[%t + 32] : memref<64xf32>
      %c = arith.addf %a, %b1 : f32
      loop.store %c, %s[%t] : memref<64xf32>
    }
    loop.for %t = 0 to 16 thread threadIdx.x {
      %a = loop.load %s[%t] : memref<64xf32>
      %b1 = loop.load %s[%t + 16] : memref<64xf32>
      %c = arith.addf %a, %b1 : f32
      loop.store %c, %s[%t] : memref<64xf32>
    }
    loop.for %t = 0 to 64 thread threadIdx.x {
      %a = loop.load %s[%t mod 16] : memref<64xf32>
      loop.store %a, %y[%t] : memref<64xf32>
    }
  }
}
}

// -----

// Blocks access disjoint parts of an argument, so no barrier is needed.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @blocks(
// CHECK-NOT: loop.barrier
loop.func @blocks(%y: memref<10x32xf32>) {
  loop.for %b = 0 to 5 thread blockIdx.x {
    loop.for %t = 0 to 64 thread threadIdx.x {
      %a = loop.load %y[(%b * 64 + %t) floordiv 32, (%b * 64 + %t) mod 32] : memref<10x32xf32>
      %c = arith.negf %a : f32
      loop.store %c, %y[(%b * 64 + %t) floordiv 32, (%b * 64 + %t) mod 32] : memref<10x32xf32>
    }
  }
}
}

// -----

// Data exchanged through global memory needs a barrier with a global memory fence.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @global(
// CHECK:      loop.store %a, %x[%t]
// CHECK-NEXT: loop.barrier {fence = "global"}
// CHECK-NOT:  loop.barrier
loop.func @global(%x: memref<64xf32>, %y: memref<64xf32>) {
  loop.for %t = 0 to 64 thread threadIdx.x {
    %a = loop.load %y[%t] : memref<64xf32>
    loop.store %a, %x[%t] : memref<64xf32>
    %b = loop.load %x[63 - %t] : memref<64xf32>
    loop.store %b, %y[%t] : memref<64xf32>
  }
}
}

// -----

// A barrier under a condition is legal if all threads of a block agree on it.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @uniform(
// CHECK:      loop.guard ([%b] in 3) {
// CHECK:        loop.barrier
// CHECK-NEXT:   {{.*}} = loop.load %s
loop.func @uniform(%x: memref<64xf32>, %y: memref<64xf32>) {
  %s = loop.alloc shared : memref<64xf32>
  loop.for %b = 0 to 4 thread blockIdx.x {
    loop.for %t = 0 to 64 thread threadIdx.x {
      loop.guard ([%b] in 3) {
        %a = loop.load %x[%t] : memref<64xf32>
        loop.store %a, %s[%t] : memref<64xf32>
        %c = loop.load %s[63 - %t] : memref<64xf32>
        loop.store %c, %y[%t] : memref<64xf32>
      }
    }
  }
}
}

// -----

// Out-of-bounds elements are not accessed by any thread.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @outside(
// CHECK-NOT: loop.barrier
loop.func @outside(%x: memref<64xf32>, %y: memref<64xf32>) {
  %s = loop.alloc shared : memref<64xf32>
  loop.for %t = 0 to 64 thread threadIdx.x {
    %a = loop.load %x[%t] : memref<64xf32>
    loop.store %a, %s[%t] : memref<64xf32>
    loop.guard ([%t - 63] in 1) {
      %b = loop.load %s[%t] : memref<64xf32>
      loop.store %b, %y[0] : memref<64xf32>
    }
  }
}
}

// -----

// On a CPU there are no thread blocks.
module {
// CHECK-LABEL: loop.func @cpu(
// CHECK-NOT: loop.barrier
loop.func @cpu(%x: memref<64xf32>, %y: memref<64xf32>) {
  %s = loop.alloc shared : memref<64xf32>
  loop.for %t = 0 to 64 thread threadIdx.x {
    %a = loop.load %x[%t] : memref<64xf32>
    loop.store %a, %s[%t] : memref<64xf32>
    %b = loop.load %s[63 - %t] : memref<64xf32>
    loop.store %b, %y[%t] : memref<64xf32>
  }
}
}

// -----

// Under a condition that differs between threads, a barrier would deadlock.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK: threads communicate through %s where there can be no barrier
loop.func @divergent(%x: memref<64xf32>, %y: memref<64xf32>) {
  %s = loop.alloc shared : memref<64xf32>
  loop.for %t = 0 to 64 thread threadIdx.x {
    loop.guard ([%t] in 32) {
      %a = loop.load %x[%t] : memref<64xf32>
      loop.store %a, %s[%t] : memref<64xf32>
      %b = loop.load %s[31 - %t] : memref<64xf32>
      loop.store %b, %y[%t] : memref<64xf32>
    }
  }
}
}

// -----

// All threads write one element, so no thread can rely on the value that it reads.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK: several threads write the same element of %s at a time
loop.func @same(%x: memref<64xf32>, %y: memref<64xf32>) {
  %s = loop.alloc shared : memref<64xf32>
  loop.for %t = 0 to 64 thread threadIdx.x {
    %a = loop.load %x[%t] : memref<64xf32>
    loop.store %a, %s[0] : memref<64xf32>
    %b = loop.load %s[0] : memref<64xf32>
    loop.store %b, %y[%t] : memref<64xf32>
  }
}
}

// -----

// A kernel with a single thread needs no barriers, even with branches on data.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @alone
// CHECK-NOT: loop.barrier
loop.func @alone(%x: memref<64xf32>, %y: memref<64xf32>) {
  loop.for %i = 0 to 64 {
    %s = loop.alloc global : memref<64xf32>
    %zero = arith.constant 0.0 : f32
    %a = loop.load %x[%i] : memref<64xf32>
    %c = arith.cmpf olt, %a, %zero : f32
    scf.if %c {
      loop.store %a, %s[%i] : memref<64xf32>
      %b = loop.load %s[%i] : memref<64xf32>
      loop.store %b, %y[%i] : memref<64xf32>
    }
  }
}
}

// -----

// A thread waits for its own copies; a barrier follows before others read them.
module attributes {tcopt.target = #target.gpu<api = "cuda", arch = "sm_80", features = "cp_async", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @copied(
// CHECK:      loop.store %a, %s[%t]
// CHECK-NEXT: simt.commit_copies
// CHECK-NEXT: loop.barrier
// CHECK-NEXT: simt.wait_copies pending 0
// CHECK-NEXT: loop.barrier
// CHECK-NEXT: {{.*}} = loop.load %s
loop.func @copied(%x: memref<64xf32>, %y: memref<64xf32>) {
  %s = loop.alloc shared {async} : memref<64xf32>
  loop.for %t = 0 to 64 thread threadIdx.x {
    %a = loop.load %x[%t] : memref<64xf32>
    loop.store %a, %s[%t] : memref<64xf32>
    simt.commit_copies
    loop.barrier
    simt.wait_copies pending 0
    %b = loop.load %s[63 - %t] : memref<64xf32>
    loop.store %b, %y[%t] : memref<64xf32>
  }
}
}
