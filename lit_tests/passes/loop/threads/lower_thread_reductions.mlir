// RUN: tcopt %s -p lower-thread-reductions --split-input-file --verify-diagnostics | filecheck %s

// A tree in shared memory: five terms take three steps.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 8, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @tree
// CHECK:       %y_parts = loop.alloc shared : memref<5xf32>
// CHECK-NEXT:  loop.for %t = 0 to 5 thread threadIdx.x {
// CHECK-NEXT:    [[A:%.*]] = loop.load %x[%t]
// CHECK-NEXT:    loop.store [[A]], %y_parts[%t]
// CHECK:       loop.for %t = 0 to 2 thread threadIdx.x {
// CHECK-NEXT:    {{.*}} = loop.load %y_parts[%t]
// CHECK-NEXT:    {{.*}} = loop.load %y_parts[%t + 3]
// CHECK-NEXT:    {{.*}} = arith.addf
// CHECK-NEXT:    loop.store {{.*}}, %y_parts[%t]
// CHECK:       loop.for %t = 0 to 1 thread threadIdx.x {
// CHECK:         {{.*}} = loop.load %y_parts[%t + 2]
// CHECK:       loop.for %t = 0 to 1 thread threadIdx.x {
// CHECK:         {{.*}} = loop.load %y_parts[%t + 1]
// CHECK:       loop.for %t = 0 to 1 thread threadIdx.x {
// CHECK-NEXT:    {{.*}} = loop.load %y_parts[0]
// CHECK-NEXT:    {{.*}} = arith.constant 0.000000e+00
// CHECK-NEXT:    {{.*}} = arith.addf
// CHECK-NEXT:    loop.store {{.*}}, %y[0]
loop.func @tree(%x: memref<5xf32>, %y: memref<1xf32>) {
  loop.for %b = 0 to 1 thread blockIdx.x {
    loop.for %t = 0 to 5 thread threadIdx.x {
      loop.guard ([%t] in 1) {
        %zero = arith.constant 0.0 : f32
        loop.store %zero, %y[0] : memref<1xf32>
      }
      %a = loop.load %x[%t] : memref<5xf32>
      %o = loop.load %y[0] : memref<1xf32>
      %n = arith.addf %o, %a fastmath<reassoc> : f32
      loop.store %n, %y[0] : memref<1xf32>
    }
  }
}
}

// -----

// Within a warp, threads exchange values by shuffles.
module attributes {tcopt.target = #target.gpu<api = "opencl", features = "shuffle", warp = 8, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @warp
// CHECK-NOT:   shared
// CHECK:       loop.for %t = 0 to 4 thread threadIdx.x {
// CHECK-NEXT:    [[A:%.*]] = loop.load %x[%t]
// CHECK-NEXT:    [[B:%.*]] = simt.shuffle [[A]] xor 2 : f32
// CHECK-NEXT:    [[C:%.*]] = arith.addf [[A]], [[B]]
// CHECK-NEXT:    [[D:%.*]] = simt.shuffle [[C]] xor 1 : f32
// CHECK-NEXT:    [[E:%.*]] = arith.addf [[C]], [[D]]
// CHECK-NEXT:    loop.guard ([%t] in 1) {
loop.func @warp(%x: memref<4xf32>, %y: memref<1xf32>) {
  loop.for %b = 0 to 1 thread blockIdx.x {
    loop.for %t = 0 to 4 thread threadIdx.x {
      loop.guard ([%t] in 1) {
        %zero = arith.constant 0.0 : f32
        loop.store %zero, %y[0] : memref<1xf32>
      }
      %a = loop.load %x[%t] : memref<4xf32>
      %o = loop.load %y[0] : memref<1xf32>
      %n = arith.addf %o, %a fastmath<reassoc> : f32
      loop.store %n, %y[0] : memref<1xf32>
    }
  }
}
}

// -----

// The partial results of warps go through shared memory and are combined by one more step.
module attributes {tcopt.target = #target.gpu<api = "opencl", features = "shuffle", warp = 8, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @warps
// CHECK:       %y_parts = loop.alloc shared : memref<4xf32>
// CHECK:       loop.for %t = 0 to 32 thread threadIdx.x {
// CHECK:         {{.*}} = simt.shuffle {{.*}} xor 4
// CHECK:         {{.*}} = simt.shuffle {{.*}} xor 2
// CHECK:         {{.*}} = simt.shuffle {{.*}} xor 1
// CHECK:         loop.guard ([%t mod 8] in 1) {
// CHECK-NEXT:      loop.store {{.*}}, %y_parts[%t floordiv 8]
// CHECK:       loop.for %t = 0 to 32 thread threadIdx.x {
// CHECK-NEXT:    {{.*}} = loop.load %y_parts[%t mod 4]
// CHECK:         {{.*}} = simt.shuffle {{.*}} xor 2
// CHECK:         {{.*}} = simt.shuffle {{.*}} xor 1
// CHECK:         loop.guard ([%t] in 1) {
loop.func @warps(%x: memref<32xf32>, %y: memref<1xf32>) {
  loop.for %b = 0 to 1 thread blockIdx.x {
    loop.for %t = 0 to 32 thread threadIdx.x {
      loop.guard ([%t] in 1) {
        %zero = arith.constant 0.0 : f32
        loop.store %zero, %y[0] : memref<1xf32>
      }
      %a = loop.load %x[%t] : memref<32xf32>
      %o = loop.load %y[0] : memref<1xf32>
      %n = arith.addf %o, %a fastmath<reassoc> : f32
      loop.store %n, %y[0] : memref<1xf32>
    }
  }
}
}

// -----

// Iterations that update different elements are not a reduction.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 8, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @apart
// CHECK-NEXT:  loop.for %b = 0 to 1 thread blockIdx.x {
// CHECK-NEXT:    loop.for %t = 0 to 5 thread threadIdx.x {
// CHECK-NEXT:      loop.guard ([%t] in 1) {
loop.func @apart(%x: memref<5xf32>, %y: memref<5xf32>) {
  loop.for %b = 0 to 1 thread blockIdx.x {
    loop.for %t = 0 to 5 thread threadIdx.x {
      loop.guard ([%t] in 1) {
        %zero = arith.constant 0.0 : f32
        loop.store %zero, %y[%t] : memref<5xf32>
      }
      %a = loop.load %x[%t] : memref<5xf32>
      %o = loop.load %y[%t] : memref<5xf32>
      %n = arith.addf %o, %a fastmath<reassoc> : f32
      loop.store %n, %y[%t] : memref<5xf32>
    }
  }
}
}

// -----

// A sum in private registers is not a sum over threads.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 8, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK: threads combine their values in %r, which is private to each thread
loop.func @private(%x: memref<5xf32>, %y: memref<1xf32>) {
  %r = loop.alloc register : memref<1xf32>
  loop.for %b = 0 to 1 thread blockIdx.x {
    loop.for %t = 0 to 5 thread threadIdx.x {
      loop.guard ([%t] in 1) {
        %zero = arith.constant 0.0 : f32
        loop.store %zero, %r[0] : memref<1xf32>
      }
      %a = loop.load %x[%t] : memref<5xf32>
      %o = loop.load %r[0] : memref<1xf32>
      %n = arith.addf %o, %a fastmath<reassoc> : f32
      loop.store %n, %r[0] : memref<1xf32>
    }
  }
}
}

// -----

// A float sum whose term order is fixed cannot be reduced by threads.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 8, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK: threads would combine their values in pairs: arith.addf has no fastmath<reassoc>
loop.func @exact(%x: memref<5xf32>, %y: memref<1xf32>) {
  loop.for %b = 0 to 1 thread blockIdx.x {
    loop.for %t = 0 to 5 thread threadIdx.x {
      loop.guard ([%t] in 1) {
        %zero = arith.constant 0.0 : f32
        loop.store %zero, %y[0] : memref<1xf32>
      }
      %a = loop.load %x[%t] : memref<5xf32>
      %o = loop.load %y[0] : memref<1xf32>
      %n = arith.addf %o, %a : f32
      loop.store %n, %y[0] : memref<1xf32>
    }
  }
}
}

// -----

// Threads without a term contribute the neutral element.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 8, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @own_conditions
// CHECK:         loop.for %t = 0 to 2 thread threadIdx.x {
// CHECK-NEXT:      %[[own:.*]] = loop.alloc register : memref<1xf32>
// CHECK-NEXT:      %[[least:.*]] = arith.constant 0xff800000 : f32
// CHECK-NEXT:      loop.store %[[least]], %[[own]][0]
// CHECK-NEXT:      loop.guard ([%s0 + %t * -1 - 1] in 2) {
// CHECK-NEXT:        %[[x:.*]] = loop.load %x[%t]
// CHECK-NEXT:        loop.store %[[x]], %[[own]][0]
// CHECK-NEXT:      }
// CHECK-NEXT:      %[[term:.*]] = loop.load %[[own]][0]
// CHECK-NEXT:      loop.store %[[term]], %{{.*}}[%t]
loop.func @own_conditions(%x: memref<2xf32, #size.dims<s0[0:2]>>, %y: memref<1xf32>, %s0: index) attributes {size.symbols = #size.dims<s0[0:2]>} {
  loop.for %b = 0 to 1 thread blockIdx.x {
    loop.for %t = 0 to 2 thread threadIdx.x {
      loop.guard ([%s0 - %t - 1] in 2) {
        %a = loop.load %x[%t] : memref<2xf32, #size.dims<s0[0:2]>>
        %o = loop.load %y[0] : memref<1xf32>
        %n = arith.maximumf %o, %a : f32
        loop.store %n, %y[0] : memref<1xf32>
      }
    }
  }
}
}
