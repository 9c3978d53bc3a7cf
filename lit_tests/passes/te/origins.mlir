// RUN: tcopt %s -p lower-graph-to-te{origins=true},te-inline,lower-te-to-loop,lower-blocks,hoist-workspace,lower-loop-to-kernel | filecheck %s

// Calls record their source nodes and operators, down to the kernel level.
// CHECK-LABEL: func.func @main
// CHECK:       func.call @fused_add_relu(%x, %b, %{{.*}}) {tcopt.origin = {nodes = ["Add_0", "Relu_1"], ops = ["add", "relu"], results = ["8x4xf32"], work = 64 : i64}}
// CHECK:       func.call @mul(%{{.*}}) {tcopt.origin = {nodes = ["Mul_2"], ops = ["mul"], results = ["8x4xf32"], work = 32 : i64}}
func.func @main(%x: tensor<8x4xf32>, %b: tensor<4xf32>) -> tensor<8x4xf32> {
  %y = graph.group kind = injective {
    %0 = graph.add %x, %b : tensor<8x4xf32> loc("Add_0")
    %1 = graph.relu %0 : tensor<8x4xf32> loc("Relu_1")
    graph.yield %1 : tensor<8x4xf32>
  } : tensor<8x4xf32>
  %z = graph.mul %y, %y : tensor<8x4xf32> loc("Mul_2")
  func.return %z : tensor<8x4xf32>
}

// The work of a range is a size.
// CHECK-LABEL: func.func @rows
// CHECK:       func.call @relu(%x, %{{.*}}, %n) {tcopt.origin = {nodes = ["Relu_3"], ops = ["relu"], results = ["nx4xf32"], work = #size.dims<4 * n[1:8]>}
func.func @rows(%x: tensor<8x4xf32, #size.dims<n[1:8], 4>>) -> tensor<8x4xf32, #size.dims<n[1:8], 4>> attributes {size.symbols = #size.dims<n[1:8]>} {
  %y = graph.relu %x : tensor<8x4xf32, #size.dims<n[1:8], 4>> loc("Relu_3")
  func.return %y : tensor<8x4xf32, #size.dims<n[1:8], 4>>
}
