// RUN: tcopt %s --split-input-file --verify-diagnostics | filecheck %s

// Two-bit data in three words of channels; one-bit weights for two blocks of 16 output channels.
// CHECK-LABEL: func.func @image
// CHECK: graph.bit_conv %x, %w {strides = [2, 2], pads = [1, 1, 1, 1], exclusive} : tensor<1x2x4x4x16xi32>
func.func @image(%x: tensor<1x8x8x3x2xui32>, %w: tensor<2x3x3x3x1x16xui32>) -> tensor<1x2x4x4x16xi32> {
  %0 = graph.bit_conv %x, %w {strides = [2, 2], pads = [1, 1, 1, 1], exclusive} : tensor<1x2x4x4x16xi32>
  return %0 : tensor<1x2x4x4x16xi32>
}

// -----

// Each of two groups reads one of two words; the highest bit plane may be negative.
// CHECK-LABEL: func.func @groups
// CHECK: graph.bit_conv %x, %w {groups = 2, data_signed, weights_signed} : tensor<1x2x8x16xi32>
func.func @groups(%x: tensor<1x8x2x2xui32>, %w: tensor<2x1x1x2x16xui32>) -> tensor<1x2x8x16xi32> {
  %0 = graph.bit_conv %x, %w {groups = 2, data_signed, weights_signed} : tensor<1x2x8x16xi32>
  return %0 : tensor<1x2x8x16xi32>
}

// -----

func.func @other_words(%x: tensor<1x8x2x2xui32>, %w: tensor<2x3x1x2x16xui32>) -> tensor<1x2x8x16xi32> {
  // expected-error @+1 {{2 words of data and 3 of weights in 2 blocks do not split into 1 groups}}
  %0 = graph.bit_conv %x, %w : tensor<1x2x8x16xi32>
  return %0 : tensor<1x2x8x16xi32>
}

// -----

func.func @bytes(%x: tensor<1x8x2x2xui8>, %w: tensor<2x2x1x2x16xui8>) -> tensor<1x2x8x16xi32> {
  // expected-error @+1 {{operands should be words of 32 bits}}
  %0 = graph.bit_conv %x, %w : tensor<1x2x8x16xi32>
  return %0 : tensor<1x2x8x16xi32>
}

// -----

func.func @ranks(%x: tensor<1x8x2x2xui32>, %w: tensor<2x2x1x1x2x16xui32>) -> tensor<1x2x8x16xi32> {
  // expected-error @+1 {{data of rank 4 does not fit weights of rank 6}}
  %0 = graph.bit_conv %x, %w : tensor<1x2x8x16xi32>
  return %0 : tensor<1x2x8x16xi32>
}
