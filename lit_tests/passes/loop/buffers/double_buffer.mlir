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
  %s = loop.alloc shared {slots = 2 : i64} : memref<16xf32>
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
  %s = loop.alloc shared {slots = 2 : i64} : memref<16xf32>
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

// -----

// Asynchronous copies fill the slots of the next two iterations; after the last one they write zeros.
module attributes {tcopt.target = #target.gpu<api = "cuda", arch = "sm_80", features = "cp_async", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @ahead
// CHECK:       %s = loop.alloc shared {async} : memref<3x16xf32>
// CHECK-NEXT:  loop.for %t = 0 to 16 thread threadIdx.x {
// CHECK:           %a = loop.load %x[%c]
// CHECK-NEXT:      loop.store %a, %s[0, %c]
// CHECK:         simt.commit_copies
// CHECK:           %a = loop.load %x[%c + 16]
// CHECK-NEXT:      loop.store %a, %s[1, %c]
// CHECK:         simt.commit_copies
// CHECK-NEXT:    loop.for %k = 0 to 4 {
// CHECK-NEXT:      simt.wait_copies pending 1
// CHECK-NEXT:      loop.for %c = 0 to 16 thread threadIdx.x {
// CHECK-NEXT:        %a = loop.load %x[%k * 16 + %c + 32] else 0.000000e+00
// CHECK-NEXT:        loop.store %a, %s[(%k + 2) mod 3, %c]
// CHECK:           simt.commit_copies
// CHECK-NEXT:      %b = loop.load %s[%k mod 3, %t * -1 + 15]
loop.func @ahead(%x: memref<64xf32>, %y: memref<64xf32>) {
  %s = loop.alloc shared {slots = 3 : i64} : memref<16xf32>
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

// Asynchronous copies have at least four bytes. Others pass through registers.
module attributes {tcopt.target = #target.gpu<api = "cuda", arch = "sm_80", features = "cp_async", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
// CHECK-LABEL: loop.func @narrow
// CHECK:       %s = loop.alloc shared : memref<2x16xf16>
// CHECK:       %s_next = loop.alloc register : memref<16xf16>
loop.func @narrow(%x: memref<64xf16>, %y: memref<64xf16>) {
  %s = loop.alloc shared {slots = 3 : i64} : memref<16xf16>
  loop.for %t = 0 to 16 thread threadIdx.x {
    loop.for %k = 0 to 4 {
      loop.for %c = 0 to 16 thread threadIdx.x {
        %a = loop.load %x[%k * 16 + %c] : memref<64xf16>
        loop.store %a, %s[%c] : memref<16xf16>
      }
      %b = loop.load %s[15 - %t] : memref<16xf16>
      loop.store %b, %y[%k * 16 + %t] : memref<64xf16>
    }
  }
}
}
