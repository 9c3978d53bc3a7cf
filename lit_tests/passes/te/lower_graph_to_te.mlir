// RUN: tcopt %s -p lower-graph-to-te --split-input-file | filecheck %s

// A group becomes a function of stages, one or more for each operator.
// CHECK-LABEL: te.func @fused_add_relu(%x: tensor<8x4xf32>, %b: tensor<4xf32>) -> tensor<8x4xf32> {
// CHECK:         %add = te.compute "add" [%i0 = 8, %i1 = 4] : tensor<8x4xf32> {
// CHECK-NEXT:      %0 = te.read %x[%i0, %i1] : tensor<8x4xf32>
// CHECK-NEXT:      %1 = te.read %b[%i1] : tensor<4xf32>
// CHECK-NEXT:      %2 = arith.addf %0, %1 : f32
// CHECK:         %relu = te.compute "relu" [%i0 = 8, %i1 = 4] : tensor<8x4xf32> {
// CHECK-NEXT:      %0 = te.read %add[%i0, %i1] : tensor<8x4xf32>
// CHECK:         te.return %relu : tensor<8x4xf32>
// CHECK:       func.func @main
// CHECK-NEXT:    %y = te.call @fused_add_relu(%x, %b) : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
func.func @main(%x: tensor<8x4xf32>, %b: tensor<4xf32>) -> tensor<8x4xf32> {
  %y = graph.group kind = injective {
    %0 = graph.add %x, %b : tensor<8x4xf32>
    %1 = graph.relu %0 : tensor<8x4xf32>
    graph.yield %1 : tensor<8x4xf32>
  } : tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// -----

// An operand that a product reads twice becomes two parameters; the added operand shares the first.
// CHECK-LABEL: te.func @fused_matmul_add(%x: tensor<4x4xf32>, %x_1: tensor<4x4xf32>) -> tensor<4x4xf32> {
// CHECK:           %0 = te.read %x[%i, %k] : tensor<4x4xf32>
// CHECK-NEXT:      %1 = te.read %x_1[%k, %j] : tensor<4x4xf32>
// CHECK:         te.compute "add"
// CHECK-NEXT:      %0 = te.read %matmul[%i0, %i1] : tensor<4x4xf32>
// CHECK-NEXT:      %1 = te.read %x[%i0, %i1] : tensor<4x4xf32>
// CHECK:         te.call @fused_matmul_add(%x, %x)
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %y = graph.group kind = complex_out_fusable {
    %0 = graph.matmul %x, %x : tensor<4x4xf32>
    %1 = graph.add %0, %x : tensor<4x4xf32>
    graph.yield %1 : tensor<4x4xf32>
  } : tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// -----

// Operators with the same structure share a function; another shape makes a new one.
// CHECK:       te.func @exp(%x: tensor<4xf32>)
// CHECK:       te.func @exp_1(%z: tensor<2x2xf32>)
// CHECK:       func.func @main
// CHECK-NEXT:    %y = te.call @exp(%x)
// CHECK-NEXT:    %0 = te.call @exp(%y)
// CHECK-NEXT:    %z = graph.reshape %0 : tensor<2x2xf32>
// CHECK-NEXT:    %1 = te.call @exp_1(%z)
func.func @main(%x: tensor<4xf32>) -> tensor<2x2xf32> {
  %y = graph.exp %x : tensor<4xf32>
  %0 = graph.exp %y : tensor<4xf32>
  %z = graph.reshape %0 : tensor<2x2xf32>
  %1 = graph.exp %z : tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}

// -----

// A uniform constant becomes a scalar; other constants stay parameters.
// CHECK-LABEL: te.func @mul(%x: tensor<2xf32>)
// CHECK:         arith.constant 5.000000e-01 : f32
// CHECK-LABEL: te.func @add(%m: tensor<2xf32>, %table: tensor<2xf32>)
// CHECK:       func.func @main
// CHECK-NEXT:    %table = graph.constant dense<[1.000000e+00, 2.000000e+00]>
// CHECK-NEXT:    %m = te.call @mul(%x)
// CHECK-NEXT:    te.call @add(%m, %table)
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %half = graph.constant dense<0.5> : tensor<f32>
  %table = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %m = graph.mul %x, %half : tensor<2xf32>
  %y = graph.add %m, %table : tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

// Unsigned tensors become signless, with unsigned operations.
// CHECK-LABEL: te.func @max(%x: tensor<2xi8>, %y: tensor<2xi8>) -> tensor<2xi8>
// CHECK:         arith.maxui
// CHECK:       func.func @main(%x: tensor<2xui8>, %y: tensor<2xui8>) -> tensor<2xui8>
// CHECK-NEXT:    %0 = builtin.unrealized_conversion_cast %x : tensor<2xui8> to tensor<2xi8>
// CHECK-NEXT:    %1 = builtin.unrealized_conversion_cast %y : tensor<2xui8> to tensor<2xi8>
// CHECK-NEXT:    %z = te.call @max(%0, %1)
// CHECK-NEXT:    builtin.unrealized_conversion_cast %z : tensor<2xi8> to tensor<2xui8>
func.func @main(%x: tensor<2xui8>, %y: tensor<2xui8>) -> tensor<2xui8> {
  %z = graph.max %x, %y : tensor<2xui8>
  return %z : tensor<2xui8>
}

// -----

// Narrow tensors become bytes; casts are arithmetic on codes.
// CHECK-LABEL: te.func @cast(%x: tensor<2xi8>) -> tensor<2xi8>
// CHECK:         %0 = te.read %x[%i0] : tensor<2xi8>
// CHECK:         arith.bitcast
// CHECK:         te.return %cast : tensor<2xi8>
// CHECK:       func.func @main(%x: tensor<2xf8E4M3FN>) -> tensor<2xf4E2M1FN>
// CHECK-NEXT:    %0 = builtin.unrealized_conversion_cast %x : tensor<2xf8E4M3FN> to tensor<2xi8>
// CHECK-NEXT:    %y = te.call @cast(%0)
// CHECK-NEXT:    builtin.unrealized_conversion_cast %y : tensor<2xi8> to tensor<2xf4E2M1FN>
func.func @main(%x: tensor<2xf8E4M3FN>) -> tensor<2xf4E2M1FN> {
  %y = graph.cast %x : tensor<2xf4E2M1FN>
  return %y : tensor<2xf4E2M1FN>
}

// -----

// A function records which forms its operators have, for schedule rules that apply only to these.
// CHECK-LABEL: te.func @packed_matmul
// CHECK-SAME:    attributes {tcopt.counts_on = ["contraction"]}
func.func @main(%x: tensor<4x8xf32>, %w: tensor<2x8x16xf32>) -> tensor<4x20xf32> {
  %y = graph.packed_matmul %x, %w {columns = 20} : tensor<4x20xf32>
  func.return %y : tensor<4x20xf32>
}
