// RUN: tcopt %s -p plan-memory | filecheck %s

func.func private @k(%a: memref<16xf32>, %b: memref<16xf32>)
func.func private @fc(%a: memref<4x4xf32>, %w: memref<16xf32>, %b: memref<16xf32>)

// %t and %v have disjoint live ranges and share memory; %u is viewed by the last call.
// CHECK-LABEL: func.func @main(%x: memref<16xf32>, %y: memref<16xf32>, %weights: memref<192xi8>, %workspace: memref<128xi8>)
// CHECK-SAME:  tcopt.weights = {b = array<i64: 0, 64>, a = array<i64: 64, 64>, c = array<i64: 128, 16>}
// CHECK-SAME:  tcopt.memory = {workspace = 128 : i64, intermediates = 192 : i64, lower_bound = 128 : i64}
// CHECK-DAG:     [[C0:%.*]] = arith.constant 0 : index
// CHECK-DAG:     [[C64:%.*]] = arith.constant 64 : index
// CHECK-DAG:     [[C128:%.*]] = arith.constant 128 : index
// CHECK:         %b = memref.view %weights[[[C0]]][] : memref<192xi8> to memref<16xf32>
// CHECK-NEXT:    %a = memref.view %weights[[[C64]]][] : memref<192xi8> to memref<16xf32>
// CHECK-NEXT:    %c = memref.view %weights[[[C128]]][] : memref<192xi8> to memref<4xf32>
// CHECK-NEXT:    %again = memref.view %weights[[[C64]]][] : memref<192xi8> to memref<16xf32>
// CHECK-NEXT:    %t = memref.view %workspace[[[T:%.*]]][] : memref<128xi8> to memref<16xf32>
// CHECK-NEXT:    func.call @k(%x, %t)
// CHECK-NEXT:    %u = memref.view %workspace[[[U:%.*]]][] : memref<128xi8> to memref<16xf32>
// CHECK-NEXT:    func.call @k(%t, %u)
// CHECK-NEXT:    memref.reinterpret_cast %u
// CHECK-NEXT:    %v = memref.view %workspace[[[T]]][] : memref<128xi8> to memref<16xf32>
// CHECK-NOT:     memref.alloc
// CHECK-NOT:     memref.dealloc
func.func @main(%x: memref<16xf32>, %y: memref<16xf32>) {
  %b = loop.weight @b : memref<16xf32>
  %a = loop.weight @a : memref<16xf32>
  %c = loop.weight @c : memref<4xf32>
  %again = loop.weight @a : memref<16xf32>
  %t = memref.alloc() : memref<16xf32>
  func.call @k(%x, %t) : (memref<16xf32>, memref<16xf32>) -> ()
  %u = memref.alloc() : memref<16xf32>
  func.call @k(%t, %u) : (memref<16xf32>, memref<16xf32>) -> ()
  %w = memref.reinterpret_cast %u to offset: [0], sizes: [4, 4], strides: [4, 1] : memref<16xf32> to memref<4x4xf32>
  %v = memref.alloc() : memref<16xf32>
  %unused = memref.alloc() : memref<16xf32>
  func.call @k(%b, %v) : (memref<16xf32>, memref<16xf32>) -> ()
  func.call @fc(%w, %v, %y) : (memref<4x4xf32>, memref<16xf32>, memref<16xf32>) -> ()
  memref.dealloc %t : memref<16xf32>
  func.return
}
