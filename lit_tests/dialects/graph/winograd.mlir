// RUN: tcopt %s --split-input-file --verify-diagnostics | filecheck %s

// Filters are transformed to 6 x 6 tiles before blocking, and the convolution takes them in that
// form.
// CHECK-LABEL: func.func @conv
// CHECK: graph.winograd_weights %w {tile = 4} : tensor<6x6x3x2x8x8xf32>
// CHECK: graph.winograd_conv %x, %u {tile = 4, pads = [1, 1, 1, 1]} : tensor<1x3x9x7x8xf32>
func.func @conv(%x: tensor<1x2x9x7x8xf32>, %w: tensor<3x2x3x3x8x8xf32>) -> tensor<1x3x9x7x8xf32> {
  %u = graph.winograd_weights %w {tile = 4} : tensor<6x6x3x2x8x8xf32>
  %y = graph.winograd_conv %x, %u {tile = 4, pads = [1, 1, 1, 1]} : tensor<1x3x9x7x8xf32>
  return %y : tensor<1x3x9x7x8xf32>
}

// -----

// Other kernel sizes have other tiles; a stride multiplies the data channels, phases multiply the
// result.
// CHECK-LABEL: func.func @others
// CHECK: graph.winograd_conv %x, %u {tile = 3, stride = 2} : tensor<1x3x9x9x8xf32>
// CHECK: graph.winograd_conv %x, %v {tile = 2, phases = 2, starts = [1, 1], pads = [1, 1, 1, 1]} : tensor<1x3x40x40x8xf32>
func.func @others(%x: tensor<1x2x20x20x8xf32>, %u: tensor<4x4x3x8x8x8xf32>, %v: tensor<6x6x3x2x8x8xf32>) -> (tensor<1x3x9x9x8xf32>, tensor<1x3x40x40x8xf32>) {
  %a = graph.winograd_conv %x, %u {tile = 3, stride = 2} : tensor<1x3x9x9x8xf32>
  %b = graph.winograd_conv %x, %v {tile = 2, phases = 2, starts = [1, 1], pads = [1, 1, 1, 1]} : tensor<1x3x40x40x8xf32>
  return %a, %b : tensor<1x3x9x9x8xf32>, tensor<1x3x40x40x8xf32>
}

// -----

// Tile sizes without interpolation points are rejected.
// CHECK: tile = 3 is not one of 2, 4, 6
func.func @tile(%w: tensor<3x2x3x3x8x8xf32>) {
  %u = graph.winograd_weights %w {tile = 3} : tensor<5x5x3x2x8x8xf32>
  return
}

// -----

// Kernels must be square.
// CHECK: weights [3, 2, 5, 3, 8, 8] are not [O / b, C / a, k, k, a, b]
func.func @kernel(%w: tensor<3x2x5x3x8x8xf32>) {
  %u = graph.winograd_weights %w {tile = 2} : tensor<4x4x3x2x8x8xf32>
  return
}

// -----

// Each phase must have the same number of taps.
// CHECK: 3 taps do not split into 2 phases
func.func @taps(%w: tensor<3x2x3x3x8x8xf32>) {
  %u = graph.winograd_weights %w {tile = 2, phases = 2} : tensor<4x4x3x2x8x8xf32>
  return
}

// -----

// Weights transformed for another tile are rejected.
// CHECK: do not fit tiles
func.func @other(%x: tensor<1x2x9x7x8xf32>, %u: tensor<4x4x3x2x8x8xf32>) {
  %y = graph.winograd_conv %x, %u {tile = 4} : tensor<1x3x7x5x8xf32>
  return
}

// -----

// The channels of data and weights must agree, block by block.
// CHECK: channels of data [1, 4, 9, 7, 4] and weights [6, 6, 3, 2, 8, 8] differ
func.func @channels(%x: tensor<1x4x9x7x4xf32>, %u: tensor<6x6x3x2x8x8xf32>) {
  %y = graph.winograd_conv %x, %u {tile = 4} : tensor<1x3x7x5x8xf32>
  return
}

// -----

// Each start must be the index of a phase.
// CHECK: starts [1, 2] are not a pair of 2 phases
func.func @starts(%x: tensor<1x2x20x20x8xf32>, %u: tensor<6x6x3x2x8x8xf32>) {
  %y = graph.winograd_conv %x, %u {tile = 2, phases = 2, starts = [1, 2], pads = [1, 1, 1, 1]} : tensor<1x3x40x40x8xf32>
  return
}

// -----

// With plain channels, the weights are not blocked either.
// CHECK-LABEL: func.func @plain
// CHECK: graph.winograd_plain_conv %x, %u {tile = 4, pads = [1, 1, 1, 1]} : tensor<1x3x9x7xf32>
func.func @plain(%x: tensor<1x2x9x7xf32>, %u: tensor<6x6x2x3xf32>) -> tensor<1x3x9x7xf32> {
  %y = graph.winograd_plain_conv %x, %u {tile = 4, pads = [1, 1, 1, 1]} : tensor<1x3x9x7xf32>
  return %y : tensor<1x3x9x7xf32>
}

// -----

// The number of plain channels must agree.
// CHECK: channels of data [1, 4, 9, 7] and weights [6, 6, 2, 3] differ
func.func @plain_channels(%x: tensor<1x4x9x7xf32>, %u: tensor<6x6x2x3xf32>) {
  %y = graph.winograd_plain_conv %x, %u {tile = 4} : tensor<1x3x7x5xf32>
  return
}

// -----

// CHECK: data [1, 2, 9, 7] and weights [4, 4, 2, 3] do not fit tiles
func.func @plain_tiles(%x: tensor<1x2x9x7xf32>, %u: tensor<4x4x2x3xf32>) {
  %y = graph.winograd_plain_conv %x, %u {tile = 4} : tensor<1x3x7x5xf32>
  return
}

// -----

// 16-bit integers accumulate in 32 bits; channels may be stored in pairs for dot products.
// CHECK-LABEL: func.func @integers
// CHECK: graph.winograd_weights %w {tile = 4} : tensor<6x6x3x2x8x8xi16>
// CHECK: graph.winograd_conv %x, %u {tile = 4, pads = [1, 1, 1, 1]} : tensor<1x3x9x7x8xi32>
// CHECK: graph.winograd_conv %x, %g {tile = 4, pads = [1, 1, 1, 1]} : tensor<1x3x9x7x8xi32>
func.func @integers(%x: tensor<1x2x9x7x8xi16>, %w: tensor<3x2x3x3x8x8xi16>, %g: tensor<6x6x3x2x4x8x2xi16>) {
  %u = graph.winograd_weights %w {tile = 4} : tensor<6x6x3x2x8x8xi16>
  %y = graph.winograd_conv %x, %u {tile = 4, pads = [1, 1, 1, 1]} : tensor<1x3x9x7x8xi32>
  %z = graph.winograd_conv %x, %g {tile = 4, pads = [1, 1, 1, 1]} : tensor<1x3x9x7x8xi32>
  return
}

// -----

// Integers allow only small tiles, because larger ones have fractional points.
// CHECK: tile = 6 is not one of 2, 4
func.func @fractions(%w: tensor<3x2x3x3x8x8xi16>) {
  %u = graph.winograd_weights %w {tile = 6} : tensor<8x8x3x2x8x8xi16>
  return
}

// -----

// Paired channels must still match the channels of the data.
// CHECK: channels of data [1, 2, 9, 7, 8] and weights [6, 6, 3, 2, 8, 8, 2] differ
func.func @pairs(%x: tensor<1x2x9x7x8xi16>, %u: tensor<6x6x3x2x8x8x2xi16>) {
  %y = graph.winograd_conv %x, %u {tile = 4} : tensor<1x3x7x5x8xi32>
  return
}

// -----

// CHECK: integers and rounded data need channels in blocks
func.func @plain_integers(%x: tensor<1x2x9x7xi16>, %u: tensor<6x6x2x3xi16>) {
  %y = graph.winograd_plain_conv %x, %u {tile = 4} : tensor<1x3x7x5xi32>
  return
}

// -----

// f32 data is rounded to the type of the weights after its transform, and sums stay in f32.
// CHECK-LABEL: func.func @rounded
// CHECK: graph.winograd_conv %x, %u {tile = 4, pads = [1, 1, 1, 1]} : tensor<1x3x9x7x8xf32>
// CHECK: graph.winograd_conv %x, %g {tile = 4, pads = [1, 1, 1, 1]} : tensor<1x3x9x7x8xf32>
func.func @rounded(%x: tensor<1x2x9x7x8xf32>, %u: tensor<6x6x3x2x8x8xf16>, %g: tensor<6x6x3x2x4x8x2xbf16>) {
  %y = graph.winograd_conv %x, %u {tile = 4, pads = [1, 1, 1, 1]} : tensor<1x3x9x7x8xf32>
  %z = graph.winograd_conv %x, %g {tile = 4, pads = [1, 1, 1, 1]} : tensor<1x3x9x7x8xf32>
  return
}

// -----

// CHECK: integers and rounded data need channels in blocks
func.func @plain_rounded(%x: tensor<1x2x9x7xf32>, %u: tensor<6x6x2x3xbf16>) {
  %y = graph.winograd_plain_conv %x, %u {tile = 4} : tensor<1x3x7x5xf32>
  return
}

// -----

// Weights must not be wider than data.
// CHECK: operands differ in element type: bf16, f32
func.func @wider(%x: tensor<1x2x9x7x8xbf16>, %u: tensor<6x6x3x2x8x8xf32>) {
  %y = graph.winograd_conv %x, %u {tile = 4} : tensor<1x3x7x5x8xf32>
  return
}
