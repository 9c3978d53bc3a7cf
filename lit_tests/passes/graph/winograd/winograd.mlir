// REQUIRES: long
// RUN: tcopt %s -p 'set-target{cpu=skylake-avx512},winograd' | filecheck %s
// RUN: tcopt %s -p 'set-target{cpu=skylake-avx512},winograd{accuracy=strict}' | filecheck %s --check-prefix=STRICT
// RUN: tcopt %s -p 'winograd' | filecheck %s --check-prefix=NONE
// RUN: tcopt %s -p 'winograd{tile=2}' | filecheck %s --check-prefix=TWO
// RUN: tcopt %s -p 'winograd{accuracy=exact}' --verify-diagnostics | filecheck %s --check-prefix=BAD
// RUN: tcopt %s -p 'winograd{tile=3}' | filecheck %s --check-prefix=THREE
// RUN: tcopt %s -p 'winograd{tile=8}' --verify-diagnostics | filecheck %s --check-prefix=TILE
// RUN: tcopt %s -p 'set-target{cpu=znver4},winograd{precision=bf16}' | filecheck %s --check-prefix=PAIRS
// RUN: tcopt %s -p 'set-target{cpu=skylake-avx512},winograd{precision=bf16}' | filecheck %s --check-prefix=WIDE
// RUN: tcopt %s -p 'winograd{precision=f8}' --verify-diagnostics | filecheck %s --check-prefix=FEW

// With many tiles the default is F(4x4); F(2x2) under strict accuracy; nothing without a target.
// CHECK-LABEL: func.func @large
// CHECK:       %[[W:.*]] = graph.winograd_weights %w {tile = 4} : tensor<6x6x4x4x16x16xf32>
// CHECK-NEXT:  %y = graph.winograd_conv %x, %[[W]] {tile = 4, pads = [1, 1, 1, 1]} : tensor<1x4x56x56x16xf32>
// STRICT-LABEL: func.func @large
// STRICT:       graph.winograd_conv %x, %{{.*}} {tile = 2, pads = [1, 1, 1, 1]}
// NONE-NOT:     graph.winograd
// TWO-LABEL:    func.func @large
// TWO:          graph.winograd_conv %x, %{{.*}} {tile = 2, pads = [1, 1, 1, 1]}
// BAD:          winograd: accuracy = 'exact' is none of strict, default, fast
// PAIRS-LABEL:  func.func @large
// PAIRS:        graph.winograd_conv
// FEW:          winograd: precision = 'f8' is none of f32, bf16, f16
// TILE:         winograd: tile = 8 is none of 2, 3, 4, 5, 6, 7
func.func @large(%x: tensor<1x4x56x56x16xf32>) -> tensor<1x4x56x56x16xf32> {
  %w = graph.constant dense<0.5> : tensor<4x4x3x3x16x16xf32>
  %y = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x4x56x56x16xf32>
  return %y : tensor<1x4x56x56x16xf32>
}

// A single 4 x 4 tile has too few rows for the contraction.
// CHECK-LABEL: func.func @single
// CHECK-NOT:   graph.winograd_conv {{.*}}tile = 4
func.func @single(%x: tensor<1x1x4x4x16xf32>) -> tensor<1x1x4x4x16xf32> {
  %w = graph.constant dense<0.5> : tensor<1x1x3x3x16x16xf32>
  %y = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x1x4x4x16xf32>
  return %y : tensor<1x1x4x4x16xf32>
}

// Convolutions with strides that do not divide the kernel, or without constant weights, stay
// direct.
// CHECK-LABEL: func.func @direct
// CHECK-NOT:   graph.winograd
// CHECK:       return
// TWO-LABEL:   func.func @direct
// TWO-NOT:     graph.winograd
// TWO:         return
func.func @direct(%x: tensor<1x4x57x57x16xf32>, %v: tensor<4x4x3x3x16x16xf32>) -> (tensor<1x4x29x29x16xf32>, tensor<1x4x55x55x16xf32>) {
  %w = graph.constant dense<0.5> : tensor<4x4x3x3x16x16xf32>
  %a = graph.blocked_conv %x, %w {strides = [2, 2], pads = [1, 1, 1, 1]} : tensor<1x4x29x29x16xf32>
  %c = graph.blocked_conv %x, %v : tensor<1x4x55x55x16xf32>
  return %a, %c : tensor<1x4x29x29x16xf32>, tensor<1x4x55x55x16xf32>
}

// A five-tap kernel uses tiles of two, with as many products as three taps with tiles of four.
// CHECK-LABEL:  func.func @five
// CHECK:        %[[U:.*]] = graph.winograd_weights %w {tile = 2} : tensor<6x6x4x4x16x16xf32>
// CHECK-NEXT:   graph.winograd_conv %x, %[[U]] {tile = 2, pads = [2, 2, 2, 2]}
// STRICT-LABEL: func.func @five
// STRICT:       graph.blocked_conv
func.func @five(%x: tensor<1x4x28x28x16xf32>) -> tensor<1x4x28x28x16xf32> {
  %w = graph.constant dense<0.5> : tensor<4x4x5x5x16x16xf32>
  %y = graph.blocked_conv %x, %w {pads = [2, 2, 2, 2]} : tensor<1x4x28x28x16xf32>
  return %y : tensor<1x4x28x28x16xf32>
}

// For stride 2, each combination of row and column parity is a channel of a convolution with 2x2
// kernels.
// THREE-LABEL: func.func @stride
// THREE:       %[[PARTS:.*]] = graph.reshape %w : tensor<4x4x2x2x2x2x16x16xf32>
// THREE-NEXT:  %[[APART:.*]] = graph.transpose %[[PARTS]] {perm = [0, 1, 3, 5, 2, 4, 6, 7]}
// THREE-NEXT:  %[[TAPS:.*]] = graph.reshape %[[APART]] : tensor<4x16x2x2x16x16xf32>
// THREE-NEXT:  %[[U:.*]] = graph.winograd_weights %[[TAPS]] {tile = 3} : tensor<4x4x4x16x16x16xf32>
// THREE-NEXT:  graph.winograd_conv %x, %[[U]] {tile = 3, stride = 2, pads = [1, 1, 1, 1]} : tensor<1x4x14x14x16xf32>
func.func @stride(%x: tensor<1x4x28x28x16xf32>) -> tensor<1x4x14x14x16xf32> {
  %w = graph.constant dense<0.5> : tensor<4x4x4x4x16x16xf32>
  %y = graph.blocked_conv %x, %w {strides = [2, 2], pads = [1, 1, 1, 1]} : tensor<1x4x14x14x16xf32>
  return %y : tensor<1x4x14x14x16xf32>
}

// A tile of a transposed convolution holds outputs of all phases, whose taps are consecutive.
// THREE-LABEL: func.func @phases
// THREE:       %[[BESIDE:.*]] = graph.transpose %w {perm = [0, 3, 1, 4, 2, 5, 6, 7]}
// THREE-NEXT:  %[[TAPS:.*]] = graph.reshape %[[BESIDE]] : tensor<2x4x4x4x16x16xf32>
// THREE-NEXT:  %[[U:.*]] = graph.winograd_weights %[[TAPS]] {tile = 3, phases = 2} : tensor<8x8x2x4x16x16xf32>
// THREE-NEXT:  graph.winograd_conv %x, %[[U]] {tile = 3, phases = 2, starts = [1, 1], pads = [1, 1, 1, 1]} : tensor<1x2x32x32x16xf32>
func.func @phases(%x: tensor<1x4x16x16x16xf32>) -> tensor<1x2x32x32x16xf32> {
  %w = graph.constant dense<0.5> : tensor<2x2x2x4x2x2x16x16xf32>
  %y = graph.blocked_conv_transpose %x, %w {starts = [1, 1], pads = [1, 1, 1, 1]} : tensor<1x2x32x32x16xf32>
  return %y : tensor<1x2x32x32x16xf32>
}

// Each group is a separate convolution, whose result is written to its slice of the whole.
// CHECK-LABEL: func.func @groups
// CHECK:       %[[X0:.*]] = graph.slice %x {starts = [0, 0, 0, 0, 0]} : tensor<1x4x56x56x16xf32>
// CHECK-NEXT:  %[[W0:.*]] = graph.slice %w {starts = [0, 0, 0, 0, 0, 0]} : tensor<4x4x3x3x16x16xf32>
// CHECK-NEXT:  %[[U0:.*]] = graph.winograd_weights %[[W0]] {tile = 4}
// CHECK-NEXT:  %[[Y0:.*]] = graph.winograd_conv %[[X0]], %[[U0]]
// CHECK-NEXT:  %[[X1:.*]] = graph.slice %x {starts = [0, 4, 0, 0, 0]} : tensor<1x4x56x56x16xf32>
// CHECK-NEXT:  %[[W1:.*]] = graph.slice %w {starts = [4, 0, 0, 0, 0, 0]} : tensor<4x4x3x3x16x16xf32>
// CHECK:       graph.concat %[[Y0]], %{{.*}} {axis = 1} : tensor<1x8x56x56x16xf32>
// With several images the groups' results are not contiguous, and small groups do not pay off.
// CHECK-LABEL: func.func @images
// CHECK-NOT:   graph.winograd
// CHECK-LABEL: func.func @narrow
// CHECK-NOT:   graph.winograd
func.func @groups(%x: tensor<1x8x56x56x16xf32>) -> tensor<1x8x56x56x16xf32> {
  %w = graph.constant dense<0.5> : tensor<8x4x3x3x16x16xf32>
  %y = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1], groups = 2} : tensor<1x8x56x56x16xf32>
  return %y : tensor<1x8x56x56x16xf32>
}
func.func @images(%x: tensor<2x8x56x56x16xf32>) -> tensor<2x8x56x56x16xf32> {
  %w = graph.constant dense<0.5> : tensor<8x4x3x3x16x16xf32>
  %y = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1], groups = 2} : tensor<2x8x56x56x16xf32>
  return %y : tensor<2x8x56x56x16xf32>
}
func.func @narrow(%x: tensor<1x8x14x14x16xf32>) -> tensor<1x8x14x14x16xf32> {
  %w = graph.constant dense<0.5> : tensor<8x1x3x3x16x16xf32>
  %y = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1], groups = 8} : tensor<1x8x14x14x16xf32>
  return %y : tensor<1x8x14x14x16xf32>
}

// The transforms of many phases would need too much code.
// CHECK-LABEL: func.func @many
// CHECK-NOT:   graph.winograd
// CHECK:       return
func.func @many(%x: tensor<1x16x16x16x16xf32>) -> tensor<1x16x64x64x16xf32> {
  %w = graph.constant dense<0.5> : tensor<16x4x4x16x2x2x16x16xf32>
  %y = graph.blocked_conv_transpose %x, %w {starts = [2, 2], pads = [1, 1, 1, 1]} : tensor<1x16x64x64x16xf32>
  return %y : tensor<1x16x64x64x16xf32>
}

// Three-dimensional data with few channels has the rank of blocked images, but is not blocked.
// CHECK-LABEL: func.func @volume
// CHECK-NOT:   graph.winograd
// CHECK:       graph.blocked_conv
func.func @volume(%x: tensor<1x3x8x56x56xf32>) -> tensor<1x4x8x56x56x16xf32> {
  %w = graph.constant dense<0.5> : tensor<4x3x3x3x3x16xf32>
  %y = graph.blocked_conv %x, %w {plain, pads = [1, 1, 1, 1, 1, 1]} : tensor<1x4x8x56x56x16xf32>
  return %y : tensor<1x4x8x56x56x16xf32>
}

// If a target has a dot product of rounded pairs, the direct form is twice as fast.
// CHECK-LABEL: func.func @few_channels
// CHECK:       graph.winograd_conv
// WIDE-LABEL:  func.func @few_channels
// WIDE:        graph.winograd_conv
// PAIRS-LABEL: func.func @few_channels
// PAIRS:       graph.blocked_conv
func.func @few_channels(%x: tensor<1x1x56x56x16xf32>) -> tensor<1x1x56x56x16xf32> {
  %w = graph.constant dense<0.5> : tensor<1x1x3x3x16x16xf32>
  %y = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x1x56x56x16xf32>
  return %y : tensor<1x1x56x56x16xf32>
}
