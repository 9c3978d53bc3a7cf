// RUN: tcopt %s -p 'set-target{cpu=skylake-avx512},winograd' | filecheck %s

// The weights of F(4x4) take longer to read than one image to compute, but serve four images. F(2x2)
// is slower for four images by less than F(4x4) is for one: it has the lowest maximum ratio to the
// fastest of each batch.
// CHECK-LABEL: func.func @one_to_four
// CHECK:       graph.winograd_conv %x, %{{.*}} {tile = 2, pads = [1, 1, 1, 1]}
func.func @one_to_four(%x: tensor<4x32x7x7x16xf32, #size.dims<n[1:4], 32, 7, 7, 16>>) -> tensor<4x32x7x7x16xf32, #size.dims<n[1:4], 32, 7, 7, 16>> attributes {size.symbols = #size.dims<n[1:4]>} {
  %w = graph.constant dense<0.5> : tensor<32x32x3x3x16x16xf32>
  %y = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1]} : tensor<4x32x7x7x16xf32, #size.dims<n[1:4], 32, 7, 7, 16>>
  return %y : tensor<4x32x7x7x16xf32, #size.dims<n[1:4], 32, 7, 7, 16>>
}

// All batches of this range have enough tiles for F(4x4), as the upper bound has without a range.
// CHECK-LABEL: func.func @four_to_sixteen
// CHECK:       graph.winograd_conv %x, %{{.*}} {tile = 4, pads = [1, 1, 1, 1]}
// CHECK-LABEL: func.func @four
// CHECK:       graph.winograd_conv %x, %{{.*}} {tile = 4, pads = [1, 1, 1, 1]}
func.func @four_to_sixteen(%x: tensor<16x32x7x7x16xf32, #size.dims<n[4:16], 32, 7, 7, 16>>) -> tensor<16x32x7x7x16xf32, #size.dims<n[4:16], 32, 7, 7, 16>> attributes {size.symbols = #size.dims<n[4:16]>} {
  %w = graph.constant dense<0.5> : tensor<32x32x3x3x16x16xf32>
  %y = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1]} : tensor<16x32x7x7x16xf32, #size.dims<n[4:16], 32, 7, 7, 16>>
  return %y : tensor<16x32x7x7x16xf32, #size.dims<n[4:16], 32, 7, 7, 16>>
}
func.func @four(%x: tensor<4x32x7x7x16xf32>) -> tensor<4x32x7x7x16xf32> {
  %w = graph.constant dense<0.5> : tensor<32x32x3x3x16x16xf32>
  %y = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1]} : tensor<4x32x7x7x16xf32>
  return %y : tensor<4x32x7x7x16xf32>
}
