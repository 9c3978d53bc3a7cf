// A dense layer from 2 rows of 8 features to 2 rows of 16 features.
builtin.module attributes {graph.inputs = ["x", "w", "b"], graph.outputs = ["y"]} {
  func.func @main(%x: tensor<2x8xf32>, %w: tensor<8x16xf32>, %b: tensor<16xf32>) -> tensor<2x16xf32> {
    %0 = graph.matmul %x, %w : tensor<2x16xf32>
    %1 = graph.add %0, %b : tensor<2x16xf32>
    %2 = graph.relu %1 : tensor<2x16xf32>
    func.return %2 : tensor<2x16xf32>
  }
}
