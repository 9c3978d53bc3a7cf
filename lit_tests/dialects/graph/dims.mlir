// RUN: tcopt %s --split-input-file --verify-diagnostics | filecheck %s

// Dimension names that are not identifiers are quoted; an unnamed dynamic dimension prints as `?`.
// CHECK: func.func @main(%x: tensor<2x6x7xf32> {graph.dims = #graph.dims<batch, "past + 1", ?>}) -> (tensor<2x42xf32> {graph.dims = #graph.dims<batch, 42>})
func.func @main(%x: tensor<2x6x7xf32> {graph.dims = #graph.dims<batch, "past + 1", ?>})
    -> (tensor<2x42xf32> {graph.dims = #graph.dims<batch, 42>}) {
  %0 = graph.reshape %x : tensor<2x42xf32>
  return %0 : tensor<2x42xf32>
}

// -----

// Each dimension needs one entry.
// CHECK: invalid-ir: 'func.func': graph.dims of argument 0 names 1 dimensions, tensor<2x3xf32> has 2
func.func @main(%x: tensor<2x3xf32> {graph.dims = #graph.dims<batch>}) -> tensor<2x3xf32> {
  return %x : tensor<2x3xf32>
}

// -----

// A name has the same extent in all arguments and results.
// CHECK: invalid-ir: 'func.func': dimension "n" is 2 in argument 0, and 3 in result 0
func.func @main(%x: tensor<2x3xf32> {graph.dims = #graph.dims<n, 3>})
    -> (tensor<3x2xf32> {graph.dims = #graph.dims<n, 2>}) {
  %0 = graph.reshape %x : tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// -----

// A numeric entry must equal the extent of the type.
// CHECK: invalid-ir: 'func.func': graph.dims of argument 0 says 4 where tensor<2x3xf32> has 3
func.func @main(%x: tensor<2x3xf32> {graph.dims = #graph.dims<n, 4>}) -> tensor<2x3xf32> {
  return %x : tensor<2x3xf32>
}

// -----

// Only tensors have named dimensions.
// CHECK: invalid-ir: 'func.func': argument 0 has graph.dims, but is not a tensor: f32
func.func @main(%x: f32 {graph.dims = #graph.dims<n>}) -> f32 {
  return %x : f32
}
