// RUN: tcopt %s -p hoist-slices | filecheck %s
// RUN: tcopt %s -p canonicalize | filecheck %s --check-prefix=UNUSED

// An op depends on the definitions of the sizes that it has: the slice cannot be hoisted over the
// definition. A slice with a size that is defined earlier can.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: graph.nonzero
// CHECK-NEXT: size.define
// CHECK-NEXT: %[[ROWS:.*]] = graph.slice %x {{.*}} : tensor<8x4xf32, #size.dims<early[0:8], 4>>
// CHECK-NEXT: %{{.*}} = graph.softmax %[[ROWS]]
// CHECK-NEXT: %[[WHOLE:.*]] = graph.softmax %x
// CHECK-NEXT: graph.nonzero
// CHECK-NEXT: size.define
// CHECK-NEXT: graph.slice %[[WHOLE]]
func.func @main(%x: tensor<64x4xf32>, %f: tensor<8xi1>, %g: tensor<8xi1>)
    -> (tensor<8x4xf32, #size.dims<early[0:8], 4>>, tensor<8x4xf32, #size.dims<late[0:8], 4>>) {
  %p, %n = graph.nonzero %f : tensor<8xi64>, tensor<1xi64>
  %early = size.define %n as <early[0:8]> : tensor<1xi64>
  %a = graph.softmax %x {axis = 1} : tensor<64x4xf32>
  %b = graph.softmax %x {axis = 1} : tensor<64x4xf32>
  %q, %m = graph.nonzero %g : tensor<8xi64>, tensor<1xi64>
  %late = size.define %m as <late[0:8]> : tensor<1xi64>
  %y = graph.slice %a {starts = [0, 0]} : tensor<8x4xf32, #size.dims<early[0:8], 4>>
  %z = graph.slice %b {starts = [0, 0]} : tensor<8x4xf32, #size.dims<late[0:8], 4>>
  func.return %y, %z : tensor<8x4xf32, #size.dims<early[0:8], 4>>,
    tensor<8x4xf32, #size.dims<late[0:8], 4>>
}

// A definition is removed if the function does not use the size; a use may be a property.
// UNUSED-LABEL: func.func @unused
// UNUSED-NEXT: graph.nonzero
// UNUSED-NEXT: %used = size.define
// UNUSED-NEXT: graph.sizes
// UNUSED-NEXT: func.return
func.func @unused(%f: tensor<8xi1>) -> tensor<1xi64> {
  %p, %n = graph.nonzero %f : tensor<8xi64>, tensor<1xi64>
  %used = size.define %n as <used[0:8]> : tensor<1xi64>
  %other = size.define %n as <other[0:8]> : tensor<1xi64>
  %y = graph.sizes {values = #size.dims<used[0:8]>} : tensor<1xi64>
  func.return %y : tensor<1xi64>
}
