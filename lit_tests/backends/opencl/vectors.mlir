// RUN: tcopt %s -t opencl --split-input-file | filecheck %s

// A fused multiply-add is one instruction on every device that has one: `fma` if reported as fast,
// else a contracted expression.
// CHECK:      inline float4 fma_float4(float4 a, float4 b, float4 c)
// CHECK-NEXT: {
// CHECK-NEXT: #ifdef FP_FAST_FMAF
// CHECK-NEXT:   return fma(a, b, c);
// CHECK-NEXT: #else
// CHECK-NEXT: #pragma OPENCL FP_CONTRACT ON
// CHECK-NEXT:   return a * b + c;
// CHECK-NEXT: #endif
// CHECK-NEXT: }

// Contiguous lanes are loaded and stored as vectors; selects use masks of the element's width.
// CHECK:      void lanes(__global const float *restrict x, __global float *restrict y)
// CHECK:        const float4 a = vload4(0, x + i);
// CHECK-NEXT:   const float4 b = vload4(0, x + i + 32);
// CHECK-NEXT:   const float4 v = fma_float4(a, (float4)(2.0f), b);
// CHECK-NEXT:   vstore4(select(a, maximum_float4(v, (float4)(0.0f)), v < a), 0, y + i);
func.func private @lanes(%x: memref<64xf32>, %y: memref<32xf32>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 8, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %thread = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
  %c4 = arith.constant 4 : index
  %c32 = arith.constant 32 : index
  %i = arith.muli %thread, %c4 : index
  %j = arith.addi %i, %c32 : index
  %two = arith.constant dense<2.0> : vector<4xf32>
  %zero = arith.constant dense<0.0> : vector<4xf32>
  %a = vector.load %x[%i] : memref<64xf32>, vector<4xf32>
  %b = vector.load %x[%j] : memref<64xf32>, vector<4xf32>
  %0 = vector.fma %a, %two, %b : vector<4xf32>
  %r = arith.maximumf %0, %zero : vector<4xf32>
  %1 = arith.cmpf olt, %0, %a : vector<4xf32>
  %2 = arith.select %1, %r, %a : vector<4xi1>, vector<4xf32>
  vector.store %2, %y[%i] : memref<32xf32>, vector<4xf32>
  func.return
}

// -----

// Masked accesses are emitted lane by lane unless the mask is known.
// CHECK:      void part(
// CHECK:        const int first = 0;
// CHECK-NEXT:   const int4 lanes = ((int4)(0, 1, 2, 3) < thread);
// CHECK-NEXT:   const float4 a = (float4)(lanes.s0 ? x[first] : 0.0f, lanes.s1 ? x[first + 1] : 0.0f,
// CHECK:        const int first_1 = thread;
// CHECK-NEXT:   y[first_1] = a.s0;
// CHECK-NEXT:   y[first_1 + 2] = a.s1;
// CHECK-NEXT:   y[first_1 + 4] = a.s2;
// CHECK-NEXT: }
func.func private @part(%x: memref<4xf32>, %y: memref<32xf32>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 8, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %thread = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : vector<4xf32>
  %offsets = arith.constant dense<[0, 2, 4, 6]> : vector<4xi32>
  %on = arith.constant dense<[true, true, true, false]> : vector<4xi1>
  %m = vector.create_mask %thread : vector<4xi1>
  %a = vector.maskedload %x[%c0], %m, %zero : memref<4xf32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
  vector.scatter %y[%thread] [%offsets], %on, %a : memref<32xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
  func.return
}

// -----

// On devices without f16 arithmetic, f16 values are converted at loads and stores.
// CHECK-NOT:  cl_khr_fp16
// CHECK:      void halves(__global const half *restrict x, __global half *restrict y)
// CHECK:        const float x_1 = vload_half(thread, x);
// CHECK-NEXT:   vstore_half_rte(x_1 + 1.0f, thread, y);
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 1, max_threads = 8, registers = 128, shared = 32768, vector_bits = 128>} {
func.func private @halves(%x: memref<8xf16>, %y: memref<8xf16>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 8, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %thread = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
  %one = arith.constant 1.0 : f16
  %0 = memref.load %x[%thread] : memref<8xf16>
  %1 = arith.addf %0, %one : f16
  memref.store %1, %y[%thread] : memref<8xf16>
  func.return
}
}

// -----

// On devices with f16 arithmetic, f16 values are computed directly.
// CHECK:      #pragma OPENCL EXTENSION cl_khr_fp16 : enable
// CHECK:      void halves(
// CHECK:        const half8 x_1 = vload8(0, x);
// CHECK-NEXT:   vstore8(x_1 + (half8)(1.0h), 0, y);
module attributes {tcopt.target = #target.gpu<api = "opencl", features = "fp16", warp = 1, max_threads = 8, registers = 128, shared = 32768, vector_bits = 128>} {
func.func private @halves(%x: memref<8xf16>, %y: memref<8xf16>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 1, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %c0 = arith.constant 0 : index
  %one = arith.constant dense<1.0> : vector<8xf16>
  %0 = vector.load %x[%c0] : memref<8xf16>, vector<8xf16>
  %1 = arith.addf %0, %one : vector<8xf16>
  vector.store %1, %y[%c0] : memref<8xf16>, vector<8xf16>
  func.return
}
}

// -----

// Integer vector arithmetic is done unsigned, so that overflow wraps around.
// CHECK:      void wrap(
// CHECK:        vstore4(as_int4(as_uint4(as_int4(as_uint4(a) * as_uint4(a))) + as_uint4(a)), 0, y + i);
func.func private @wrap(%x: memref<32xi32>, %y: memref<32xi32>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 8, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %thread = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
  %c4 = arith.constant 4 : index
  %i = arith.muli %thread, %c4 : index
  %a = vector.load %x[%i] : memref<32xi32>, vector<4xi32>
  %0 = arith.muli %a, %a : vector<4xi32>
  %1 = arith.addi %0, %a : vector<4xi32>
  vector.store %1, %y[%i] : memref<32xi32>, vector<4xi32>
  func.return
}
