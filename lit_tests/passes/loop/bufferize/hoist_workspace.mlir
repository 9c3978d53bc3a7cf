// RUN: tcopt %s -p hoist-workspace | filecheck %s

// Global buffers at the top level become arguments, with a new buffer for each call; others stay.
// CHECK-LABEL: loop.func @f
// CHECK-SAME:  (%x: memref<8xf32>, %y: memref<8xf32>, %t: memref<8xf32>) {
// CHECK-NEXT:    %r = loop.alloc register : memref<2xf32>
loop.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  %t = loop.alloc global : memref<8xf32>
  %r = loop.alloc register : memref<2xf32>
  loop.for %i = 0 to 8 {
    %a = loop.load %x[%i] : memref<8xf32>
    loop.store %a, %t[%i] : memref<8xf32>
    loop.store %a, %r[0] : memref<2xf32>
  }
  loop.for %i = 0 to 8 {
    %a = loop.load %t[7 - %i] : memref<8xf32>
    loop.store %a, %y[%i] : memref<8xf32>
  }
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT:    [[U:%.*]] = memref.alloc() : memref<8xf32>
// CHECK-NEXT:    [[A:%.*]] = memref.alloc() {alignment = 64 : i64} : memref<8xf32>
// CHECK-NEXT:    loop.call @f(%x, [[U]], [[A]]) : memref<8xf32>, memref<8xf32>, memref<8xf32>
// CHECK-NEXT:    [[B:%.*]] = memref.alloc() {alignment = 64 : i64} : memref<8xf32>
// CHECK-NEXT:    loop.call @f([[U]], %y, [[B]]) : memref<8xf32>, memref<8xf32>, memref<8xf32>
func.func @main(%x: memref<8xf32>, %y: memref<8xf32>) {
  %u = memref.alloc() : memref<8xf32>
  loop.call @f(%x, %u) : memref<8xf32>, memref<8xf32>
  loop.call @f(%u, %y) : memref<8xf32>, memref<8xf32>
  func.return
}

// A function without callers keeps its buffers.
// CHECK-LABEL: loop.func @alone
// CHECK-NEXT:    loop.alloc global
loop.func @alone(%x: memref<8xf32>) {
  %t = loop.alloc global : memref<8xf32>
  loop.for %i = 0 to 8 {
    %a = loop.load %x[%i] : memref<8xf32>
    loop.store %a, %t[%i] : memref<8xf32>
  }
}

// A buffer too large for the stack becomes an argument if the loops around it are serial; smaller
// buffers stay, and so do per-thread buffers.
// CHECK-LABEL: loop.func @inner
// CHECK-SAME:  (%x: memref<20000xf32>, %t: memref<20000xf32>) {
// CHECK-NEXT:    loop.for %i = 0 to 2 {
// CHECK-NEXT:      %s = loop.alloc global : memref<8xf32>
// CHECK:         loop.for %i = 0 to 2 parallel {
// CHECK-NEXT:      %p = loop.alloc global : memref<20000xf32>
loop.func @inner(%x: memref<20000xf32>) {
  loop.for %i = 0 to 2 {
    %t = loop.alloc global : memref<20000xf32>
    %s = loop.alloc global : memref<8xf32>
    %a = loop.load %x[%i] : memref<20000xf32>
    loop.store %a, %t[%i] : memref<20000xf32>
    loop.store %a, %s[%i] : memref<8xf32>
  }
  loop.for %i = 0 to 2 parallel {
    %p = loop.alloc global : memref<20000xf32>
    %a = loop.load %x[%i] : memref<20000xf32>
    loop.store %a, %p[%i] : memref<20000xf32>
  }
}

func.func @calls_inner(%x: memref<20000xf32>) {
  loop.call @inner(%x) : memref<20000xf32>
  func.return
}
