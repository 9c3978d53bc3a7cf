// RUN: tcopt %s -p 'set-target{cpu=haswell},widen-floats' | filecheck %s
// RUN: tcopt %s -p 'set-target{cpu=haswell},widen-floats{accuracy=fast}' | filecheck %s --check-prefix=FAST
// RUN: tcopt %s -p 'set-target{cpu=sapphirerapids},widen-floats' | filecheck %s --check-prefix=DOTS
// RUN: tcopt %s -p 'set-target{cpu=haswell},widen-floats,pack-matmul,convert-layout' | filecheck %s --check-prefix=LATER

// Data and weights are converted once each; sums are rounded only for results.
// CHECK-LABEL: func.func @twice
// CHECK:       %[[X:.*]] = graph.cast %x : tensor<1x16x8x8xf32>
// CHECK-NEXT:  %[[W:.*]] = graph.cast %w : tensor<16x16x3x3xf32>
// CHECK-NEXT:  %[[A:.*]] = graph.conv %[[X]], %[[W]] {pads = [1, 1, 1, 1]} : tensor<1x16x8x8xf32>
// CHECK-NEXT:  %[[R:.*]] = graph.relu %[[A]] : tensor<1x16x8x8xf32>
// CHECK-NEXT:  %r = graph.cast %[[R]] : tensor<1x16x8x8xf16>
// CHECK-NEXT:  %[[V:.*]] = graph.cast %v : tensor<16x4x3x3xf32>
// CHECK-NEXT:  %[[B:.*]] = graph.conv_transpose %[[X]], %[[V]] {pads = [1, 1, 1, 1]} : tensor<1x4x8x8xf32>
// CHECK-NEXT:  %b = graph.cast %[[B]] : tensor<1x4x8x8xf16>
// Elementwise operators after them use the blocked layout.
// LATER-LABEL: func.func @twice
// LATER:       graph.blocked_conv %{{.*}}, %{{.*}} {pads = [1, 1, 1, 1]} : tensor<1x2x8x8x8xf32>
// LATER:       graph.relu %{{.*}} : tensor<1x2x8x8x8xf32>
func.func @twice(%x: tensor<1x16x8x8xf16>) -> (tensor<1x16x8x8xf16>, tensor<1x4x8x8xf16>) {
  %w = graph.constant dense<0.5> : tensor<16x16x3x3xf16>
  %v = graph.constant dense<0.25> : tensor<16x4x3x3xf16>
  %a = graph.conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x16x8x8xf16>
  %r = graph.relu %a : tensor<1x16x8x8xf16>
  %b = graph.conv_transpose %x, %v {pads = [1, 1, 1, 1]} : tensor<1x4x8x8xf16>
  return %r, %b : tensor<1x16x8x8xf16>, tensor<1x4x8x8xf16>
}

// Weights used for many rows are converted and packed like f32 weights.
// CHECK-LABEL: func.func @rows
// CHECK:       graph.matmul %{{.*}} : tensor<64x32xf32>
// LATER-LABEL: func.func @rows
// LATER:       graph.packed_matmul %{{.*}} : tensor<64x32xf32>
func.func @rows(%x: tensor<64x64xf16>) -> tensor<64x32xf16> {
  %w = graph.constant dense<0.5> : tensor<64x32xf16>
  %y = graph.matmul %x, %w : tensor<64x32xf16>
  return %y : tensor<64x32xf16>
}

// Elements that are multiplied only once are converted when loaded.
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

// Sums that stay f32 are not rounded; targets with bf16 dot products keep bf16 operands.
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

// Intermediate results stay f32, also through data movement. With the accuracy `fast` every
// operator rounds.
// CHECK-LABEL: func.func @chain
// CHECK:       %[[X:.*]] = graph.cast %x : tensor<2x64xf32>
// CHECK-NEXT:  %[[P:.*]] = graph.mul %[[X]], %[[X]] : tensor<2x64xf32>
// CHECK-NEXT:  %[[T:.*]] = graph.transpose %[[P]] {perm = [1, 0]} : tensor<64x2xf32>
// CHECK-NEXT:  %[[M:.*]] = graph.reduce %[[T]] {kind = mean, axes = [0]} : tensor<2xf32>
// CHECK-NEXT:  %[[S:.*]] = graph.sqrt %[[M]] : tensor<2xf32>
// CHECK-NEXT:  %s = graph.cast %[[S]] : tensor<2xf16>
// CHECK-NEXT:  return %s
// FAST-LABEL:  func.func @chain
// FAST-NOT:    graph.cast
// FAST:        return
func.func @chain(%x: tensor<2x64xf16>) -> tensor<2xf16> {
  %p = graph.mul %x, %x : tensor<2x64xf16>
  %t = graph.transpose %p {perm = [1, 0]} : tensor<64x2xf16>
  %m = graph.reduce %t {kind = mean, axes = [0]} : tensor<2xf16>
  %s = graph.sqrt %m : tensor<2xf16>
  return %s : tensor<2xf16>
}

// Data movement on 16-bit elements, isolated operators and conversions in the model are unchanged.
// CHECK-LABEL: func.func @stays
// CHECK-NEXT:  %t = graph.transpose %x {perm = [1, 0]} : tensor<64x2xf16>
// CHECK-NEXT:  %m = graph.reduce %x {kind = sum, axes = [1]} : tensor<2xf16>
// CHECK-NEXT:  %h = graph.cast %z : tensor<2xf16>
// CHECK-NEXT:  %w = graph.cast %h : tensor<2xf32>
// CHECK-NEXT:  return
func.func @stays(%x: tensor<2x64xf16>, %z: tensor<2xf32>) -> (tensor<64x2xf16>, tensor<2xf16>, tensor<2xf32>) {
  %t = graph.transpose %x {perm = [1, 0]} : tensor<64x2xf16>
  %m = graph.reduce %x {kind = sum, axes = [1]} : tensor<2xf16>
  %h = graph.cast %z : tensor<2xf16>
  %w = graph.cast %h : tensor<2xf32>
  return %t, %m, %w : tensor<64x2xf16>, tensor<2xf16>, tensor<2xf32>
}

// A product that stays in 16 bits returns f32 sums to its users.
// CHECK-LABEL: func.func @scores
// CHECK:       %[[Y:.*]] = graph.matmul %x, %{{.*}} {result_element = f32} : tensor<1x32xf32>
// CHECK-NEXT:  %[[S:.*]] = graph.softmax %[[Y]] {axis = 1} : tensor<1x32xf32>
func.func @scores(%x: tensor<1x64xf16>) -> tensor<1x32xf16> {
  %w = graph.constant dense<0.5> : tensor<64x32xf16>
  %y = graph.matmul %x, %w : tensor<1x32xf16>
  %s = graph.softmax %y {axis = 1} : tensor<1x32xf16>
  return %s : tensor<1x32xf16>
}
