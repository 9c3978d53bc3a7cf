// RUN: tcopt %s --split-input-file -p lower-te-to-loop | filecheck %s

// An update of a value without later users is applied in place, in the result's memory; an argument
// is copied first.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: loop.call @scatter_nd(%x, %i, %u, %out) :
// CHECK-NEXT: loop.call @scatter_nd_1(%out, %i, %u) :
// CHECK-NEXT: loop.call @scatter_nd_1(%out, %i, %u) :
func.func @main(%x: tensor<8x4xf32>, %i: tensor<2x1xi64>, %u: tensor<2x4xf32>) -> tensor<8x4xf32> {
  %a = graph.scatter_nd %x, %i, %u : tensor<8x4xf32>
  %b = graph.scatter_nd %a, %i, %u : tensor<8x4xf32>
  %c = graph.scatter_nd %b, %i, %u : tensor<8x4xf32>
  return %c : tensor<8x4xf32>
}

// -----

// A value that is also a result, is read later, also through a view, or is read twice by the op is
// copied; one that other operands read before is not.
// CHECK-LABEL: func.func @main
// CHECK:      loop.call @scatter_nd(%x, %i, %u, %out0) :
// CHECK:      loop.call @scatter_nd(%out0, %i, %u, %b) :
// CHECK:      loop.call @scatter_nd(%b, %i, %u, %c) :
// CHECK-NEXT: loop.call @scatter_nd_1(%c, %i, %b) :
// CHECK-NEXT: loop.call @scatter_nd_2(%c, %i, %c, %out1) :
builtin.module {
  func.func @main(%x: tensor<2x4xf32>, %i: tensor<2x1xi64>, %u: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
    %a = graph.scatter_nd %x, %i, %u : tensor<2x4xf32>
    %b = graph.scatter_nd %a, %i, %u : tensor<2x4xf32>
    %c = graph.scatter_nd %b, %i, %u : tensor<2x4xf32>
    %v = graph.reshape %b : tensor<2x4xf32>
    %d = graph.scatter_nd %c, %i, %v {reduction = add} : tensor<2x4xf32>
    %e = graph.scatter_nd %d, %i, %d {reduction = mul} : tensor<2x4xf32>
    return %a, %e : tensor<2x4xf32>, tensor<2x4xf32>
  }
}
