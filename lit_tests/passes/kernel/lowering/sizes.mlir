// RUN: tcopt %s -p lower-loop-to-kernel | filecheck %s
// RUN: tcopt %s -p lower-loop-to-kernel,plan-memory,instrument | filecheck %s --check-prefix=PLAN

// Strides stay numbers if only the first extent is a size.
// CHECK:      func.func private @rows(%x: memref<?x4xf32>, %y: memref<?x4xf32>, %s0: index) {
// CHECK:        scf.for %i = %c0 to %s0 step %c1 {
// CHECK:          memref.load %x[%i, %c0] : memref<?x4xf32>
// CHECK:          memref.store %{{.*}}, %y[%i, %c0] : memref<?x4xf32>
loop.func @rows(%x: memref<9x4xf32, #size.dims<s0[1:9], 4>>, %y: memref<9x4xf32, #size.dims<s0[1:9], 4>>, %s0: index)
    attributes {size.symbols = #size.dims<s0[1:9]>} {
  loop.for %i = 0 to 9 limit %s0 {
    %a = loop.load %x[%i, 0] : memref<9x4xf32, #size.dims<s0[1:9], 4>>
    loop.store %a, %y[%i, 0] : memref<9x4xf32, #size.dims<s0[1:9], 4>>
  }
}

// Other strides are products of the extents; a local buffer has room for the greatest ones.
// CHECK:      func.func private @transpose(%x: memref<?x?xf32>, %y: memref<?x?xf32>, %s0: index, %s1: index) {
// CHECK-NEXT:   %x_1 = memref.reinterpret_cast %x to offset: [0], sizes: [%s0, %s1], strides: [%s1, 1] : memref<?x?xf32> to memref<?x?xf32, strided<[?, 1]>>
// CHECK-NEXT:   %y_1 = memref.reinterpret_cast %y to offset: [0], sizes: [%s1, %s0], strides: [%s0, 1]
// CHECK-NEXT:   %t = memref.alloca() {alignment = 64 : i64} : memref<9x3x5xf32>
// CHECK-DAG:    %[[PLANE:.*]] = arith.muli %s1, %c3 : index
// CHECK:        memref.reinterpret_cast %t to offset: [0], sizes: [%s0, 3, %s1], strides: [%[[PLANE]], %s1, 1] : memref<9x3x5xf32> to memref<?x3x?xf32, strided<[?, ?, 1]>>
loop.func @transpose(%x: memref<9x5xf32, #size.dims<s0[1:9], s1[1:5]>>, %y: memref<5x9xf32, #size.dims<s1[1:5], s0[1:9]>>, %s0: index, %s1: index)
    attributes {size.symbols = #size.dims<s0[1:9], s1[1:5]>} {
  %t = loop.alloc global : memref<9x3x5xf32, #size.dims<s0[1:9], 3, s1[1:5]>>
  loop.for %i = 0 to 9 limit %s0 {
    loop.for %j = 0 to 5 limit %s1 {
      %a = loop.load %x[%i, %j] : memref<9x5xf32, #size.dims<s0[1:9], s1[1:5]>>
      loop.store %a, %t[%i, 2, %j] : memref<9x3x5xf32, #size.dims<s0[1:9], 3, s1[1:5]>>
      %b = loop.load %t[%i, 2, %j] : memref<9x3x5xf32, #size.dims<s0[1:9], 3, s1[1:5]>>
      loop.store %b, %y[%j, %i] : memref<5x9xf32, #size.dims<s1[1:5], s0[1:9]>>
    }
  }
}

// Lanes along a column are gathered with a stride that is a size, and only live lanes are loaded.
// CHECK:      func.func private @column(
// CHECK:        %[[LIVE:.*]] = vector.create_mask %s0 : vector<4xi1>
// CHECK:        %[[STRIDE:.*]] = arith.index_cast %s1 : index to i32
// CHECK-NEXT:   %[[STRIDES:.*]] = vector.broadcast %[[STRIDE]] : i32 to vector<4xi32>
// CHECK-NEXT:   %[[LANES:.*]] = arith.constant dense<[0, 1, 2, 3]> : vector<4xi32>
// CHECK-NEXT:   %[[STEPS:.*]] = arith.muli %[[STRIDES]], %[[LANES]] : vector<4xi32>
// CHECK-NEXT:   vector.gather %x_1[%c0, %c1][%[[STEPS]]], %[[LIVE]]
loop.func @column(%x: memref<4x5xf32, #size.dims<s0[1:4], s1[2:5]>>, %y: memref<4xf32>, %s0: index, %s1: index)
    attributes {size.symbols = #size.dims<s0[1:4], s1[2:5]>} {
  %a = loop.load %x[0, 1] lanes [1, 0] else 0.0 : memref<4x5xf32, #size.dims<s0[1:4], s1[2:5]>>, vector<4xf32>
  loop.store %a, %y[0] lanes [1] : memref<4xf32>, vector<4xf32>
}

// Calls pass the values of sizes; memory is allocated for the greatest extents.
// CHECK:      func.func @main(%x: memref<?x4xf32>, %out: memref<?x4xf32>, %parts: memref<?x?x2xf32>, %n: index)
// CHECK-SAME: attributes {size.symbols = #size.dims<n[1:4]>, size.buffers = [memref<9x4xf32, #size.dims<2 * n[1:4] + 1, 4>>,
// CHECK-NEXT:   %[[TWO:.*]] = arith.constant 2 : index
// CHECK-NEXT:   %[[EVEN:.*]] = arith.muli %n, %[[TWO]] : index
// CHECK-NEXT:   %[[ONE:.*]] = arith.constant 1 : index
// CHECK-NEXT:   %[[ROWS:.*]] = arith.addi %[[EVEN]], %[[ONE]] : index
// CHECK:        %t = memref.alloc() : memref<9x4xf32>
// CHECK-NEXT:   %[[T:.*]] = memref.reinterpret_cast %t to offset: [0], sizes: [%[[ROWS]], 4], strides: [4, 1] : memref<9x4xf32> to memref<?x4xf32>
// CHECK-NEXT:   func.call @rows(%x, %[[T]], %[[ROWS]]) {size.bytes = #size.dims<64 * n[1:4] + 32>} : (memref<?x4xf32>, memref<?x4xf32>, index) -> ()
// CHECK:        %[[WHOLE:.*]] = memref.reinterpret_cast %parts to offset: [0], sizes: [%n, %n, 2], strides: [%[[EVEN]], 2, 1] : memref<?x?x2xf32> to memref<?x?x2xf32>
// CHECK-NEXT:   %{{.*}} = loop.slice %[[WHOLE]][%c0] : memref<?x?x2xf32>
// CHECK-NEXT:   memref.reinterpret_cast %{{.*}} to offset: [0], sizes: [%[[EVEN]]], strides: [1] : memref<?x2xf32> to memref<?xf32>
// CHECK:        memref.reinterpret_cast %view to offset: [0], sizes: [%n, 4], strides: [4, 1] : memref<4x4xf32> to memref<?x4xf32>

// PLAN: func.func @main(%x: memref<?x4xf32>, %out: memref<?x4xf32>, %parts: memref<?x?x2xf32>, %n: index, %weights: memref<0xi8>, %workspace: memref<192xi8>, %times: memref<6xi64>)
// PLAN-SAME: bytes = #size.dims<64 * n[1:4] + 32>
// PLAN:        memref.view %workspace[%{{.*}}][] : memref<192xi8> to memref<9x4xf32>
func.func @main(%x: memref<9x4xf32, #size.dims<2 * n[1:4] + 1, 4>>, %out: memref<9x4xf32, #size.dims<2 * n[1:4] + 1, 4>>,
    %parts: memref<4x4x2xf32, #size.dims<n[1:4], n[1:4], 2>>, %n: index) attributes {size.symbols = #size.dims<n[1:4]>} {
  %t = memref.alloc() : memref<9x4xf32, #size.dims<2 * n[1:4] + 1, 4>>
  loop.call @rows(%x, %t) sizes <2 * n[1:4] + 1> : memref<9x4xf32, #size.dims<2 * n[1:4] + 1, 4>>, memref<9x4xf32, #size.dims<2 * n[1:4] + 1, 4>>
  loop.call @rows(%t, %out) sizes <2 * n[1:4] + 1> : memref<9x4xf32, #size.dims<2 * n[1:4] + 1, 4>>, memref<9x4xf32, #size.dims<2 * n[1:4] + 1, 4>>
  %c0 = arith.constant 0 : index
  %slice = loop.slice %parts[%c0] : memref<4x4x2xf32, #size.dims<n[1:4], n[1:4], 2>>
  %flat = builtin.unrealized_conversion_cast %slice : memref<4x2xf32, #size.dims<n[1:4], 2>> to memref<8xf32, #size.dims<2 * n[1:4]>>
  %bytes = memref.alloc() : memref<64xi8>
  %view = memref.view %bytes[%n][] : memref<64xi8> to memref<4x4xf32>
  %part = builtin.unrealized_conversion_cast %view : memref<4x4xf32> to memref<4x4xf32, #size.dims<n[1:4], 4>>
  loop.call @rows(%part, %part) sizes <n[1:4]> : memref<4x4xf32, #size.dims<n[1:4], 4>>, memref<4x4xf32, #size.dims<n[1:4], 4>>
  func.return
}
