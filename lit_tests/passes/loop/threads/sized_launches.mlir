// RUN: tcopt %s -p lower-blocks,split-launches --split-input-file | filecheck %s
// RUN: tcopt %s -p lower-blocks,split-launches,lower-loop-to-kernel --split-input-file | filecheck %s --check-prefix=KERNEL

// The number of blocks follows from a size, and each launch takes the sizes that it uses.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK:       loop.func @f_0(%x: memref<20xf32, #size.dims<s0[1:20]>>, %s0: index) attributes {size.symbols = #size.dims<s0[1:20]>} {
// CHECK-NEXT:    %0 = loop.index [(%s0 + 3) floordiv 4]
// CHECK-NEXT:    loop.for %i = 0 to 5 limit %0 thread blockIdx.x {
// CHECK-NEXT:      loop.for %t = 0 to 4 thread threadIdx.x {
// CHECK-NEXT:        loop.guard ([%i * -4 + %t * -1 + %s0 - 1] in 20) {
// CHECK:       loop.func @f_1(%y: memref<9x4xf32, #size.dims<s1[0:9], 4>>, %s1: index) attributes {size.symbols = #size.dims<s1[0:9]>} {
// CHECK-NEXT:    loop.for %i = 0 to 9 limit %s1 thread blockIdx.x {
// CHECK-NEXT:      loop.for %t = 0 to 4 thread threadIdx.x {
// CHECK-NEXT:        arith.constant
// KERNEL:      func.func private @f_0(%x: memref<?xf32>, %s0: index) attributes {{.*}}gpu.known_grid_size = array<i32: 5, 1, 1>{{.*}}size.grid = #size.dims<(s0[1:20] + 3) floordiv 4, 1, 1>
// KERNEL:      func.func private @f_1(%y: memref<?x4xf32>, %s1: index) attributes {{.*}}gpu.known_grid_size = array<i32: 9, 1, 1>{{.*}}size.grid = #size.dims<s1[0:9], 1, 1>
// KERNEL-NOT:    scf.if
loop.func @f(%x: memref<20xf32, #size.dims<s0[1:20]>>, %y: memref<9x4xf32, #size.dims<s1[0:9], 4>>, %s0: index, %s1: index) attributes {size.symbols = #size.dims<s0[1:20], s1[0:9]>} {
  loop.for %i = 0 to 5 thread blockIdx.x {
    loop.for %t = 0 to 4 thread threadIdx.x {
      loop.block "x" (%v: spatial s0[1:20] = %i * 4 + %t) {
        %a = arith.constant 1.0 : f32
        loop.store %a, %x[%v] : memref<20xf32, #size.dims<s0[1:20]>>
      }
    }
  }
  loop.for %i = 0 to 9 thread blockIdx.x {
    loop.for %t = 0 to 4 thread threadIdx.x {
      loop.block "y" (%v: spatial s1[0:9] = %i, %w: spatial 4 = %t) {
        %a = arith.constant 2.0 : f32
        loop.store %a, %y[%v, %w] : memref<9x4xf32, #size.dims<s1[0:9], 4>>
      }
    }
  }
}
// CHECK:       loop.call @f_0(%x) sizes <n[1:20]>
// CHECK-NEXT:  loop.call @f_1(%y) sizes <m[0:9]>
// KERNEL:      func.call @f_0(%x, %n)
// KERNEL-NEXT: func.call @f_1(%y, %m)
func.func @main(%x: memref<20xf32, #size.dims<n[1:20]>>, %y: memref<9x4xf32, #size.dims<m[0:9], 4>>, %n: index, %m: index) attributes {size.symbols = #size.dims<n[1:20], m[0:9]>} {
  loop.call @f(%x, %y) sizes <n[1:20], m[0:9]> : memref<20xf32, #size.dims<n[1:20]>>, memref<9x4xf32, #size.dims<m[0:9], 4>>
  func.return
}
}

// -----

// A grid that may exceed the limit along y is launched along x, with as many blocks as the sizes need.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @folded
// CHECK-NEXT:    loop.for %i = 0 to 70000 limit %s0 thread blockIdx.y {
// CHECK-NEXT:      loop.for %j = 0 to 3 thread blockIdx.x {
// KERNEL-LABEL: func.func private @folded
// KERNEL-SAME:    gpu.known_grid_size = array<i32: 210000, 1, 1>
// KERNEL-SAME:    size.grid = #size.dims<3 * s0[0:70000], 1, 1>
// KERNEL-NEXT:    %[[n:.*]] = "gpu.block_id"()
// KERNEL:         %[[y:.*]] = arith.divui %[[n]], %c3
// KERNEL-NEXT:    %[[x:.*]] = arith.remui %[[n]], %c3
// KERNEL:         memref.store %{{.*}}, %x[%[[y]], %[[x]]]
loop.func @folded(%x: memref<70000x3xf32, #size.dims<s0[0:70000], 3>>, %s0: index) attributes {size.symbols = #size.dims<s0[0:70000]>} {
  loop.for %i = 0 to 70000 thread blockIdx.y {
    loop.for %j = 0 to 3 thread blockIdx.x {
      loop.block "x" (%v: spatial s0[0:70000] = %i, %w: spatial 3 = %j) {
        %a = arith.constant 1.0 : f32
        loop.store %a, %x[%v, %w] : memref<70000x3xf32, #size.dims<s0[0:70000], 3>>
      }
    }
  }
}
}

// -----

// A loop with barriers has no limit that differs between threads.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @shared
// CHECK:         loop.for %k = 0 to 5 {
loop.func @shared(%x: memref<20xf32, #size.dims<s0[1:20]>>, %y: memref<20xf32, #size.dims<s0[1:20]>>, %s0: index) attributes {size.symbols = #size.dims<s0[1:20]>} {
  loop.for %b = 0 to 1 thread blockIdx.x {
    %t = loop.alloc shared : memref<4xf32>
    loop.for %i = 0 to 4 thread threadIdx.x {
      loop.for %k = 0 to 5 {
        loop.block "x" (%v: spatial s0[1:20] = %k * 4 + %i, %w: spatial 4 = %i) {
          %a = loop.load %x[%v] : memref<20xf32, #size.dims<s0[1:20]>>
          loop.store %a, %t[%w] : memref<4xf32>
          %c = loop.load %t[%w] : memref<4xf32>
          loop.store %c, %y[%v] : memref<20xf32, #size.dims<s0[1:20]>>
        }
      }
    }
  }
}
}
