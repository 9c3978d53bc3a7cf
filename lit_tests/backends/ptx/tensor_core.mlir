// REQUIRES: long
// RUN: tcopt %s -p lower-te-to-loop,schedule,apply-schedule,lower-intrinsics,compact-buffers,align-storage,lower-blocks,distribute-warp,double-buffer,insert-barriers,vectorize,unroll-loops,hoist-workspace,split-launches,lower-loop-to-kernel,promote-registers,dce -t ptx --split-input-file | filecheck %s

// From a tensor expression to tensor cores: 16-byte copies to shared memory, fragments of both
// factors loaded from there, and sums kept in registers until they are stored in pairs.
// CHECK-LABEL: .target sm_75
// CHECK:       st.shared.v4.b32
// CHECK:       bar.sync
// CHECK:       ldmatrix.sync.aligned.m8n8.x2.shared.b16
// CHECK:       ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16
// CHECK:       mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32
// CHECK-NOT:   ld.shared
// CHECK:       st.global
module attributes {tcopt.target = #target.gpu<api = "cuda", arch = "sm_75", features = "ptx78,mma_f16,mma_s8,ldmatrix", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128, cores = 1>} {
te.func @product(%x: tensor<40x64xf16>, %w: tensor<64x32xf16>) -> tensor<40x32xf32> {
  %m = te.compute "product" [%i = 40, %j = 32] reduce [%k = 64] sum : tensor<40x32xf32> {
    %0 = te.read %x[%i, %k] : tensor<40x64xf16>
    %1 = arith.extf %0 : f16 to f32
    %2 = te.read %w[%k, %j] : tensor<64x32xf16>
    %3 = arith.extf %2 : f16 to f32
    %4 = arith.mulf %1, %3 : f32
    te.yield %4 : f32
  }
  te.return %m : tensor<40x32xf32>
}
}

// -----

// Later devices have matrix instructions with a longer reduction, and bf16.
// CHECK-LABEL: .target sm_90
// CHECK:       ldmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK:       ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16
// CHECK:       mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
module attributes {tcopt.target = #target.gpu<api = "cuda", arch = "sm_90", features = "ptx78,mma_f16,mma_s8,ldmatrix,mma_bf16", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128, cores = 1>} {
te.func @product(%x: tensor<40x64xbf16>, %w: tensor<64x32xbf16>) -> tensor<40x32xf32> {
  %m = te.compute "product" [%i = 40, %j = 32] reduce [%k = 64] sum : tensor<40x32xf32> {
    %0 = te.read %x[%i, %k] : tensor<40x64xbf16>
    %1 = arith.extf %0 : bf16 to f32
    %2 = te.read %w[%k, %j] : tensor<64x32xbf16>
    %3 = arith.extf %2 : bf16 to f32
    %4 = arith.mulf %1, %3 : f32
    te.yield %4 : f32
  }
  te.return %m : tensor<40x32xf32>
}
}
