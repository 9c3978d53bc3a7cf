// RUN: tcopt %s -t nvptx-llvm | filecheck %s
// RUN: tcopt %s -t ptx | filecheck %s --check-prefix=PTX

// A function that is not marked as a kernel runs on the host and is not emitted.
// CHECK-NOT: main
func.func @main(%x: memref<4xf32>) { func.return }

// Shared memory is a variable of the module.
// CHECK: @branch_shared_0 = internal addrspace(3) global [32 x i8] poison, align 64

// Buffers are in global memory; thread and block indices have bounds, so indices need only 32 bits.
// CHECK:      define ptx_kernel void @scale(ptr addrspace(1) noalias nonnull readonly align 4 %arg0,
// CHECK-SAME: ptr addrspace(1) noalias nonnull align 4 %arg1) nounwind "nvvm.reqntid"="64,1,1" "nvvm.minctasm"="1" {
// CHECK-NEXT: entry:
// CHECK-NEXT:   %v1 = call range(i32 0, 4) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
// CHECK-NEXT:   %v2 = call range(i32 0, 64) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
// CHECK-NEXT:   %v3 = shl nsw i32 %v1, 8
// CHECK-NEXT:   %v4 = shl nsw i32 %v2, 2
// CHECK-NEXT:   %v5 = add nsw i32 %v3, %v4
// CHECK-NEXT:   %v6 = getelementptr i8, ptr addrspace(1) %arg0, i32 %v5
// CHECK-NEXT:   %v7 = load float, ptr addrspace(1) %v6, align 4
// PTX:      .version 7.8
// PTX-NEXT: .target sm_80
// PTX:      .visible .entry scale(
// PTX:      .reqntid 64, 1, 1
// A launch that does not fill the device needs no registers for more blocks at once.
// PTX-NEXT: .minnctapersm 1
// PTX:        ld.global.nc.b32
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

// Multiply and add are fused where both allow contraction or the IR has an fma; others round twice.
// PTX-LABEL: .visible .entry contract(
// PTX:         mul.rn.f32
// PTX-NEXT:    add.rn.f32
// PTX-NEXT:    fma.rn.f32
// PTX-NEXT:    fma.rn.f32
func.func private @contract(%x: memref<4xf32>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 1, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %c0 = arith.constant 0 : index
  %a = memref.load %x[%c0] : memref<4xf32>
  %0 = arith.mulf %a, %a : f32
  %1 = arith.addf %0, %a : f32
  %2 = arith.mulf %1, %1 fastmath<contract> : f32
  %3 = arith.addf %2, %a fastmath<contract> : f32
  %4 = math.fma %3, %3, %a : f32
  memref.store %4, %x[%c0] : memref<4xf32>
  func.return
}

// A vector is one access if its address is a multiple of its size.
// PTX-LABEL: .visible .entry vectors(
// PTX-COUNT-4: ld.global.nc.b32
// PTX:         ld.global.nc.v4.b32
// PTX:         ld.global.nc.v2.b32
// PTX:         st.global.v4.b32
func.func private @vectors(%w: memref<64xf32>, %x: memref<64xf32> {llvm.align = 64 : i64}, %y: memref<64xf32> {llvm.align = 64 : i64}) attributes {gpu.kernel, gpu.known_block_size = array<i32: 16, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %thread = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
  %c4 = arith.constant 4 : index
  %c2 = arith.constant 2 : index
  %i = arith.muli %thread, %c4 : index
  %j = arith.muli %thread, %c2 : index
  %0 = vector.load %w[%i] : memref<64xf32>, vector<4xf32>
  %1 = vector.load %x[%i] : memref<64xf32>, vector<4xf32>
  %2 = vector.load %x[%j] : memref<64xf32>, vector<2xf32>
  %3 = vector.shuffle %2, %2 [0, 1, 0, 1] : vector<2xf32>, vector<2xf32>
  %4 = arith.addf %0, %1 : vector<4xf32>
  %5 = arith.addf %3, %4 : vector<4xf32>
  vector.store %5, %y[%i] : memref<64xf32>, vector<4xf32>
  func.return
}

// Threads share memory and synchronise by barriers.
// PTX-LABEL: .visible .entry branch(
// PTX:         st.shared.b32
// PTX-NEXT:    bar.sync 0;
// PTX:         ld.shared.b32
func.func private @branch(%x: memref<8xf32>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 8, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %thread = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
  %t = memref.alloca() : memref<8xf32, 3 : i64>
  %zero = arith.constant 0.000000e+00 : f32
  %one = arith.constant 1.000000e+00 : f32
  %c7 = arith.constant 7 : index
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

// A private buffer with constant indices is in registers; another one is in local memory.
// PTX-LABEL: .visible .entry own(
// PTX:         .local .align 16 .b8 	__local_depot{{[0-9]+}}[32];
// PTX:         st.local
// PTX-NOT:     st.local
// PTX:         ld.local
func.func private @own(%x: memref<8xf32>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 8, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %thread = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
  %c0 = arith.constant 0 : index
  %one = arith.constant 1.000000e+00 : f32
  %known = memref.alloca() : memref<2xf32>
  memref.store %one, %known[%c0] : memref<2xf32>
  %0 = memref.load %known[%c0] : memref<2xf32>
  %t = memref.alloca() : memref<8xf32>
  memref.store %0, %t[%thread] : memref<8xf32>
  %1 = memref.load %t[%c0] : memref<8xf32>
  memref.store %1, %x[%thread] : memref<8xf32>
  func.return
}

// A loop over local memory is not unrolled: ptxas would move all of the loaded values to registers.
// PTX-LABEL: .visible .entry gathered(
// PTX:         .pragma "nounroll";
func.func private @gathered(%x: memref<8xf32>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 1, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %t = memref.alloca() : memref<8xf32>
  scf.for %i = %c0 to %c8 step %c1 {
    %0 = memref.load %x[%i] : memref<8xf32>
    memref.store %0, %t[%i] : memref<8xf32>
  }
  scf.for %i = %c0 to %c8 step %c1 {
    %0 = memref.load %t[%i] : memref<8xf32>
    memref.store %0, %x[%i] : memref<8xf32>
  }
  func.return
}

// Buffers of more than a gigabyte have 64-bit indices.
// CHECK:      define ptx_kernel void @large(
// CHECK:        [[THREAD:%.*]] = call range(i32 0, 64) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
// CHECK-NEXT:   {{.*}} = zext nneg i32 [[THREAD]] to i64
func.func private @large(%x: memref<300000000xf32>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 64, 1, 1>, gpu.known_grid_size = array<i32: 4, 1, 1>} {
  %thread = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
  %one = arith.constant 1.000000e+00 : f32
  memref.store %one, %x[%thread] : memref<300000000xf32>
  func.return
}

// Each dot product of four bytes is one instruction.
// PTX-LABEL: .visible .entry dots(
// PTX:         dp4a.s32.s32
// PTX:         dp4a.u32.s32
func.func private @dots(%a: memref<1xi32>, %w: memref<4xi8>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 1, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %c0 = arith.constant 0 : index
  %0 = memref.load %a[%c0] : memref<1xi32>
  %1 = vector.load %w[%c0] : memref<4xi8>, vector<4xi8>
  %2 = simd.dot %0, %1, %1 : vector<4xi8> into i32
  %3 = simd.dot %2, %1, %1 {lhs_unsigned} : vector<4xi8> into i32
  memref.store %3, %a[%c0] : memref<1xi32>
  func.return
}

// Values are shuffled between the threads of a warp one word at a time.
// PTX-LABEL: .visible .entry shuffles(
// PTX:         shfl.sync.bfly.b32 {{.*}}, {{.*}}, 16, 31, -1;
// PTX-COUNT-2: shfl.sync.bfly.b32 {{.*}}, {{.*}}, 8, 31, -1;
// PTX:         shfl.sync.bfly.b32 {{.*}}, {{.*}}, 4, 31, -1;
func.func private @shuffles(%a: memref<64xf32>, %b: memref<64xf64>, %c: memref<64xi8>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 64, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %i = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
  %0 = memref.load %a[%i] : memref<64xf32>
  %1 = simt.shuffle %0 xor 16 : f32
  memref.store %1, %a[%i] : memref<64xf32>
  %2 = memref.load %b[%i] : memref<64xf64>
  %3 = simt.shuffle %2 xor 8 : f64
  memref.store %3, %b[%i] : memref<64xf64>
  %4 = memref.load %c[%i] : memref<64xi8>
  %5 = simt.shuffle %4 xor 4 : i8
  memref.store %5, %c[%i] : memref<64xi8>
  func.return
}

// A large launch has as many blocks on a multiprocessor as ptxas finds good.
// CHECK:      define ptx_kernel void @many_blocks({{.*}}) nounwind "nvvm.reqntid"="64,1,1" {
func.func private @many_blocks(%x: memref<4xf32>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 64, 1, 1>, gpu.known_grid_size = array<i32: 4096, 1, 1>} {
  func.return
}

// A maximum is one instruction, which keeps NaN or not, and so is rounding to bf16. The maximum of
// bf16 values is one of them, and needs no rounding.
// PTX-LABEL: .visible .entry maxima(
// PTX:         max.NaN.f32
// PTX-NOT:     cvt.rn
// PTX:         max.f32
// PTX:         cvt.rn.bf16.f32
// PTX-NOT:     setp.nan
// PTX:         ret;
func.func private @maxima(%a: memref<4xbf16>, %x: memref<2xf32>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 1, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %0 = memref.load %a[%c0] : memref<4xbf16>
  %1 = memref.load %a[%c1] : memref<4xbf16>
  %2 = arith.maximumf %0, %1 : bf16
  memref.store %2, %a[%c2] : memref<4xbf16>
  %3 = memref.load %x[%c0] : memref<2xf32>
  %4 = memref.load %x[%c1] : memref<2xf32>
  %5 = arith.maxnumf %3, %4 : f32
  %6 = arith.truncf %5 : f32 to bf16
  memref.store %6, %a[%c0] : memref<4xbf16>
  func.return
}
