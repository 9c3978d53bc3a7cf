// RUN: tcopt %s -p double-buffer --split-input-file | filecheck %s

// The next tile is loaded before the current one is used, and stored after.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @next
// CHECK:       %s = loop.alloc shared : memref<2x16xf32>
// CHECK-NEXT:  loop.for %t = 0 to 16 thread threadIdx.x {
// CHECK-NEXT:    loop.for %c = 0 to 16 thread threadIdx.x {
// CHECK-NEXT:      %a = loop.load %x[%c]
// CHECK-NEXT:      loop.store %a, %s[0, %c]
// CHECK:         loop.for %k = 0 to 4 {
// CHECK-NEXT:      %s_next = loop.alloc register : memref<16xf32>
// CHECK-NEXT:      loop.guard ([%k + 1] in 4) {
// CHECK-NEXT:        loop.for %c = 0 to 16 thread threadIdx.x {
// CHECK-NEXT:          %a = loop.load %x[%k * 16 + %c + 16]
// CHECK-NEXT:          loop.store %a, %s_next[%c]
// CHECK:           %b = loop.load %s[%k mod 2, %t * -1 + 15]
// CHECK-NEXT:      loop.guard ([%k + 1] in 4) {
// CHECK-NEXT:        loop.for %c = 0 to 16 thread threadIdx.x {
// CHECK-NEXT:          [[N:%.*]] = loop.load %s_next[%c]
// CHECK-NEXT:          loop.store [[N]], %s[(%k + 1) mod 2, %c]
// CHECK:           loop.store %b, %y
loop.func @next(%x: memref<64xf32>, %y: memref<64xf32>) {
  %s = loop.alloc shared {double_buffer} : memref<16xf32>
  loop.for %t = 0 to 16 thread threadIdx.x {
    loop.for %k = 0 to 4 {
      loop.for %c = 0 to 16 thread threadIdx.x {
        %a = loop.load %x[%k * 16 + %c] : memref<64xf32>
        loop.store %a, %s[%c] : memref<16xf32>
      }
      %b = loop.load %s[15 - %t] : memref<16xf32>
      loop.store %b, %y[%k * 16 + %t] : memref<64xf32>
    }
  }
}
}

// -----

// A buffer that is read before it is filled is not double-buffered.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @before
// CHECK:       %s = loop.alloc shared : memref<16xf32>
loop.func @before(%x: memref<64xf32>, %y: memref<64xf32>) {
  %s = loop.alloc shared {double_buffer} : memref<16xf32>
  loop.for %t = 0 to 16 thread threadIdx.x {
    loop.for %k = 0 to 4 {
      %b = loop.load %s[15 - %t] : memref<16xf32>
      loop.store %b, %y[%k * 16 + %t] : memref<64xf32>
      loop.for %c = 0 to 16 thread threadIdx.x {
        %a = loop.load %x[%k * 16 + %c] : memref<64xf32>
        loop.store %a, %s[%c] : memref<16xf32>
      }
    }
  }
}
}
