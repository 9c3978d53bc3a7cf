// x * sigmoid(x), a silu, multiplied by y; and a similar product that is not a silu.
builtin.module {
  func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
    %0 = graph.sigmoid %x : tensor<4x8xf32>
    %1 = graph.mul %x, %0 : tensor<4x8xf32>
    %2 = graph.mul %1, %y : tensor<4x8xf32>
    %3 = graph.mul %y, %0 : tensor<4x8xf32>
    func.return %2, %3 : tensor<4x8xf32>, tensor<4x8xf32>
  }
}
