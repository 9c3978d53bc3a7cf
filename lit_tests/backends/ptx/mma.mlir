// RUN: tcopt %s -t ptx | filecheck %s

module attributes {tcopt.target = #target.gpu<api = "cuda", arch = "sm_80", features = "ptx78", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {

// Fragments are loaded from rows of shared memory and multiplied by the warp.
// CHECK: .entry rows(
// CHECK-NOT: ld.shared
// CHECK: ldmatrix.sync.aligned.m8n8.x4.shared.b16 {[[A:.*]]}, [
// CHECK: ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {[[B:.*]]}, [
// CHECK: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
// CHECK-NEXT: {{.*}},
// CHECK-NEXT: {[[A]]},
// CHECK-NEXT: {[[B]]},
func.func private @rows(%y: memref<32x4xf32>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 32, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %c0 = arith.constant 0 : index
  %lane = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
  %s = memref.alloca() : memref<32x8xf16, 3>
  %acc = vector.load %y[%lane, %c0] : memref<32x4xf32>, vector<4xf32>
  %0 = vector.load %s[%lane, %c0] : memref<32x8xf16, 3>, vector<8xf16>
  %a = simt.exchange_rows %0 : vector<8xf16> to vector<8xf16>
  %b = simt.exchange_rows transposed %0 : vector<8xf16> to vector<4xf16>
  %r = simt.mma_sync %acc, %a, %b shape [16, 8, 16] : vector<8xf16>, vector<4xf16> into vector<4xf32>
  vector.store %r, %y[%lane, %c0] : memref<32x4xf32>, vector<4xf32>
  func.return
}

// Products of bf16 on fragments that lanes load themselves.
// CHECK: .entry words(
// CHECK: mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32
func.func private @words(%x: memref<32x6xbf16>, %y: memref<32x4xf32>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 32, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %lane = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
  %acc = arith.constant dense<0.0> : vector<4xf32>
  %a = vector.load %x[%lane, %c0] : memref<32x6xbf16>, vector<4xbf16>
  %b = vector.load %x[%lane, %c4] : memref<32x6xbf16>, vector<2xbf16>
  %r = simt.mma_sync %acc, %a, %b shape [16, 8, 8] : vector<4xbf16>, vector<2xbf16> into vector<4xf32>
  vector.store %r, %y[%lane, %c0] : memref<32x4xf32>, vector<4xf32>
  func.return
}
}
