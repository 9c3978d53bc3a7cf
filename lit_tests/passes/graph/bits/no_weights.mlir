// RUN: tcopt %s -p 'set-target{cpu=haswell},bit-serial' | filecheck %s

// The values of weights are unknown in a module without a weight store.
// CHECK: graph.matmul %x, %w {result_element = i32} : tensor<8x24xi32>
func.func @main(%x: tensor<8x16xi8>) -> tensor<8x24xi32> {
  %w = graph.constant @w : tensor<16x24xi8>
  %y = graph.matmul %x, %w {result_element = i32} : tensor<8x24xi32>
  func.return %y : tensor<8x24xi32>
}
