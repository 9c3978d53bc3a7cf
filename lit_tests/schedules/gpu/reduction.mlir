// RUN: tcopt %s -p lower-te-to-loop,schedule,apply-schedule,compact-buffers,lower-blocks,insert-barriers --split-input-file | filecheck %s
// RUN: tcopt %s -p lower-te-to-loop,schedule,apply-schedule,compact-buffers,align-storage,lower-blocks,insert-barriers,vectorize,unroll-loops,hoist-workspace,split-launches,lower-loop-to-kernel,promote-registers,check-races --split-input-file | filecheck %s --check-prefix=KERNEL

// A block of threads a row: each has its share of every step, and they meet in shared memory.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 4, max_threads = 64, registers = 64, shared = 4096, vector_bits = 128, cores = 1>} {
te.func @softmax(%x: tensor<5x150xf32>) -> tensor<5x150xf32> {
  %m = te.compute "max" [%i = 5] reduce [%k = 150] max : tensor<5xf32> {
    %0 = te.read %x[%i, %k] : tensor<5x150xf32>
    te.yield %0 : f32
  }
  %e = te.compute "exp" [%i = 5, %j = 150] : tensor<5x150xf32> {
    %0 = te.read %x[%i, %j] : tensor<5x150xf32>
    %1 = te.read %m[%i] : tensor<5xf32>
    %2 = arith.subf %0, %1 : f32
    %3 = math.exp %2 : f32
    te.yield %3 : f32
  }
  %s = te.compute "sum" [%i = 5] reduce [%k = 150] sum : tensor<5xf32> {
    %0 = te.read %e[%i, %k] : tensor<5x150xf32>
    te.yield %0 : f32
  }
  %y = te.compute "quotient" [%i = 5, %j = 150] : tensor<5x150xf32> {
    %0 = te.read %e[%i, %j] : tensor<5x150xf32>
    %1 = te.read %s[%i] : tensor<5xf32>
    %2 = arith.divf %0, %1 : f32
    te.yield %2 : f32
  }
  te.return %y : tensor<5x150xf32>
}
}

// -----

// A window has a thread of its own.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 4, max_threads = 64, registers = 64, shared = 4096, vector_bits = 128, cores = 1>} {
te.func @pool(%x: tensor<9x9xf32>) -> tensor<7x7xf32> {
  %m = te.compute "max" [%i = 7, %j = 7] reduce [%ry = 3, %rx = 3] max : tensor<7x7xf32> {
    %0 = te.read %x[%i + %ry, %j + %rx] : tensor<9x9xf32>
    te.yield %0 : f32
  }
  te.return %m : tensor<7x7xf32>
}
}
