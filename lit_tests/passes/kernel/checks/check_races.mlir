// RUN: tcopt %s -p check-races --split-input-file --verify-diagnostics | filecheck %s

// Threads that wait at a barrier before they read what others wrote do not race.
// CHECK: func.func private @reverse
func.func private @reverse(%x: memref<8xf32>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 4, 1, 1>, gpu.known_grid_size = array<i32: 2, 1, 1>} {
  %b = "gpu.block_id"() <{dimension = #gpu<dim x>}> : () -> index
  %t = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %0 = arith.muli %b, %c4 : index
  %1 = arith.addi %0, %t : index
  %s = memref.alloca() : memref<4xf32, 3 : i64>
  %2 = memref.load %x[%1] : memref<8xf32>
  memref.store %2, %s[%t] : memref<4xf32, 3 : i64>
  "gpu.barrier"() : () -> ()
  %3 = arith.subi %c3, %t : index
  %4 = memref.load %s[%3] : memref<4xf32, 3 : i64>
  memref.store %4, %x[%1] : memref<8xf32>
  func.return
}

// -----

// A thread reads what another thread has just written.
// CHECK: race: 'memref.load': thread 0 of block 0 reads element [3] of %s, which thread 3 of block 0 wrote by 'memref.store' at {{.*}}check_races.mlir:31:3, without a barrier in between (at {{.*}}check_races.mlir:33:3)
func.func private @read(%x: memref<4xf32>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 4, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %t = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
  %c3 = arith.constant 3 : index
  %s = memref.alloca() : memref<4xf32, 3 : i64>
  %2 = memref.load %x[%t] : memref<4xf32>
  memref.store %2, %s[%t] : memref<4xf32, 3 : i64>
  %3 = arith.subi %c3, %t : index
  %4 = memref.load %s[%3] : memref<4xf32, 3 : i64>
  memref.store %4, %x[%t] : memref<4xf32>
  func.return
}

// -----

// All threads write one element, which keeps one of their values.
// CHECK: race: 'memref.store': thread 0 of block 0 writes element [0] of %x, which thread 3 of block 0 wrote by the same op
func.func private @write(%x: memref<4xindex>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 4, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %t = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
  %c0 = arith.constant 0 : index
  memref.store %t, %x[%c0] : memref<4xindex>
  func.return
}

// -----

// Different blocks do not synchronise.
// CHECK: race: 'memref.load': thread 0 of block 0 reads element [1] of %x, which thread 0 of block 1 wrote by 'memref.store' at {{.*}}, without the end of a launch in between
func.func private @blocks(%x: memref<2xf32>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 1, 1, 1>, gpu.known_grid_size = array<i32: 2, 1, 1>} {
  %b = "gpu.block_id"() <{dimension = #gpu<dim x>}> : () -> index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  memref.store %zero, %x[%b] : memref<2xf32>
  "gpu.barrier"() {fence = "global"} : () -> ()
  %0 = arith.subi %c1, %b : index
  %1 = memref.load %x[%0] : memref<2xf32>
  memref.store %1, %x[%b] : memref<2xf32>
  func.return
}

// -----

// A barrier for shared memory does not order accesses to global memory.
// CHECK: race: 'memref.load': thread 0 of block 0 reads element [3] of %x
func.func private @fence(%x: memref<4xf32>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 4, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %t = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
  %c3 = arith.constant 3 : index
  %zero = arith.constant 0.0 : f32
  memref.store %zero, %x[%t] : memref<4xf32>
  "gpu.barrier"() : () -> ()
  %0 = arith.subi %c3, %t : index
  %1 = memref.load %x[%0] : memref<4xf32>
  func.return
}

// -----

// A barrier must be reached by all threads of a block or by none.
// CHECK: race: 'gpu.barrier': thread 0 of block 0 waits at a barrier that thread 2 of block 0 does not reach
func.func private @divergent(%x: memref<4xf32>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 4, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %t = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
  %c2 = arith.constant 2 : index
  %0 = arith.cmpi ult, %t, %c2 : index
  scf.if %0 {
    "gpu.barrier"() : () -> ()
  }
  func.return
}

// -----

// Out-of-bounds elements are not accessed by any thread.
// CHECK: bad-input: 'memref.load': index 4 is outside of dimension 0 of %x, which has 4 elements
func.func private @outside(%x: memref<4xf32>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 4, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %t = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
  %c1 = arith.constant 1 : index
  %0 = arith.addi %t, %c1 : index
  %1 = memref.load %x[%0] : memref<4xf32>
  func.return
}
