// An int8 convolution with channels in blocks, for the accelerator of tile_accelerator.py.
func.func @main(%x: tensor<1x2x6x6x4xi8>, %w: tensor<1x2x3x3x1x8x4xi8>) -> tensor<1x1x6x6x8xi32> {
  %0 = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1], result_element = i32} : tensor<1x1x6x6x8xi32>
  func.return %0 : tensor<1x1x6x6x8xi32>
}
