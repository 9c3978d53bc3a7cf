// RUN: tcopt %s -p split-launches --split-input-file --verify-diagnostics | filecheck %s

// Each outermost nest becomes a function with its inputs as arguments, and a call takes its place.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK:      loop.func @f_0(%x: memref<8xf32>, %t: memref<8xf32>) {
// CHECK-NEXT:   loop.for %i = 0 to 8 thread threadIdx.x {
// CHECK-NEXT:     loop.load %x[%i]
// CHECK:      loop.func @f_1(%y: memref<8xf32>, %t: memref<8xf32>) {
// CHECK-NEXT:   loop.for %i = 0 to 8 thread threadIdx.x {
// CHECK-NEXT:     loop.load %t[%i * -1 + 7]
loop.func @f(%x: memref<8xf32>, %y: memref<8xf32>, %t: memref<8xf32>) {
  loop.for %i = 0 to 8 thread threadIdx.x {
    %a = loop.load %x[%i] : memref<8xf32>
    loop.store %a, %t[%i] : memref<8xf32>
  }
  loop.for %i = 0 to 8 thread threadIdx.x {
    %a = loop.load %t[7 - %i] : memref<8xf32>
    loop.store %a, %y[%i] : memref<8xf32>
  }
}
// CHECK:      func.func @main
// CHECK-NEXT:   loop.call @f_0(%x, %t)
// CHECK-NEXT:   loop.call @f_1(%y, %t)
// CHECK-NEXT:   func.return
func.func @main(%x: memref<8xf32>, %y: memref<8xf32>, %t: memref<8xf32>) {
  loop.call @f(%x, %y, %t) : memref<8xf32>, memref<8xf32>, memref<8xf32>
  func.return
}
}

// -----

// A function with one nest keeps its name.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK: loop.func @g(%x: memref<8xf32>) {
loop.func @g(%x: memref<8xf32>) {
  loop.for %i = 0 to 8 thread threadIdx.x {
    %a = loop.load %x[%i] : memref<8xf32>
    loop.store %a, %x[%i] : memref<8xf32>
  }
}
}

// -----

// On a CPU functions are not split into launches.
// CHECK: loop.func @h(%x: memref<8xf32>) {
loop.func @h(%x: memref<8xf32>) {
  loop.for %i = 0 to 8 {
    %a = loop.load %x[%i] : memref<8xf32>
    loop.store %a, %x[%i] : memref<8xf32>
  }
  loop.for %i = 0 to 8 {
    %a = loop.load %x[%i] : memref<8xf32>
    loop.store %a, %x[7 - %i] : memref<8xf32>
  }
}

// -----

// Shared memory does not outlive the launch.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK: a buffer of scope shared is used by several launches
loop.func @k(%x: memref<8xf32>, %y: memref<8xf32>) {
  %t = loop.alloc shared : memref<8xf32>
  loop.for %i = 0 to 8 thread threadIdx.x {
    %a = loop.load %x[%i] : memref<8xf32>
    loop.store %a, %t[%i] : memref<8xf32>
  }
  loop.for %i = 0 to 8 thread threadIdx.x {
    %a = loop.load %t[%i] : memref<8xf32>
    loop.store %a, %y[%i] : memref<8xf32>
  }
}
}

// -----

// Nests and stores without threads stay together with the register they share; a threaded nest in
// between is a launch of its own.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK:      loop.func @m_0(%x: memref<8xf32>, %y: memref<8xf32>) {
// CHECK-NEXT:   %sum = loop.alloc register : memref<1xf32>
// CHECK:        loop.store %{{.*}}, %sum[0]
// CHECK:        loop.for %i = 0 to 8 {
// CHECK:        loop.for %{{.*}} = 0 to 8 {
// CHECK:      loop.func @m_1(%x: memref<8xf32>, %y: memref<8xf32>) {
// CHECK-NEXT:   loop.for %i = 0 to 8 thread threadIdx.x {
// CHECK:      loop.func @m_2(%y: memref<8xf32>) {
// CHECK:        loop.for %i = 0 to 8 {
loop.func @m(%x: memref<8xf32>, %y: memref<8xf32>) {
  %sum = loop.alloc register : memref<1xf32>
  %zero = arith.constant 0.0 : f32
  loop.store %zero, %sum[0] : memref<1xf32>
  loop.for %i = 0 to 8 {
    %a = loop.load %x[%i] : memref<8xf32>
    %b = loop.load %sum[0] : memref<1xf32>
    %c = arith.addf %a, %b : f32
    loop.store %c, %sum[0] : memref<1xf32>
  }
  loop.for %i = 0 to 8 {
    %b = loop.load %sum[0] : memref<1xf32>
    loop.store %b, %y[%i] : memref<8xf32>
  }
  loop.for %i = 0 to 8 thread threadIdx.x {
    %a = loop.load %y[%i] : memref<8xf32>
    loop.store %a, %x[%i] : memref<8xf32>
  }
  loop.for %i = 0 to 8 {
    loop.store %zero, %y[%i] : memref<8xf32>
  }
}
func.func @main(%x: memref<8xf32>, %y: memref<8xf32>) {
  loop.call @m(%x, %y) : memref<8xf32>, memref<8xf32>
  func.return
}
}

// -----

// A load with users in a later launch would read what the launch in between wrote.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK: a launch uses a value that was loaded before another launch writes it
loop.func @n(%x: memref<8xf32>, %y: memref<8xf32>) {
  %a = loop.load %x[0] : memref<8xf32>
  loop.for %i = 0 to 8 thread threadIdx.x {
    %b = loop.load %y[%i] : memref<8xf32>
    loop.store %b, %x[%i] : memref<8xf32>
  }
  loop.for %i = 0 to 8 thread threadIdx.x {
    loop.store %a, %y[%i] : memref<8xf32>
  }
}
}
