// RUN: tcopt %s -p lower-te-to-loop,schedule,apply-schedule,compact-buffers,lower-blocks --split-input-file | filecheck %s
// RUN: tcopt %s -p lower-te-to-loop,schedule --split-input-file | filecheck %s --check-prefix=RULE

// Each of two sums is distributed over threads separately; what follows runs in the threads that
// hold a sum.
// RULE: attributes {rule = "gpu-launches"
// CHECK:      loop.for %i_jo = 0 to 3 thread blockIdx.x {
// CHECK-NEXT:   loop.for %i_ji = 0 to 256 thread threadIdx.x {
// CHECK:          loop.alloc register : memref<1x1xf32>
// CHECK:          loop.guard ([%i_jo * 256 + %i_ji] in 600) {
// CHECK:            loop.for %ko = 0 to 35 {
// CHECK-NEXT:         loop.for %ki = 0 to 2 unrolled {
// CHECK:      loop.for %i_jo = 0 to 3 thread blockIdx.x {
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
te.func @f(%x: tensor<3x70xf32>, %w: tensor<70x200xf32>, %v: tensor<70x200xf32>) -> tensor<3x200xf32> {
  %m = te.compute "product" [%i = 3, %j = 200] reduce [%k = 70] sum : tensor<3x200xf32> {
    %0 = te.read %x[%i, %k] : tensor<3x70xf32>
    %1 = te.read %w[%k, %j] : tensor<70x200xf32>
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  }
  %n = te.compute "other" [%i = 3, %j = 200] reduce [%k = 70] sum : tensor<3x200xf32> {
    %0 = te.read %x[%i, %k] : tensor<3x70xf32>
    %1 = te.read %v[%k, %j] : tensor<70x200xf32>
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  }
  %y = te.compute "both" [%i0 = 3, %i1 = 200] : tensor<3x200xf32> {
    %0 = te.read %m[%i0, %i1] : tensor<3x200xf32>
    %3 = te.read %n[%i0, %i1] : tensor<3x200xf32>
    %1 = arith.addf %0, %3 : f32
    te.yield %1 : f32
  }
  te.return %y : tensor<3x200xf32>
}
}

// -----

// Small work uses small blocks, of at least one warp.
// CHECK:      loop.for %io = 0 to 1 thread blockIdx.x {
// CHECK-NEXT:   loop.for %ii = 0 to 32 thread threadIdx.x {
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
te.func @g(%x: tensor<20xf32>) -> tensor<20xf32> {
  %y = te.compute "twice" [%i = 20] : tensor<20xf32> {
    %0 = te.read %x[%i] : tensor<20xf32>
    %1 = arith.addf %0, %0 : f32
    te.yield %1 : f32
  }
  te.return %y : tensor<20xf32>
}
}

// -----

// A scalar is computed by a single block.
// CHECK:      loop.func @h
// CHECK-NEXT:   loop.for %uo = 0 to 1 thread blockIdx.x {
// CHECK:          loop.for %ki = 0 to 32 thread threadIdx.x {
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
te.func @h(%x: tensor<20xf32>) -> tensor<f32> {
  %y = te.compute "total" [] reduce [%k = 20] sum : tensor<f32> {
    %0 = te.read %x[%k] : tensor<20xf32>
    te.yield %0 : f32
  }
  te.return %y : tensor<f32>
}
}
