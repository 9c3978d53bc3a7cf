// RUN: tcopt %s -p lower-graph-to-te --verify-each=exec | filecheck %s
// RUN: tcopt %s -p lower-graph-to-te,te-inline,merge-axes --verify-each=exec | filecheck %s --check-prefix=MERGED

// Functions have canonical sizes. A product of sizes becomes one, and functions over different
// sizes of the model are shared.
// CHECK-LABEL: te.func @add(%x: tensor<32x8xf32, #size.dims<s0[1:32], 8>>, %b: tensor<8xf32>, %s0: index)
// CHECK-SAME:    -> tensor<32x8xf32, #size.dims<s0[1:32], 8>> attributes {size.symbols = #size.dims<s0[1:32]>} {
// CHECK-NEXT:    te.compute "add" [%i0 = s0[1:32], %i1 = 8]
// CHECK-NOT:   te.func
// CHECK-LABEL: te.func @concat(
// CHECK-SAME:    %s0: index, %s1: index) -> tensor<40xf32, #size.dims<s0[1:32] + s1[1:8]>>
// CHECK:         arith.cmpi slt, %i0, %s0 : index
// CHECK:         te.read %{{.*}}[%i0 + %s0 * -1] else 0.000000e+00 : tensor<8xf32, #size.dims<s1[1:8]>>
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    te.call @add(%x, %b) sizes <batch[1:4] * length[1:8]>
// CHECK-SAME:      (tensor<32x8xf32, #size.dims<batch[1:4] * length[1:8], 8>>, tensor<8xf32>)
// CHECK-NEXT:    te.call @add(%y, %b) sizes <rows[1:32]>
// CHECK-NEXT:    te.call @concat(%u, %v) sizes <rows[1:32], length[1:8]>

// Extents of merged axes may be sizes: a function has one size for their product. The host function
// views the tensors.
// MERGED-LABEL: te.func @relu(%x: tensor<256xf32, #size.dims<8 * s0[1:32]>>, %s0: index)
// MERGED-NEXT:    te.compute "relu" [%i0_i1 = 8 * s0[1:32]]
// MERGED-LABEL: te.func @relu_1(%z: tensor<256xf32, #size.dims<8 * s0[1:32]>>, %s0: index)
// MERGED-NEXT:    te.compute "relu" [%i0_i1 = 8 * s0[1:32]]
// MERGED-LABEL: te.func @relu_2(%s: tensor<64xf32, #size.dims<2 * s0[1:32]>>, %s0: index)
// MERGED-NEXT:    te.compute "relu" [%i0_i1_i2 = 2 * s0[1:32]]
// MERGED-LABEL: func.func @rows
// MERGED-NEXT:    %[[V:.*]] = graph.reshape %x : tensor<256xf32, #size.dims<8 * rows[1:32]>>
// MERGED-NEXT:    %[[R:.*]] = te.call @relu(%[[V]]) sizes <rows[1:32]>
// MERGED-NEXT:    graph.reshape %[[R]] : tensor<32x8xf32, #size.dims<rows[1:32], 8>>
// MERGED:         te.call @relu_2(%{{.*}}) sizes <m[1:4] * n[1:8]>
func.func @main(%x: tensor<32x8xf32, #size.dims<batch[1:4] * length[1:8], 8>>, %b: tensor<8xf32>,
    %y: tensor<32x8xf32, #size.dims<rows[1:32], 8>>, %u: tensor<32xf32, #size.dims<rows[1:32]>>,
    %v: tensor<8xf32, #size.dims<length[1:8]>>)
    -> (tensor<32x8xf32, #size.dims<batch[1:4] * length[1:8], 8>>,
        tensor<32x8xf32, #size.dims<rows[1:32], 8>>, tensor<40xf32, #size.dims<rows[1:32] + length[1:8]>>)
    attributes {size.symbols = #size.dims<batch[1:4], length[1:8], rows[1:32]>} {
  %0 = graph.add %x, %b : tensor<32x8xf32, #size.dims<batch[1:4] * length[1:8], 8>>
  %1 = graph.add %y, %b : tensor<32x8xf32, #size.dims<rows[1:32], 8>>
  %2 = graph.concat %u, %v {axis = 0} : tensor<40xf32, #size.dims<rows[1:32] + length[1:8]>>
  func.return %0, %1, %2 : tensor<32x8xf32, #size.dims<batch[1:4] * length[1:8], 8>>,
    tensor<32x8xf32, #size.dims<rows[1:32], 8>>, tensor<40xf32, #size.dims<rows[1:32] + length[1:8]>>
}
func.func @rows(%x: tensor<32x8xf32, #size.dims<rows[1:32], 8>>, %z: tensor<8x32xf32, #size.dims<8, rows[1:32]>>,
    %s: tensor<2x8x4xf32, #size.dims<2, n[1:8], m[1:4]>>)
    -> (tensor<32x8xf32, #size.dims<rows[1:32], 8>>, tensor<8x32xf32, #size.dims<8, rows[1:32]>>,
        tensor<2x8x4xf32, #size.dims<2, n[1:8], m[1:4]>>)
    attributes {size.symbols = #size.dims<rows[1:32], n[1:8], m[1:4]>} {
  %0 = graph.relu %x : tensor<32x8xf32, #size.dims<rows[1:32], 8>>
  %1 = graph.relu %z : tensor<8x32xf32, #size.dims<8, rows[1:32]>>
  %2 = graph.relu %s : tensor<2x8x4xf32, #size.dims<2, n[1:8], m[1:4]>>
  func.return %0, %1, %2 : tensor<32x8xf32, #size.dims<rows[1:32], 8>>, tensor<8x32xf32, #size.dims<8, rows[1:32]>>,
    tensor<2x8x4xf32, #size.dims<2, n[1:8], m[1:4]>>
}
