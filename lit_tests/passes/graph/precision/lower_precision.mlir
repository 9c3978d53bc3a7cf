// RUN: tcopt %s -p 'lower-precision{to=bf16}' | filecheck %s
// RUN: tcopt %s -p 'set-target{cpu=skylake-avx512},lower-precision,pack-matmul,winograd' | filecheck %s --check-prefix=LATER
// RUN: tcopt %s -p 'set-target{cpu=znver4},lower-precision' | filecheck %s --check-prefix=DOTS
// RUN: tcopt %s -p 'lower-precision{to=f8}' --verify-diagnostics | filecheck %s --check-prefix=BAD

// BAD: lower-precision: to = 'f8' is none of bf16

// Data and weights are rounded once each; sums and later operators stay f32, also with packed
// panels.
// CHECK-LABEL: func.func @twice
// CHECK:       %[[X:.*]] = graph.cast %x : tensor<8x64xbf16>
// CHECK-NEXT:  %[[W:.*]] = graph.cast %w : tensor<64x32xbf16>
// CHECK-NEXT:  %a = graph.matmul %[[X]], %[[W]] {result_element = f32} : tensor<8x32xf32>
// CHECK-NEXT:  %[[V:.*]] = graph.cast %v : tensor<64x32xbf16>
// CHECK-NEXT:  %b = graph.matmul %[[X]], %[[V]] {result_element = f32} : tensor<8x32xf32>
// CHECK-NEXT:  %y = graph.add %a, %b : tensor<8x32xf32>
func.func @twice(%x: tensor<8x64xf32>) -> tensor<8x32xf32> {
  %w = graph.constant dense<0.5> : tensor<64x32xf32>
  %v = graph.constant dense<0.25> : tensor<64x32xf32>
  %a = graph.matmul %x, %w : tensor<8x32xf32>
  %b = graph.matmul %x, %v : tensor<8x32xf32>
  %y = graph.add %a, %b : tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}

// A convolution whose weights are computed from a constant is converted and stays direct.
// CHECK-LABEL: func.func @convolution
// CHECK:       graph.blocked_conv %{{.*}}, %{{.*}} {pads = [1, 1, 1, 1], result_element = f32} : tensor<1x4x56x56x16xf32>
// LATER-LABEL: func.func @convolution
// LATER-NOT:   winograd
func.func @convolution(%x: tensor<1x4x56x56x16xf32>) -> tensor<1x4x56x56x16xf32> {
  %c = graph.constant dense<0.5> : tensor<64x64x3x3xf32>
  %w = graph.layout_transform %c {src = "OIHW", dst = "OIHW16i16o"} : tensor<4x4x3x3x16x16xf32>
  %y = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x4x56x56x16xf32>
  return %y : tensor<1x4x56x56x16xf32>
}

// Operators without a form for the target's dot products are unchanged: depthwise convolutions and
// images of three channels.
// DOTS-LABEL: func.func @single
// DOTS-NOT:   graph.cast
// DOTS:       return
func.func @single(%x: tensor<1x4x56x56x16xf32>, %i: tensor<1x3x56x56xf32>) -> (tensor<1x4x54x54x16xf32>, tensor<1x4x54x54x16xf32>) {
  %w = graph.constant dense<0.5> : tensor<4x3x3x16xf32>
  %v = graph.constant dense<0.5> : tensor<4x3x3x3x16xf32>
  %y = graph.blocked_conv %x, %w : tensor<1x4x54x54x16xf32>
  %z = graph.blocked_conv %i, %v {plain} : tensor<1x4x54x54x16xf32>
  return %y, %z : tensor<1x4x54x54x16xf32>, tensor<1x4x54x54x16xf32>
}

// Products of two computed matrices are rounded if the target has dot products and both are large
// enough.
// CHECK-LABEL: func.func @attention
// CHECK-NOT:   graph.cast
// DOTS-LABEL:  func.func @attention
// DOTS:        %[[Q:.*]] = graph.cast %q : tensor<12x128x64xbf16>
// DOTS-NEXT:   %[[K:.*]] = graph.cast %k : tensor<12x64x128xbf16>
// DOTS-NEXT:   %s = graph.matmul %[[Q]], %[[K]] {result_element = f32} : tensor<12x128x128xf32>
// DOTS-NEXT:   %a = graph.matmul %f, %k : tensor<12x31x128xf32>
// DOTS-NEXT:   %b = graph.matmul %q, %n : tensor<12x128x31xf32>
func.func @attention(%q: tensor<12x128x64xf32>, %k: tensor<12x64x128xf32>, %f: tensor<12x31x64xf32>, %n: tensor<12x64x31xf32>) -> tensor<12x128x128xf32> {
  %s = graph.matmul %q, %k : tensor<12x128x128xf32>
  %a = graph.matmul %f, %k : tensor<12x31x128xf32>
  %b = graph.matmul %q, %n : tensor<12x128x31xf32>
  return %s : tensor<12x128x128xf32>
}

// Small products of two variables, and those of other types, are unchanged.
// CHECK-LABEL: func.func @kept
// CHECK-NOT:   graph.cast
// CHECK:       return
func.func @kept(%x: tensor<8x8xf32>, %d: tensor<8x8xf64>) -> (tensor<8x8xf32>, tensor<8x8xf64>) {
  %w = graph.constant dense<0.5> : tensor<8x8xf64>
  %a = graph.matmul %x, %x : tensor<8x8xf32>
  %b = graph.matmul %d, %w : tensor<8x8xf64>
  return %a, %b : tensor<8x8xf32>, tensor<8x8xf64>
}
