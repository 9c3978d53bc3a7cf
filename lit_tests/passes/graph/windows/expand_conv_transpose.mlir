// RUN: tcopt %s -p 'set-target{cpu=haswell},expand-conv-transpose' | filecheck %s
// RUN: tcopt %s -p expand-conv-transpose | filecheck %s --check-prefix=NONE
// RUN: tcopt %s -p 'set-target{gpu=opencl},expand-conv-transpose' | filecheck %s --check-prefix=GPU

// A transposed convolution becomes a convolution whose channels are the phases of the result, and
// an interleave: stride 2 and 4 taps give 2x2 phases of 2x2 taps.
// CHECK-LABEL: func.func @few_channels
// CHECK-NEXT: %[[A:.*]] = graph.reshape %w : tensor<1x8x3x2x2x2x2xf32>
// CHECK-NEXT: %[[B:.*]] = graph.transpose %[[A]] {perm = [0, 4, 6, 2, 1, 3, 5]} : tensor<1x2x2x3x8x2x2xf32>
// CHECK-NEXT: %[[C:.*]] = graph.reshape %[[B]] : tensor<12x8x2x2xf32>
// CHECK-NEXT: %[[D:.*]] = graph.slice %[[C]] {{.*}} : tensor<12x8x2x2xf32>
// CHECK-NEXT: %[[P:.*]] = graph.conv %x, %[[D]] {pads = [1, 1, 1, 1]} : tensor<1x12x5x5xf32>
// CHECK-NEXT: graph.interleave %[[P]] {strides = [2, 2], starts = [1, 1], output = [8, 8]} : tensor<1x3x8x8xf32>
func.func @few_channels(%x: tensor<1x8x4x4xf32>, %w: tensor<8x3x4x4xf32>) -> tensor<1x3x8x8xf32> {
  %0 = graph.conv_transpose %x, %w {strides = [2, 2], pads = [1, 1, 1, 1]} : tensor<1x3x8x8xf32>
  return %0 : tensor<1x3x8x8xf32>
}

// Blocks of threads compute a matrix product for each phase. Phases that have the same windows are
// rows of one product, and those of one tap are channels of a pointwise convolution.
// GPU-LABEL: func.func @few_channels
// GPU: graph.reshape {{.*}} : tensor<4x3x32xf32>
// GPU-NEXT: %[[P:.*]] = graph.window_matmul %x, %{{.*}} {kernel = [2, 2], pads = [1, 1, 1, 1], phases = [2, 2], starts = [1, 1]} : tensor<1x12x4x4xf32>
// GPU-NEXT: graph.interleave %[[P]] {strides = [2, 2], starts = [0, 0], output = [8, 8]} : tensor<1x3x8x8xf32>
// GPU-LABEL: func.func @uneven
// GPU: graph.window_matmul {{.*}} {kernel = [2, 2], pads = [1, 1, 1, 1]} : tensor<1x64x5x5xf32>
// GPU: graph.slice {{.*}} : tensor<1x16x9x9xf32>
// GPU-LABEL: func.func @one_tap
// GPU: graph.conv {{.*}} : tensor<1x12x4x4xf32>
// GPU-LABEL: func.func @vector
// GPU: graph.window_matmul {{.*}} {kernel = [1, 1]} : tensor<2x48x1x1xf32>

// Convolutions whose channels fill vectors are left to convert-layout if there is a target.
// CHECK-LABEL: func.func @full
// CHECK-NEXT: graph.conv_transpose
// NONE-LABEL: func.func @full
// NONE: graph.conv
// NONE: graph.interleave
func.func @full(%x: tensor<1x8x4x4xf32>, %w: tensor<8x16x4x4xf32>) -> tensor<1x16x8x8xf32> {
  %0 = graph.conv_transpose %x, %w {strides = [2, 2], pads = [1, 1, 1, 1]} : tensor<1x16x8x8xf32>
  return %0 : tensor<1x16x8x8xf32>
}

// If phases differ in extent, a larger result is computed and cropped.
// CHECK-LABEL: func.func @uneven
// CHECK-NEXT: %[[W:.*]] = graph.conv_transpose %x, %w {output_pads = [1, 1], strides = [2, 2]} : tensor<1x16x10x10xf32>
// CHECK-NEXT: graph.slice %[[W]] {{.*}} : tensor<1x16x9x9xf32>
func.func @uneven(%x: tensor<1x8x4x4xf32>, %w: tensor<8x16x3x3xf32>) -> tensor<1x16x9x9xf32> {
  %0 = graph.conv_transpose %x, %w {strides = [2, 2]} : tensor<1x16x9x9xf32>
  return %0 : tensor<1x16x9x9xf32>
}

// With stride 1, dilated or not, the kernel is flipped.
// CHECK-LABEL: func.func @no_strides
// CHECK-NEXT: graph.reshape
// CHECK-NEXT: graph.transpose
// CHECK-NEXT: graph.reshape
// CHECK-NEXT: graph.slice
// CHECK-NEXT: graph.conv {{.*}} {pads = [4, 4, 4, 4], dilations = [2, 2]} : tensor<1x16x8x8xf32>
func.func @no_strides(%x: tensor<1x8x4x4xf32>, %w: tensor<8x16x3x3xf32>) -> tensor<1x16x8x8xf32> {
  %0 = graph.conv_transpose %x, %w {dilations = [2, 2]} : tensor<1x16x8x8xf32>
  return %0 : tensor<1x16x8x8xf32>
}

// Groups have adjacent phases; phases without taps are not computed.
// CHECK-LABEL: func.func @groups
// CHECK: %[[P:.*]] = graph.conv {{.*}} {pads = [1, 0, 0, 0], groups = 2} : tensor<1x32x5x4xf32>
// CHECK-NEXT: graph.interleave %[[P]] {strides = [2, 3], starts = [1, 0], output = [8, 12], groups = 2, kept = [2, 2]} : tensor<1x8x8x12xf32>
func.func @groups(%x: tensor<1x8x5x4xf32>, %w: tensor<8x4x3x2xf32>) -> tensor<1x8x8x12xf32> {
  %0 = graph.conv_transpose %x, %w {strides = [2, 3], pads = [1, 0, 2, 0], output_pads = [0, 1], groups = 2} : tensor<1x8x8x12xf32>
  return %0 : tensor<1x8x8x12xf32>
}

// Depthwise channels with one tap become multiplications.
// CHECK-LABEL: func.func @factors
// CHECK: %[[M:.*]] = graph.mul %x, %{{.*}} : tensor<1x8x4x4xf32>
// CHECK-NEXT: graph.interleave %[[M]] {strides = [2, 2], starts = [0, 0], output = [7, 7], groups = 8, kept = [1, 1]} : tensor<1x8x7x7xf32>
func.func @factors(%x: tensor<1x8x4x4xf32>, %w: tensor<8x1x1x1xf32>) -> tensor<1x8x7x7xf32> {
  %0 = graph.conv_transpose %x, %w {strides = [2, 2], groups = 8} : tensor<1x8x7x7xf32>
  return %0 : tensor<1x8x7x7xf32>
}

// CHECK-LABEL: func.func @one_tap
func.func @one_tap(%x: tensor<1x8x4x4xf32>, %w: tensor<8x3x2x2xf32>) -> tensor<1x3x8x8xf32> {
  %0 = graph.conv_transpose %x, %w {strides = [2, 2]} : tensor<1x3x8x8xf32>
  return %0 : tensor<1x3x8x8xf32>
}

// CHECK-LABEL: func.func @vector
func.func @vector(%x: tensor<2x8x1x1xf32>, %w: tensor<8x3x4x4xf32>) -> tensor<2x3x4x4xf32> {
  %0 = graph.conv_transpose %x, %w : tensor<2x3x4x4xf32>
  return %0 : tensor<2x3x4x4xf32>
}
