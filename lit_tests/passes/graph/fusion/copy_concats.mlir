// RUN: tcopt %s -p 'set-target{cpu=haswell},copy-concats' | filecheck %s
// RUN: tcopt %s -p 'set-target{gpu=opencl},copy-concats' | filecheck %s --check-prefix=GPU

// A concatenation along an inner axis copies rows; empty parts are dropped.
// CHECK-LABEL: func.func @rows
// CHECK-NEXT: %[[A:.*]] = graph.reshape %a : tensor<64x100xf32>
// CHECK-NEXT: %[[B:.*]] = graph.reshape %b : tensor<64x150xf32>
// CHECK-NEXT: %[[C:.*]] = graph.reshape %a : tensor<64x100xf32>
// CHECK-NEXT: %[[R:.*]] = graph.concat_rows %[[A]], %[[B]], %[[C]] : tensor<64x350xf32>
// CHECK-NEXT: %y = graph.reshape %[[R]] : tensor<64x7x50xf32>
// GPU-LABEL: func.func @rows
// GPU: graph.concat
// GPU-NOT: concat_rows
func.func @rows(%a: tensor<64x2x50xf32>, %b: tensor<64x3x50xf32>, %e: tensor<64x0x50xf32>) -> tensor<64x7x50xf32> {
  %y = graph.concat %a, %b, %e, %a {axis = 1} : tensor<64x7x50xf32>
  return %y : tensor<64x7x50xf32>
}

// Concatenations stay if they have two parts, few parts and one elementwise user, or contiguous
// parts.
// CHECK-LABEL: func.func @kept
// CHECK-COUNT-3: graph.concat %
// CHECK-NOT: graph.concat_rows
func.func @kept(%a: tensor<64x100xf32>, %j: tensor<1x16xf32>) -> (tensor<64x200xf32>, tensor<64x300xf32>, tensor<3x16xf32>) {
  %two = graph.concat %a, %a {axis = 1} : tensor<64x200xf32>
  %three = graph.concat %a, %a, %a {axis = 1} : tensor<64x300xf32>
  %relu = graph.relu %three : tensor<64x300xf32>
  %joined = graph.concat %j, %j, %j {axis = 0} : tensor<3x16xf32>
  return %two, %relu, %joined : tensor<64x200xf32>, tensor<64x300xf32>, tensor<3x16xf32>
}

// Concatenations of more parts are copied for any user, also through views.
// CHECK-LABEL: func.func @many
// CHECK: graph.concat_rows
// CHECK: graph.relu
func.func @many(%a: tensor<64x10xf32>) -> tensor<32x180xf32> {
  %c = graph.concat %a, %a, %a, %a, %a, %a, %a, %a, %a {axis = 1} : tensor<64x90xf32>
  %v = graph.reshape %c : tensor<32x180xf32>
  %y = graph.relu %v : tensor<32x180xf32>
  return %y : tensor<32x180xf32>
}
