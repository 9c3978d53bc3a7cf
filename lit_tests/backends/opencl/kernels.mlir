// RUN: tcopt %s -t opencl | filecheck %s

// A function that is not marked as a kernel runs on the host and is not emitted.
// CHECK-NOT: main
// A product and a sum are contracted only where the kernel allows it.
// CHECK: #pragma OPENCL FP_CONTRACT OFF
func.func @main(%x: memref<4xf32>) { func.return }

// Read-only buffers are const; operands with a single use are emitted inline.
// CHECK:      // {{.*}}kernels.mlir
// CHECK-NEXT: __kernel __attribute__((reqd_work_group_size(64, 1, 1)))
// CHECK-NEXT: void scale(__global const float *restrict x, __global float *restrict y)
// CHECK-NEXT: {
// CHECK-NEXT:   const int block = get_group_id(0);
// CHECK-NEXT:   const int thread = get_local_id(0);
// CHECK-NEXT:   const int i = block * 64 + thread;
// CHECK-NEXT:   const float x_1 = x[i];
// CHECK-NEXT:   y[i] = (x_1 + 0.5f) * 2.0f;
// CHECK-NEXT: }
func.func private @scale(%x: memref<256xf32>, %y: memref<256xf32>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 64, 1, 1>, gpu.known_grid_size = array<i32: 4, 1, 1>} {
  %block = "gpu.block_id"() <{dimension = #gpu<dim x>}> : () -> index
  %thread = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
  %c64 = arith.constant 64 : index
  %0 = arith.muli %block, %c64 : index
  %i = arith.addi %0, %thread : index
  %half = arith.constant 5.000000e-01 : f32
  %two = arith.constant 2.000000e+00 : f32
  %1 = memref.load %x[%i] : memref<256xf32>
  %2 = arith.addf %1, %half : f32
  %3 = arith.mulf %2, %two : f32
  memref.store %3, %y[%i] : memref<256xf32>
  func.return
}

// Loop-carried values are variables; two that are swapped are both read before either is written.
// CHECK:      void exchange(
// CHECK:        float a = 0.0f;
// CHECK-NEXT:   float b = 1.0f;
// CHECK-NEXT:   for (int i = 0; i < 8; ++i) {
// CHECK-NEXT:     const float next_a = b;
// CHECK-NEXT:     const float next_b = a;
// CHECK-NEXT:     a = next_a;
// CHECK-NEXT:     b = next_b;
// CHECK-NEXT:   }
// CHECK-NEXT:   y[0] = a - b;
func.func private @exchange(%y: memref<1xf32>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 1, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %zero = arith.constant 0.000000e+00 : f32
  %one = arith.constant 1.000000e+00 : f32
  %first, %second = scf.for %i = %c0 to %c8 step %c1 iter_args(%a = %zero, %b = %one) -> (f32, f32) {
    scf.yield %b, %a : f32, f32
  }
  %0 = arith.subf %first, %second : f32
  memref.store %0, %y[%c0] : memref<1xf32>
  func.return
}

// A branch yields through a variable; threads share local memory and synchronise by barriers.
// CHECK:      void branch(
// CHECK:        __local float t[8];
// CHECK-NEXT:   const float x_1 = x[thread];
// CHECK-NEXT:   t[thread] = x_1 < 0.0f ? 0.0f : 1.0f;
// CHECK-NEXT:   barrier(CLK_LOCAL_MEM_FENCE);
// CHECK-NEXT:   const int i = 7 - thread;
// CHECK-NEXT:   const float v = as_uint(i) < 7u ? t[i] : 1.0f;
// CHECK-NEXT:   x[thread] = v;
func.func private @branch(%x: memref<8xf32>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 8, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %thread = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
  %c7 = arith.constant 7 : index
  %zero = arith.constant 0.000000e+00 : f32
  %one = arith.constant 1.000000e+00 : f32
  %t = memref.alloca() : memref<8xf32, 3 : i64>
  %0 = memref.load %x[%thread] : memref<8xf32>
  %1 = arith.cmpf olt, %0, %zero : f32
  %2 = arith.select %1, %zero, %one : f32
  memref.store %2, %t[%thread] : memref<8xf32, 3 : i64>
  "gpu.barrier"() : () -> ()
  %3 = arith.subi %c7, %thread : index
  %4 = arith.cmpi ult, %3, %c7 : index
  %5 = scf.if %4 -> (f32) {
    %6 = memref.load %t[%3] : memref<8xf32, 3 : i64>
    scf.yield %6 : f32
  } else {
    scf.yield %one : f32
  }
  memref.store %5, %x[%thread] : memref<8xf32>
  func.return
}

// An accumulator passed through nested loops and branches is a single variable.
// CHECK:      void total(
// CHECK:        float a = 0.0f;
// CHECK-NEXT:   for (int i = 0; i < 8; ++i) {
// CHECK-NEXT:     for (int j = 0; j < 4; ++j) {
// CHECK-NEXT:       if (j < i) {
// CHECK-NEXT:         const float x_1 = x[i * 4 + j];
// CHECK-NEXT:         a = a + x_1;
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   x[0] = a;
func.func private @total(%x: memref<8x4xf32>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 1, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %zero = arith.constant 0.000000e+00 : f32
  %r = scf.for %i = %c0 to %c8 step %c1 iter_args(%a = %zero) -> (f32) {
    %s = scf.for %j = %c0 to %c4 step %c1 iter_args(%b = %a) -> (f32) {
      %below = arith.cmpi slt, %j, %i : index
      %t = scf.if %below -> (f32) {
        %0 = memref.load %x[%i, %j] : memref<8x4xf32>
        %1 = arith.addf %b, %0 : f32
        scf.yield %1 : f32
      } else {
        scf.yield %b : f32
      }
      scf.yield %t : f32
    }
    scf.yield %s : f32
  }
  memref.store %r, %x[%c0, %c0] : memref<8x4xf32>
  func.return
}

// Threads of a sub-group exchange values by shuffles.
// CHECK:      void shuffle(
// CHECK:        const float x_1 = x[thread];
// CHECK-NEXT:   const float other = sub_group_shuffle_xor(x_1, 4);
// CHECK-NEXT:   x[thread] = x_1 + other;
func.func private @shuffle(%x: memref<8xf32>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 8, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %thread = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
  %0 = memref.load %x[%thread] : memref<8xf32>
  %1 = simt.shuffle %0 xor 4 : f32
  %2 = arith.addf %0, %1 : f32
  memref.store %2, %x[%thread] : memref<8xf32>
  func.return
}
