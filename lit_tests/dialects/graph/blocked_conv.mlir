// RUN: tcopt %s --split-input-file --verify-diagnostics | filecheck %s

// Data and weights in blocked layout; the result has the channel blocks of the weights.
// CHECK-LABEL: func.func @full
// CHECK: graph.blocked_conv %x, %w {strides = [2, 2], pads = [1, 1, 1, 1]} : tensor<1x3x4x4x4xf32>
func.func @full(%x: tensor<1x2x8x8x8xf32>, %w: tensor<3x2x3x3x8x4xf32>) -> tensor<1x3x4x4x4xf32> {
  %0 = graph.blocked_conv %x, %w {strides = [2, 2], pads = [1, 1, 1, 1]} : tensor<1x3x4x4x4xf32>
  return %0 : tensor<1x3x4x4x4xf32>
}

// -----

// Data with few channels keeps the plain layout.
// CHECK-LABEL: func.func @plain
// CHECK: graph.blocked_conv %x, %w {plain} : tensor<1x2x6x6x4xf32>
func.func @plain(%x: tensor<1x3x8x8xf32>, %w: tensor<2x3x3x3x4xf32>) -> tensor<1x2x6x6x4xf32> {
  %0 = graph.blocked_conv %x, %w {plain} : tensor<1x2x6x6x4xf32>
  return %0 : tensor<1x2x6x6x4xf32>
}

// -----

// Weights with one dimension fewer than the data are depthwise filters.
// CHECK-LABEL: func.func @depthwise
// CHECK: graph.blocked_conv %x, %w {dilations = [2, 2]} : tensor<1x2x4x4x4xf32>
func.func @depthwise(%x: tensor<1x2x8x8x4xf32>, %w: tensor<2x3x3x4xf32>) -> tensor<1x2x4x4x4xf32> {
  %0 = graph.blocked_conv %x, %w {dilations = [2, 2]} : tensor<1x2x4x4x4xf32>
  return %0 : tensor<1x2x4x4x4xf32>
}

// -----

// Weights may interleave groups of input channels, here pairs in blocks of eight.
// CHECK-LABEL: func.func @groups
// CHECK: graph.blocked_conv %x, %w {result_element = f32} : tensor<1x3x6x6x4xf32>
func.func @groups(%x: tensor<1x2x8x8x8xbf16>, %w: tensor<3x2x3x3x4x4x2xbf16>) -> tensor<1x3x6x6x4xf32> {
  %0 = graph.blocked_conv %x, %w {result_element = f32} : tensor<1x3x6x6x4xf32>
  return %0 : tensor<1x3x6x6x4xf32>
}

// -----

// The channels of data and weights must agree, block by block.
// CHECK: channels of data [1, 2, 8, 8, 8] and weights [3, 2, 3, 3, 4, 4] differ
func.func @channels(%x: tensor<1x2x8x8x8xf32>, %w: tensor<3x2x3x3x4x4xf32>) {
  %0 = graph.blocked_conv %x, %w : tensor<1x3x6x6x4xf32>
  return
}

// -----

// The channels of plain data and of depthwise weights must agree too.
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

// Weights of any other rank are rejected.
// CHECK: data of rank 5 does not fit weights of rank 5
func.func @rank(%x: tensor<1x2x8x8x4xf32>, %w: tensor<2x2x3x3x4xf32>) {
  %0 = graph.blocked_conv %x, %w : tensor<1x2x6x6x4xf32>
  return
}

// -----

// The window must fit in the padded data.
// CHECK: a window of extent 3 does not fit into 2 + 0 + 0
func.func @window(%x: tensor<1x2x2x2x4xf32>, %w: tensor<2x2x3x3x4x4xf32>) {
  %0 = graph.blocked_conv %x, %w : tensor<1x2x1x1x4xf32>
  return
}

// -----

// Each group must have whole blocks of output channels.
// CHECK: 3 blocks do not split into 2 groups
func.func @groups(%x: tensor<1x2x8x8x4xf32>, %w: tensor<3x1x3x3x4x4xf32>) {
  %0 = graph.blocked_conv %x, %w {groups = 2} : tensor<1x3x6x6x4xf32>
  return
}

// -----

// The channels of plain data must divide evenly into the groups.
// CHECK: channels of data [1, 5, 8, 8] and weights [2, 3, 3, 3, 4] differ
func.func @plain_groups(%x: tensor<1x5x8x8xf32>, %w: tensor<2x3x3x3x4xf32>) {
  %0 = graph.blocked_conv %x, %w {groups = 2, plain} : tensor<1x2x6x6x4xf32>
  return
}

// -----

// Depthwise weights cannot have groups.
// CHECK: depthwise weights cannot be grouped
func.func @depthwise_groups(%x: tensor<1x2x8x8x4xf32>, %w: tensor<2x3x3x4xf32>) {
  %0 = graph.blocked_conv %x, %w {groups = 2} : tensor<1x2x6x6x4xf32>
  return
}
