// RUN: tcopt %s -t ptx --split-input-file | filecheck %s

// Copies of 16 bytes bypass the cache of a multiprocessor, smaller ones do not. Under a condition,
// the number of bytes that are read is 16 or 0; the others are written as zeros.
// CHECK:      .visible .entry copies(
// CHECK:      cp.async.cg.shared.global [{{.*}}], [{{.*}}], 16;
// CHECK:      selp.b32 [[SIZE:%r[0-9]+]], 8, 0, %p{{[0-9]+}};
// CHECK-NEXT: cp.async.ca.shared.global [{{.*}}], [{{.*}}], 8, [[SIZE]];
// CHECK-NEXT: cp.async.commit_group;
// CHECK-NEXT: cp.async.wait_group 1;
func.func private @copies(%x: memref<1024xf16> {llvm.align = 16 : i64}) attributes {gpu.kernel, gpu.known_block_size = array<i32: 64, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %t = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %s = memref.alloca() : memref<1024xf16, 3>
  %i = arith.muli %t, %c8 : index
  %j = arith.addi %i, %c4 : index
  %inside = arith.cmpi ult, %t, %c8 : index
  simt.copy_async %x[%i] to %s[%i] count 8 : memref<1024xf16>, memref<1024xf16, 3>
  simt.copy_async %x[%j] to %s[%i] if %inside count 4 : memref<1024xf16>, memref<1024xf16, 3>
  simt.commit_copies
  simt.wait_copies pending 1
  func.return
}

// -----

// Copies that may not be aligned are loads and stores; under a false condition the start of the
// buffer is loaded.
// CHECK:      .visible .entry unaligned(
// CHECK-NOT:  cp.async
// CHECK:      selp.b64 [[FROM:%rd[0-9]+]]
// CHECK:      ld.global.nc.b16 {{.*}}, {{\[}}[[FROM]]+2]
// CHECK:      st.shared
func.func private @unaligned(%x: memref<1024xf16>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 64, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %t = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
  %c8 = arith.constant 8 : index
  %s = memref.alloca() : memref<1024xf16, 3>
  %i = arith.muli %t, %c8 : index
  %inside = arith.cmpi ult, %t, %c8 : index
  simt.copy_async %x[%i] to %s[%i] if %inside count 8 : memref<1024xf16>, memref<1024xf16, 3>
  func.return
}

// -----

// More shared memory than a kernel can declare is requested by its launch, which reads the size in
// the name. Buffers are parts of it.
// CHECK:      .extern .shared .align 64 .b8 large_dynamic_65536[];
// CHECK:      .visible .entry large(
// CHECK:      st.shared.b32 [{{.*}}+32768]
func.func private @large(%x: memref<64xf32>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 64, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %t = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
  %a = memref.alloca() : memref<8192xf32, 3>
  %b = memref.alloca() : memref<8192xf32, 3>
  %v = memref.load %x[%t] : memref<64xf32>
  memref.store %v, %a[%t] : memref<8192xf32, 3>
  memref.store %v, %b[%t] : memref<8192xf32, 3>
  func.return
}
