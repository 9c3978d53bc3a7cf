// RUN: tcopt %s -p 'set-target{cpu=skylake-avx512},convert-layout' | filecheck %s --check-prefix=PLAIN
// RUN: tcopt %s -p 'set-target{cpu=cascadelake},convert-layout' | filecheck %s --check-prefix=DOT

// A 1x1 convolution between plain data stays plain, unless the target needs blocks for its byte dot
// products.
// PLAIN-LABEL: func.func @bytes
// PLAIN-NEXT:  graph.conv
// DOT-LABEL:   func.func @bytes
// DOT:         graph.blocked_conv
func.func @bytes(%x: tensor<1x64x28x28xui8>, %w: tensor<64x64x1x1xi8>) -> tensor<1x64x28x28xi32> {
  %c = graph.conv %x, %w {result_element = i32} : tensor<1x64x28x28xi32>
  return %c : tensor<1x64x28x28xi32>
}

// With few channels, computing in plain layout is faster than the transforms.
// DOT-LABEL: func.func @few
// DOT-NEXT:  graph.conv
func.func @few(%x: tensor<1x4x28x28xui8>, %w: tensor<8x4x1x1xi8>) -> tensor<1x8x28x28xi32> {
  %c = graph.conv %x, %w {result_element = i32} : tensor<1x8x28x28xi32>
  return %c : tensor<1x8x28x28xi32>
}

// Floats have no dot-product instruction, so they stay plain.
// DOT-LABEL: func.func @floats
// DOT-NEXT:  graph.conv
func.func @floats(%x: tensor<1x64x28x28xf32>, %w: tensor<64x64x1x1xf32>) -> tensor<1x64x28x28xf32> {
  %c = graph.conv %x, %w : tensor<1x64x28x28xf32>
  return %c : tensor<1x64x28x28xf32>
}
