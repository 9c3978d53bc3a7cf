// RUN: tcopt %s --split-input-file -p lower-te-to-loop | filecheck %s
// RUN: tcopt %s --split-input-file -p lower-te-to-loop --verify-each=exec

// A donated argument is updated in place, also by a chain of updates. Its result is in its buffer.
// CHECK: graph.in_place = {present = "past"}
// CHECK-LABEL: func.func @main
// CHECK-NEXT: loop.call @scatter_nd(%past, %i, %u) :
// CHECK-NEXT: loop.call @scatter_nd(%past, %i, %u) :
// CHECK-NEXT: return
builtin.module attributes {graph.inputs = ["past", "i", "u"], graph.outputs = ["present"], graph.donated = {past = "present"}} {
  func.func @main(%past: tensor<8x4xf32>, %i: tensor<2x1xi64>, %u: tensor<2x4xf32>) -> tensor<8x4xf32> {
    %a = graph.scatter_nd %past, %i, %u : tensor<8x4xf32>
    %b = graph.scatter_nd %a, %i, %u : tensor<8x4xf32>
    return %b : tensor<8x4xf32>
  }
}

// -----

// A result that is also another result is copied there; an unchanged argument needs no code.
// CHECK: graph.in_place = {present = "past", kept = "other"}
// CHECK-LABEL: func.func @main
// CHECK-NEXT: loop.call @scatter_nd(%past, %i, %u) :
// CHECK-NOT:  %other
// CHECK:      loop.call @copy_32_f32({{.*}}) :
// CHECK-NEXT: return
builtin.module attributes {graph.inputs = ["past", "i", "u", "other"], graph.outputs = ["present", "again", "kept"], graph.donated = {past = "present", other = "kept"}} {
  func.func @main(%past: tensor<8x4xf32>, %i: tensor<2x1xi64>, %u: tensor<2x4xf32>, %other: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>) {
    %a = graph.scatter_nd %past, %i, %u : tensor<8x4xf32>
    return %a, %a, %other : tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>
  }
}

// -----

// An argument that is read after the update, or that is another result, is copied.
// CHECK-NOT: graph.in_place
// CHECK-LABEL: func.func @main
// CHECK-NEXT: loop.call @scatter_nd(%past, %i, %u, %out0) :
builtin.module attributes {graph.inputs = ["past", "i", "u"], graph.outputs = ["present", "old"], graph.donated = {past = "present"}} {
  func.func @main(%past: tensor<8x4xf32>, %i: tensor<2x1xi64>, %u: tensor<2x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
    %a = graph.scatter_nd %past, %i, %u : tensor<8x4xf32>
    return %a, %past : tensor<8x4xf32>, tensor<8x4xf32>
  }
}
