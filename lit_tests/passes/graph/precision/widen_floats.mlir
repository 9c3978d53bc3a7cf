// RUN: tcopt %s -p 'set-target{cpu=haswell},widen-contractions' | filecheck %s
// RUN: tcopt %s -p 'set-target{cpu=sapphirerapids},widen-contractions' | filecheck %s --check-prefix=DOTS
// RUN: tcopt %s -p 'set-target{cpu=haswell},widen-contractions,pack-matmul,convert-layout' | filecheck %s --check-prefix=LATER

// Data and weights are converted, each value once; sums are rounded as before.
// CHECK-LABEL: func.func @twice
// CHECK:       %[[X:.*]] = graph.cast %x : tensor<1x16x8x8xf32>
// CHECK-NEXT:  %[[W:.*]] = graph.cast %w : tensor<16x16x3x3xf32>
// CHECK-NEXT:  %[[A:.*]] = graph.conv %[[X]], %[[W]] {pads = [1, 1, 1, 1]} : tensor<1x16x8x8xf32>
// CHECK-NEXT:  %a = graph.cast %[[A]] : tensor<1x16x8x8xf16>
// CHECK-NEXT:  %r = graph.relu %a : tensor<1x16x8x8xf16>
// CHECK-NEXT:  %[[V:.*]] = graph.cast %v : tensor<16x4x3x3xf32>
// CHECK-NEXT:  %[[B:.*]] = graph.conv_transpose %[[X]], %[[V]] {pads = [1, 1, 1, 1]} : tensor<1x4x8x8xf32>
// CHECK-NEXT:  %b = graph.cast %[[B]] : tensor<1x4x8x8xf16>
// Elementwise operators between take the layout of blocks in 16 bits as well.
// LATER-LABEL: func.func @twice
// LATER:       graph.blocked_conv %{{.*}}, %{{.*}} {pads = [1, 1, 1, 1]} : tensor<1x2x8x8x8xf32>
// LATER:       graph.relu %{{.*}} : tensor<1x2x8x8x8xf16>
func.func @twice(%x: tensor<1x16x8x8xf16>) -> (tensor<1x16x8x8xf16>, tensor<1x4x8x8xf16>) {
  %w = graph.constant dense<0.5> : tensor<16x16x3x3xf16>
  %v = graph.constant dense<0.25> : tensor<16x4x3x3xf16>
  %a = graph.conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x16x8x8xf16>
  %r = graph.relu %a : tensor<1x16x8x8xf16>
  %b = graph.conv_transpose %x, %v {pads = [1, 1, 1, 1]} : tensor<1x4x8x8xf16>
  return %r, %b : tensor<1x16x8x8xf16>, tensor<1x4x8x8xf16>
}

// Weights that are used for many rows are converted, and packed as those of f32.
// CHECK-LABEL: func.func @rows
// CHECK:       graph.matmul %{{.*}} : tensor<64x32xf32>
// LATER-LABEL: func.func @rows
// LATER:       graph.packed_matmul %{{.*}} : tensor<64x32xf32>
func.func @rows(%x: tensor<64x64xf16>) -> tensor<64x32xf16> {
  %w = graph.constant dense<0.5> : tensor<64x32xf16>
  %y = graph.matmul %x, %w : tensor<64x32xf16>
  return %y : tensor<64x32xf16>
}

// Elements of one product each are converted as they are loaded.
// CHECK-LABEL: func.func @row
// CHECK-NOT:   graph.cast
// CHECK:       return
func.func @row(%x: tensor<1x64xf16>, %z: tensor<64x64xf16>) -> (tensor<1x32xf16>, tensor<64x1xf16>) {
  %w = graph.constant dense<0.5> : tensor<64x32xf16>
  %v = graph.constant dense<0.5> : tensor<64x1xf16>
  %y = graph.matmul %x, %w : tensor<1x32xf16>
  %u = graph.matmul %z, %v : tensor<64x1xf16>
  return %y, %u : tensor<1x32xf16>, tensor<64x1xf16>
}

// Sums that stay f32 are not rounded, and a target that multiplies bf16 does so.
// CHECK-LABEL: func.func @sums
// CHECK:       %y = graph.matmul %{{.*}} : tensor<64x32xf32>
// CHECK-NEXT:  return
// DOTS-LABEL:  func.func @sums
// DOTS-NOT:    graph.cast
// DOTS:        return
func.func @sums(%x: tensor<64x64xbf16>) -> tensor<64x32xf32> {
  %w = graph.constant dense<0.5> : tensor<64x32xbf16>
  %y = graph.matmul %x, %w {result_element = f32} : tensor<64x32xf32>
  return %y : tensor<64x32xf32>
}
