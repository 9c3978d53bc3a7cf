// RUN: tcopt %s --split-input-file --verify-diagnostics | filecheck %s

// Types are inferred with live extents.
// CHECK-LABEL: func.func @layers
func.func @layers(%x: tensor<512x8xf32, #size.dims<n[1:512], 8>>, %w: tensor<8x16xf32>) -> tensor<512x16xf32, #size.dims<n[1:512], 16>>
    attributes {size.symbols = #size.dims<n[1:512]>} {
  // CHECK: graph.matmul %x, %w : tensor<512x16xf32, #size.dims<n[1:512], 16>>
  %0 = graph.matmul %x, %w : tensor<512x16xf32, #size.dims<n[1:512], 16>>
  %1 = graph.softmax %0 : tensor<512x16xf32, #size.dims<n[1:512], 16>>
  return %1 : tensor<512x16xf32, #size.dims<n[1:512], 16>>
}

// Starts of slices, repetitions, pads and limits may be sizes.
// CHECK-LABEL: func.func @parts
func.func @parts(%x: tensor<8x4xf32, #size.dims<n[1:8], 4>>, %i: tensor<2xi64>) -> (tensor<1x4xf32>, tensor<1xi1>)
    attributes {size.symbols = #size.dims<n[1:8]>} {
  // CHECK: graph.slice %x {starts = #size.dims<n[1:8] - 1, 0>} : tensor<1x4xf32>
  %0 = graph.slice %x {starts = #size.dims<n[1:8] - 1, 0>} : tensor<1x4xf32>
  // CHECK: graph.out_of_bounds %i {low = 0, high = #size.dims<n[1:8] - 1>} : tensor<1xi1>
  %1 = graph.out_of_bounds %i {low = 0, high = #size.dims<n[1:8] - 1>} : tensor<1xi1>
  // CHECK: graph.sizes {values = #size.dims<n[1:8], 4>} : tensor<2xi64>
  %2 = graph.sizes {values = #size.dims<n[1:8], 4>} : tensor<2xi64>
  return %0, %1 : tensor<1x4xf32>, tensor<1xi1>
}

// -----

// Sizes of different names broadcast for some of their values only.
// CHECK: the ranges of the sizes do not decide 'n = m'
func.func @names(%x: tensor<8xf32, #size.dims<n[1:8]>>, %y: tensor<8xf32, #size.dims<m[1:8]>>) attributes {size.symbols = #size.dims<n[1:8], m[1:8]>} {
  %0 = graph.add %x, %y : tensor<8xf32, #size.dims<n[1:8]>>
  return
}
