// RUN: tcopt %s -p 'set-target{cpu=znver4},winograd{precision=bf16 accuracy=fast}' | filecheck %s
// RUN: tcopt %s -p 'set-target{cpu=znver4},winograd{precision=bf16}' | filecheck %s --check-prefix=DEFAULT
// RUN: tcopt %s -p 'set-target{cpu=haswell},winograd{precision=bf16 accuracy=fast}' | filecheck %s --check-prefix=NODOT
// RUN: tcopt %s -p 'set-target{cpu=znver4},winograd{precision=bf16 accuracy=fast tile=6}' | filecheck %s --check-prefix=SIX

// Transformed data and weights are rounded and interleaved in pairs for dot products, if the
// accuracy allows it.
// CHECK-LABEL: func.func @layer
// CHECK:       %[[W:.*]] = graph.winograd_weights %w {tile = 4} : tensor<6x6x4x4x16x16xf32>
// CHECK-NEXT:  %[[C:.*]] = graph.cast %[[W]] : tensor<6x6x4x4x16x16xbf16>
// CHECK-NEXT:  %[[R:.*]] = graph.reshape %[[C]] : tensor<6x6x4x4x8x2x16xbf16>
// CHECK-NEXT:  %[[P:.*]] = graph.transpose %[[R]] {perm = [0, 1, 2, 3, 4, 6, 5]} : tensor<6x6x4x4x8x16x2xbf16>
// CHECK-NEXT:  %y = graph.winograd_conv %x, %[[P]] {tile = 4, pads = [1, 1, 1, 1]} : tensor<1x4x56x56x16xf32>
// With the default accuracy tiles stay f32, which is still faster than direct bf16 products.
// DEFAULT-LABEL: func.func @layer
// DEFAULT-NOT:   bf16
// DEFAULT:       graph.winograd_conv %x, %{{.*}} {tile = 4, pads = [1, 1, 1, 1]} : tensor<1x4x56x56x16xf32>
// Without dot products rounding gains nothing.
// NODOT-LABEL: func.func @layer
// NODOT-NOT:   bf16
// NODOT:       return
// Larger tiles would lose too much accuracy, so their data is not rounded.
// SIX-LABEL:   func.func @layer
// SIX-NOT:     bf16
// SIX:         graph.winograd_conv %x, %{{.*}} {tile = 6, pads = [1, 1, 1, 1]} : tensor<1x4x56x56x16xf32>
func.func @layer(%x: tensor<1x4x56x56x16xf32>) -> tensor<1x4x56x56x16xf32> {
  %w = graph.constant dense<0.5> : tensor<4x4x3x3x16x16xf32>
  %y = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x4x56x56x16xf32>
  return %y : tensor<1x4x56x56x16xf32>
}

// A tile chosen for an op is rounded too.
// CHECK-LABEL: func.func @chosen
// CHECK:       graph.cast %{{.*}} : tensor<4x4x4x4x16x16xbf16>
// CHECK:       graph.winograd_conv %x, %{{.*}} {tile = 2, pads = [1, 1, 1, 1], tune.winograd = 2}
// DEFAULT-LABEL: func.func @chosen
// DEFAULT-NOT:   bf16
// DEFAULT:       graph.winograd_conv %x, %{{.*}} {tile = 2, pads = [1, 1, 1, 1], tune.winograd = 2}
func.func @chosen(%x: tensor<1x4x56x56x16xf32>) -> tensor<1x4x56x56x16xf32> {
  %w = graph.constant dense<0.5> : tensor<4x4x3x3x16x16xf32>
  %y = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1], tune.winograd = 2} : tensor<1x4x56x56x16xf32>
  return %y : tensor<1x4x56x56x16xf32>
}

// Blocks with an odd number of channels cannot be paired.
// CHECK-LABEL: func.func @odd
// CHECK-NOT:   bf16
// CHECK:       return
func.func @odd(%x: tensor<1x4x56x56x3xf32>) -> tensor<1x4x56x56x16xf32> {
  %w = graph.constant dense<0.5> : tensor<4x4x3x3x3x16xf32>
  %y = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x4x56x56x16xf32>
  return %y : tensor<1x4x56x56x16xf32>
}
