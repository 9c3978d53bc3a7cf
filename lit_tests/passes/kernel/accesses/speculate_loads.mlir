// RUN: tcopt %s -p speculate-loads --split-input-file | filecheck %s

// A conditional load in a loop becomes unconditional; it reads index 0 if the condition is false.
// CHECK-LABEL: func.func @copy
// CHECK:         scf.for
// CHECK:           %{{.*}} = arith.constant 0 : index
// CHECK-NEXT:      [[P:%.*]] = arith.select %inside, %i, %{{.*}} : index
// CHECK-NEXT:      [[V:%.*]] = memref.load %x[[[P]]] : memref<100xf32>
// CHECK-NEXT:      scf.if %inside {
// CHECK-NEXT:        memref.store [[V]], %s[%i]
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
func.func @copy(%x: memref<100xf32>, %s: memref<128xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c100 = arith.constant 100 : index
  %c128 = arith.constant 128 : index
  scf.for %i = %c0 to %c128 step %c1 {
    %inside = arith.cmpi ult, %i, %c100 : index
    scf.if %inside {
      %v = memref.load %x[%i] : memref<100xf32>
      memref.store %v, %s[%i] : memref<128xf32>
    }
  }
  func.return
}
}

// -----

// A conditional load with another value in the other branch becomes a select.
// CHECK-LABEL: func.func @padded
// CHECK-NOT:     scf.if
// CHECK:         [[V:%.*]] = memref.load %x[%{{.*}}] : memref<100xf32>
// CHECK-NEXT:    [[C:%.*]] = arith.select %inside, [[V]], %zero : f32
// CHECK-NEXT:    memref.store [[C]], %s[%i]
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
func.func @padded(%x: memref<100xf32>, %s: memref<128xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c100 = arith.constant 100 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant 0.0 : f32
  scf.for %i = %c0 to %c128 step %c1 {
    %inside = arith.cmpi ult, %i, %c100 : index
    %v = scf.if %inside -> (f32) {
      %a = memref.load %x[%i] : memref<100xf32>
      scf.yield %a : f32
    } else {
      scf.yield %zero : f32
    }
    memref.store %v, %s[%i] : memref<128xf32>
  }
  func.return
}
}

// -----

// A load from a buffer that the kernel writes stays conditional, because another thread may write
// it.
// CHECK-LABEL: func.func @written
// CHECK:         scf.if %inside {
// CHECK-NEXT:      memref.load
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
func.func @written(%x: memref<100xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c100 = arith.constant 100 : index
  %c128 = arith.constant 128 : index
  scf.for %i = %c0 to %c128 step %c1 {
    %inside = arith.cmpi ult, %i, %c100 : index
    scf.if %inside {
      %v = memref.load %x[%i] : memref<100xf32>
      memref.store %v, %x[%c0] : memref<100xf32>
    }
  }
  func.return
}
}

// -----

// Kernels for a CPU keep their branches.
// CHECK-LABEL: func.func @cpu
// CHECK:         scf.if %inside {
// CHECK-NEXT:      memref.load
func.func @cpu(%x: memref<100xf32>, %s: memref<128xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c100 = arith.constant 100 : index
  %c128 = arith.constant 128 : index
  scf.for %i = %c0 to %c128 step %c1 {
    %inside = arith.cmpi ult, %i, %c100 : index
    scf.if %inside {
      %v = memref.load %x[%i] : memref<100xf32>
      memref.store %v, %s[%i] : memref<128xf32>
    }
  }
  func.return
}

// -----

// An outer branch is flattened if only loads and stores remain once the inner branch became a
// select.
// CHECK-LABEL: func.func @nested
// CHECK:         memref.load %x
// CHECK-NEXT:    [[C:%.*]] = arith.select %inner, %{{.*}}, %zero : f32
// CHECK-NEXT:    scf.if %outer {
// CHECK-NEXT:      memref.store [[C]], %s[%i]
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
func.func @nested(%x: memref<100xf32>, %s: memref<128xf32>, %outer: i1, %inner: i1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c100 = arith.constant 100 : index
  %zero = arith.constant 0.0 : f32
  scf.for %i = %c0 to %c100 step %c1 {
    scf.if %outer {
      %r = scf.if %inner -> (f32) {
        %v = memref.load %x[%i] : memref<100xf32>
        scf.yield %v : f32
      } else {
        scf.yield %zero : f32
      }
      memref.store %r, %s[%i] : memref<128xf32>
    }
  }
  func.return
}
}
