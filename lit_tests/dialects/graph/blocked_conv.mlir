// RUN: tcopt %s --split-input-file --verify-diagnostics | filecheck %s

// Data and weights in blocks; the result has the blocks of the weights.
// CHECK-LABEL: func.func @full
// CHECK: graph.blocked_conv %x, %w {strides = [2, 2], pads = [1, 1, 1, 1]} : tensor<1x3x4x4x4xf32>
func.func @full(%x: tensor<1x2x8x8x8xf32>, %w: tensor<3x2x3x3x8x4xf32>) -> tensor<1x3x4x4x4xf32> {
  %0 = graph.blocked_conv %x, %w {strides = [2, 2], pads = [1, 1, 1, 1]} : tensor<1x3x4x4x4xf32>
  return %0 : tensor<1x3x4x4x4xf32>
}

// -----

// Data with few channels stays plain.
// CHECK-LABEL: func.func @plain
// CHECK: graph.blocked_conv %x, %w {plain} : tensor<1x2x6x6x4xf32>
func.func @plain(%x: tensor<1x3x8x8xf32>, %w: tensor<2x3x3x3x4xf32>) -> tensor<1x2x6x6x4xf32> {
  %0 = graph.blocked_conv %x, %w {plain} : tensor<1x2x6x6x4xf32>
  return %0 : tensor<1x2x6x6x4xf32>
}

// -----

// Weights of one dimension less than the data are a filter for each channel.
// CHECK-LABEL: func.func @depthwise
// CHECK: graph.blocked_conv %x, %w {dilations = [2, 2]} : tensor<1x2x4x4x4xf32>
func.func @depthwise(%x: tensor<1x2x8x8x4xf32>, %w: tensor<2x3x3x4xf32>) -> tensor<1x2x4x4x4xf32> {
  %0 = graph.blocked_conv %x, %w {dilations = [2, 2]} : tensor<1x2x4x4x4xf32>
  return %0 : tensor<1x2x4x4x4xf32>
}

// -----

// Weights may hold channels side by side, here pairs of eight.
// CHECK-LABEL: func.func @groups
// CHECK: graph.blocked_conv %x, %w {result_element = f32} : tensor<1x3x6x6x4xf32>
func.func @groups(%x: tensor<1x2x8x8x8xbf16>, %w: tensor<3x2x3x3x4x4x2xbf16>) -> tensor<1x3x6x6x4xf32> {
  %0 = graph.blocked_conv %x, %w {result_element = f32} : tensor<1x3x6x6x4xf32>
  return %0 : tensor<1x3x6x6x4xf32>
}

// -----

// Channels of data and weights agree, block by block.
// CHECK: channels of data [1, 2, 8, 8, 8] and weights [3, 2, 3, 3, 4, 4] differ
func.func @channels(%x: tensor<1x2x8x8x8xf32>, %w: tensor<3x2x3x3x4x4xf32>) {
  %0 = graph.blocked_conv %x, %w : tensor<1x3x6x6x4xf32>
  return
}

// -----

// So do those of plain data and of depthwise weights.
// CHECK: channels of data [1, 3, 8, 8] and weights [2, 4, 3, 3, 4] differ
func.func @plain_channels(%x: tensor<1x3x8x8xf32>, %w: tensor<2x4x3x3x4xf32>) {
  %0 = graph.blocked_conv %x, %w {plain} : tensor<1x2x6x6x4xf32>
  return
}

// -----

// CHECK: channels of data [1, 2, 8, 8, 4] and weights [3, 3, 3, 4] differ
func.func @depthwise_channels(%x: tensor<1x2x8x8x4xf32>, %w: tensor<3x3x3x4xf32>) {
  %0 = graph.blocked_conv %x, %w : tensor<1x2x6x6x4xf32>
  return
}

// -----

// Weights of any other rank fit no form.
// CHECK: data of rank 5 does not fit weights of rank 5
func.func @rank(%x: tensor<1x2x8x8x4xf32>, %w: tensor<2x2x3x3x4xf32>) {
  %0 = graph.blocked_conv %x, %w : tensor<1x2x6x6x4xf32>
  return
}

// -----

// A window fits into the data.
// CHECK: a window of extent 3 does not fit into 2 + 0 + 0
func.func @window(%x: tensor<1x2x2x2x4xf32>, %w: tensor<2x2x3x3x4x4xf32>) {
  %0 = graph.blocked_conv %x, %w : tensor<1x2x1x1x4xf32>
  return
}

// -----

// Whole blocks of the result belong to a group.
// CHECK: 3 blocks do not split into 2 groups
func.func @groups(%x: tensor<1x2x8x8x4xf32>, %w: tensor<3x1x3x3x4x4xf32>) {
  %0 = graph.blocked_conv %x, %w {groups = 2} : tensor<1x3x6x6x4xf32>
  return
}

// -----

// Groups of plain data have equal parts of its channels.
// CHECK: channels of data [1, 5, 8, 8] and weights [2, 3, 3, 3, 4] differ
func.func @plain_groups(%x: tensor<1x5x8x8xf32>, %w: tensor<2x3x3x3x4xf32>) {
  %0 = graph.blocked_conv %x, %w {groups = 2, plain} : tensor<1x2x6x6x4xf32>
  return
}

// -----

// Channels by themselves are not groups.
// CHECK: depthwise weights cannot be grouped
func.func @depthwise_groups(%x: tensor<1x2x8x8x4xf32>, %w: tensor<2x3x3x4xf32>) {
  %0 = graph.blocked_conv %x, %w {groups = 2} : tensor<1x2x6x6x4xf32>
  return
}
