// RUN: tcopt %s --verify-diagnostics --split-input-file | filecheck %s

// Random bits depend on a key and on a stream number for each operator.
// CHECK-LABEL: func.func @bits
func.func @bits(%key: tensor<1xi64>) -> tensor<4x3xui32> {
  // CHECK: graph.random_bits %key {stream = 7} : tensor<4x3xui32>
  %0 = graph.random_bits %key {stream = 7} : tensor<4x3xui32>
  return %0 : tensor<4x3xui32>
}

// -----

// A key must have 64 bits.
// CHECK: the key must be a tensor<1xi64>, got tensor<2xi32>
func.func @key(%key: tensor<2xi32>) -> tensor<4xui32> {
  %0 = graph.random_bits %key : tensor<4xui32>
  return %0 : tensor<4xui32>
}

// -----

// Random bits must be unsigned.
// CHECK: bits must be ui32, got i32
func.func @sign(%key: tensor<1xi64>) -> tensor<4xi32> {
  %0 = graph.random_bits %key : tensor<4xi32>
  return %0 : tensor<4xi32>
}
