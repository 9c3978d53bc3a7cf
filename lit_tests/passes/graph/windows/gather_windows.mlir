// RUN: tcopt %s -p 'set-target{gpu=sm_90},gather-windows' | filecheck %s

// Pixels of a strided convolution read elements of a row with gaps.
// CHECK-LABEL: func.func @strided
// CHECK-NEXT: %[[W:.*]] = graph.reshape %w : tensor<1x128x576xf32>
// CHECK-NEXT: graph.window_matmul %x, %[[W]] {kernel = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]} : tensor<1x128x28x28xf32>
func.func @strided(%x: tensor<1x64x56x56xf32>, %w: tensor<128x64x3x3xf32>) -> tensor<1x128x28x28xf32> {
  %0 = graph.conv %x, %w {strides = [2, 2], pads = [1, 1, 1, 1]} : tensor<1x128x28x28xf32>
  func.return %0 : tensor<1x128x28x28xf32>
}

// Windows without gaps, of one element or of tensor cores' types, are not gathered.
// CHECK-LABEL: func.func @direct
// CHECK-COUNT-3: graph.conv
func.func @direct(%x: tensor<1x64x56x56xf32>, %w: tensor<128x64x3x3xf32>, %p: tensor<512x64x1x1xf32>, %h: tensor<1x64x56x56xf16>, %v: tensor<128x64x3x3xf16>) -> (tensor<1x128x54x54xf32>, tensor<1x512x28x28xf32>, tensor<1x128x27x27xf32>) {
  %0 = graph.conv %x, %w : tensor<1x128x54x54xf32>
  %1 = graph.conv %x, %p {strides = [2, 2]} : tensor<1x512x28x28xf32>
  %2 = graph.conv %h, %v {strides = [2, 2], result_element = f32} : tensor<1x128x27x27xf32>
  func.return %0, %1, %2 : tensor<1x128x54x54xf32>, tensor<1x512x28x28xf32>, tensor<1x128x27x27xf32>
}

// A kernel of few products takes as long as its launch.
// CHECK-LABEL: func.func @few
// CHECK-NEXT: graph.conv
func.func @few(%x: tensor<1x16x20x20xf32>, %w: tensor<32x16x4x4xf32>) -> tensor<1x32x9x9xf32> {
  %0 = graph.conv %x, %w {strides = [2, 2]} : tensor<1x32x9x9xf32>
  func.return %0 : tensor<1x32x9x9xf32>
}
