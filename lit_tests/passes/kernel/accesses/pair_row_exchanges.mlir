// RUN: tcopt %s -p pair-row-exchanges --split-input-file | filecheck %s

// One instruction loads both fragments: the upper half of the warp provides rows 8 columns further.
// CHECK-LABEL: func.func private @pair
// CHECK:       %thread_x = "gpu.thread_id"()
// CHECK-NEXT:  [[C16:%.*]] = arith.constant 16 : index
// CHECK-NEXT:  [[HALF:%.*]] = arith.divui %thread_x, [[C16]] : index
// CHECK-NEXT:  [[C8:%.*]] = arith.constant 8 : index
// CHECK-NEXT:  [[OFFSET:%.*]] = arith.muli [[HALF]], [[C8]] : index
// CHECK:       [[ROW:%.*]] = vector.load %s[%r, [[OFFSET]]]
// CHECK-NEXT:  [[BOTH:%.*]] = simt.exchange_rows transposed [[ROW]] : vector<8xf16> to vector<8xf16>
// CHECK-NEXT:  [[A:%.*]] = vector.extract_strided_slice [[BOTH]] {offsets = [0 : i64], sizes = [4 : i64], strides = [1 : i64]}
// CHECK-NEXT:  [[B:%.*]] = vector.extract_strided_slice [[BOTH]] {offsets = [4 : i64], sizes = [4 : i64], strides = [1 : i64]}
// CHECK-NEXT:  vector.store [[A]], %y[%thread_x, %c0]
// CHECK-NEXT:  vector.store [[B]], %y[%thread_x, %c4]
func.func private @pair(%y: memref<32x8xf16>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 32, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %thread_x = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %s = memref.alloca() : memref<16x24xf16, 3>
  %r = arith.remui %thread_x, %c16 : index
  %a = vector.load %s[%r, %c0] : memref<16x24xf16, 3>, vector<8xf16>
  %0 = simt.exchange_rows transposed %a : vector<8xf16> to vector<4xf16>
  %b = vector.load %s[%r, %c8] : memref<16x24xf16, 3>, vector<8xf16>
  %1 = simt.exchange_rows transposed %b : vector<8xf16> to vector<4xf16>
  vector.store %0, %y[%thread_x, %c0] : memref<32x8xf16>, vector<4xf16>
  vector.store %1, %y[%thread_x, %c4] : memref<32x8xf16>, vector<4xf16>
  func.return
}

// -----

// The second row is loaded after other threads have written it.
// CHECK-LABEL: func.func private @apart
// CHECK-COUNT-2: simt.exchange_rows {{.*}} to vector<4xf16>
func.func private @apart(%y: memref<32x8xf16>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 32, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %thread_x = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %s = memref.alloca() : memref<16x24xf16, 3>
  %r = arith.remui %thread_x, %c16 : index
  %a = vector.load %s[%r, %c0] : memref<16x24xf16, 3>, vector<8xf16>
  %0 = simt.exchange_rows %a : vector<8xf16> to vector<4xf16>
  "gpu.barrier"() : () -> ()
  %b = vector.load %s[%r, %c8] : memref<16x24xf16, 3>, vector<8xf16>
  %1 = simt.exchange_rows %b : vector<8xf16> to vector<4xf16>
  vector.store %0, %y[%thread_x, %c0] : memref<32x8xf16>, vector<4xf16>
  vector.store %1, %y[%thread_x, %c4] : memref<32x8xf16>, vector<4xf16>
  func.return
}
