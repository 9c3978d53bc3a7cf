// RUN: tcopt %s --split-input-file -p lower-te-to-loop,schedule,apply-schedule,compact-buffers,lower-blocks,lower-thread-reductions,insert-barriers,vectorize,unroll-loops,split-launches,lower-loop-to-kernel,promote-registers,check-races | filecheck %s

// If threads of a warp exchange values by shuffles, only one value per warp goes through shared
// memory.
// CHECK-LABEL:    func.func private @mean({{.*}} gpu.known_block_size = array<i32: 64, 1, 1>
// CHECK:            %s_register_parts = memref.alloca() {{.*}} : memref<2xf32, 3 : i64>
// CHECK-COUNT-5:    simt.shuffle
// CHECK-NOT:        simt.shuffle
// CHECK:            gpu.barrier
// CHECK:            simt.shuffle {{.*}} xor 1
// CHECK-NOT:        gpu.barrier
module attributes {tcopt.target = #target.gpu<api = "cuda", warp = 32, max_threads = 64, registers = 64, shared = 4096, vector_bits = 128, cores = 1>} {
te.func @mean(%x: tensor<5x512xf32>) -> tensor<5xf32> {
  %s = te.compute "sum" [%i = 5] reduce [%k = 512] sum : tensor<5xf32> {
    %0 = te.read %x[%i, %k] : tensor<5x512xf32>
    te.yield %0 : f32
  }
  te.return %s : tensor<5xf32>
}
}

// -----

// Unsigned values are shuffled like all others.
// CHECK-LABEL:    func.func private @most
// CHECK-COUNT-5:    simt.shuffle
// CHECK:            gpu.barrier
// CHECK:            simt.shuffle {{.*}} xor 1
// CHECK-NEXT:       arith.maxui
module attributes {tcopt.target = #target.gpu<api = "cuda", warp = 32, max_threads = 64, registers = 64, shared = 4096, vector_bits = 128, cores = 1>} {
te.func @most(%x: tensor<5x2048xi8>) -> tensor<5xi8> {
  %s = te.compute "most" [%i = 5] reduce [%k = 2048] umax : tensor<5xi8> {
    %0 = te.read %x[%i, %k] : tensor<5x2048xi8>
    te.yield %0 : i8
  }
  te.return %s : tensor<5xi8>
}
}
