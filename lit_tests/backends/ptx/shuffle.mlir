// RUN: tcopt %s -t ptx | filecheck %s

// Threads of a warp exchange values by shuffles.
// CHECK: .entry shuffle(
// CHECK: shfl.sync.bfly.b32 {{.*}}, 4, 31, -1;
module attributes {tcopt.target = #target.gpu<api = "cuda", arch = "sm_80", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
func.func private @shuffle(%x: memref<32xf32>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 32, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %thread = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
  %0 = memref.load %x[%thread] : memref<32xf32>
  %1 = simt.shuffle %0 xor 4 : f32
  %2 = arith.addf %0, %1 : f32
  memref.store %2, %x[%thread] : memref<32xf32>
  func.return
}
}
