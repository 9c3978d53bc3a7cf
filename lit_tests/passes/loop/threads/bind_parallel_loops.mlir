// RUN: tcopt %s -p 'set-target{gpu=opencl},bind-parallel-loops' --split-input-file | filecheck %s

// Iterations of nested parallel loops become threads; excess threads of the last block are idle.
// CHECK:      loop.for %block = 0 to 2 thread blockIdx.x {
// CHECK-NEXT:   loop.for %thread = 0 to 64 thread threadIdx.x {
// CHECK-NEXT:     loop.guard ([%block * 64 + %thread] in 100) {
// CHECK:            %i = loop.index [(%block * 64 + %thread) floordiv 5]
// CHECK:            %j = loop.index [(%block * 64 + %thread) mod 5]
// CHECK-NEXT:       loop.for %k = 0 to 3 {
// CHECK:              loop.load %x[%i, %j, %k]
loop.func @nest(%x: memref<20x5x3xf32>, %y: memref<20x5x3xf32>) {
  loop.for %i = 0 to 20 parallel {
    loop.for %j = 0 to 5 parallel {
      loop.for %k = 0 to 3 {
        %0 = loop.load %x[%i, %j, %k] : memref<20x5x3xf32>
        loop.store %0, %y[%i, %j, %k] : memref<20x5x3xf32>
      }
    }
  }
}

// -----

// A short loop uses one thread per iteration. A serial loop, and a parallel one inside it, are not
// bound.
// CHECK-LABEL: @few
// CHECK:       loop.for %block = 0 to 1 thread blockIdx.x {
// CHECK-NEXT:    loop.for %thread = 0 to 8 thread threadIdx.x {
// CHECK-NOT:     loop.guard
// CHECK:       loop.for %i = 0 to 8 {
// CHECK-NEXT:    loop.for %j = 0 to 8 parallel {
loop.func @few(%x: memref<8x8xf32>, %y: memref<8x8xf32>) {
  loop.for %i = 0 to 8 parallel {
    %0 = loop.load %x[%i, 0] : memref<8x8xf32>
    loop.store %0, %y[%i, 0] : memref<8x8xf32>
  }
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 8 parallel {
      %0 = loop.load %x[%i, %j] : memref<8x8xf32>
      loop.store %0, %y[%i, %j] : memref<8x8xf32>
    }
  }
}
