// RUN: tcopt %s -p 'set-target{cpu=znver4},pack-dots' --split-input-file | filecheck %s
// RUN: tcopt %s -p 'set-target{cpu=skylake-avx512},pack-dots' --split-input-file | filecheck %s --check-prefix=NONE

// Rows of a packed matrix are interleaved in pairs for dot products; without that instruction they
// stay.
// CHECK-LABEL: func.func @even
// CHECK:         %[[R:.*]] = graph.reshape %p : tensor<2x4x2x32xbf16>
// CHECK-NEXT:    %[[T:.*]] = graph.transpose %[[R]] {perm = [0, 1, 3, 2]} : tensor<2x4x32x2xbf16>
// CHECK-NEXT:    %y = graph.packed_matmul %x, %[[T]] {columns = 50, result_element = f32} : tensor<3x50xf32>
// NONE-LABEL:  func.func @even
// NONE-NOT:      graph.transpose
func.func @even(%x: tensor<3x8xbf16>) -> tensor<3x50xf32> {
  %p = graph.constant dense<0.5> : tensor<2x8x32xbf16>
  %y = graph.packed_matmul %x, %p {columns = 50, result_element = f32} : tensor<3x50xf32>
  return %y : tensor<3x50xf32>
}

// -----

// An odd row is paired with zeros, for which the data is padded; column-major data is transposed.
// CHECK-LABEL: func.func @odd
// CHECK:         %[[X:.*]] = graph.transpose %x {perm = [1, 0]} : tensor<3x7xbf16>
// CHECK-NEXT:    %[[B:.*]] = graph.pad %[[X]] {low = [0, 0], high = [0, 1]} : tensor<3x8xbf16>
// CHECK-NEXT:    %[[P:.*]] = graph.pad %p {low = [0, 0, 0], high = [0, 1, 0]} : tensor<2x8x32xbf16>
// CHECK-NEXT:    %[[R:.*]] = graph.reshape %[[P]] : tensor<2x4x2x32xbf16>
// CHECK-NEXT:    %[[T:.*]] = graph.transpose %[[R]] {perm = [0, 1, 3, 2]} : tensor<2x4x32x2xbf16>
// CHECK-NEXT:    %y = graph.packed_matmul %[[B]], %[[T]] {columns = 50, result_element = f32} : tensor<3x50xf32>
func.func @odd(%x: tensor<7x3xbf16>) -> tensor<3x50xf32> {
  %p = graph.constant dense<0.5> : tensor<2x7x32xbf16>
  %y = graph.packed_matmul %x, %p {columns = 50, result_element = f32, transpose_a} : tensor<3x50xf32>
  return %y : tensor<3x50xf32>
}

// -----

// Channels of a blocked convolution are interleaved in pairs.
// CHECK-LABEL: func.func @convolution
// CHECK:         %[[R:.*]] = graph.reshape %w : tensor<2x4x3x3x8x2x16xbf16>
// CHECK-NEXT:    %[[T:.*]] = graph.transpose %[[R]] {perm = [0, 1, 2, 3, 4, 6, 5]} : tensor<2x4x3x3x8x16x2xbf16>
// CHECK-NEXT:    %y = graph.blocked_conv %x, %[[T]] {pads = [1, 1, 1, 1], result_element = f32} : tensor<1x2x8x8x16xf32>
func.func @convolution(%x: tensor<1x4x8x8x16xbf16>) -> tensor<1x2x8x8x16xf32> {
  %w = graph.constant dense<0.5> : tensor<2x4x3x3x16x16xbf16>
  %y = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1], result_element = f32} : tensor<1x2x8x8x16xf32>
  return %y : tensor<1x2x8x8x16xf32>
}

// -----

// Depthwise filters and images of few channels cannot be paired.
// CHECK-LABEL: func.func @depthwise
// CHECK-NOT:     graph.transpose
func.func @depthwise(%x: tensor<1x4x8x8x16xbf16>, %i: tensor<1x3x8x8xbf16>) -> (tensor<1x4x6x6x16xf32>, tensor<1x4x6x6x16xf32>) {
  %w = graph.constant dense<0.5> : tensor<4x3x3x16xbf16>
  %v = graph.constant dense<0.5> : tensor<4x3x3x3x16xbf16>
  %y = graph.blocked_conv %x, %w {result_element = f32} : tensor<1x4x6x6x16xf32>
  %z = graph.blocked_conv %i, %v {plain, result_element = f32} : tensor<1x4x6x6x16xf32>
  return %y, %z : tensor<1x4x6x6x16xf32>, tensor<1x4x6x6x16xf32>
}

// -----

// f32 products and computed weights are unchanged.
// CHECK-LABEL: func.func @others
// CHECK-NOT:     graph.transpose
func.func @others(%x: tensor<3x8xf32>, %a: tensor<3x8xbf16>, %q: tensor<2x8x32xbf16>) -> (tensor<3x50xf32>, tensor<3x50xf32>) {
  %p = graph.constant dense<0.5> : tensor<2x8x32xf32>
  %y = graph.packed_matmul %x, %p {columns = 50} : tensor<3x50xf32>
  %z = graph.packed_matmul %a, %q {columns = 50, result_element = f32} : tensor<3x50xf32>
  return %y, %z : tensor<3x50xf32>, tensor<3x50xf32>
}

// -----

// Every x86 CPU has a multiply-add of 16-bit integer pairs.
// CHECK-LABEL: func.func @integers
// CHECK:         graph.packed_matmul %x, %{{.*}} {columns = 50, result_element = i32} : tensor<3x50xi32>
// NONE-LABEL:  func.func @integers
// NONE:          %[[T:.*]] = graph.transpose %{{.*}} {perm = [0, 1, 3, 2]} : tensor<2x4x32x2xi16>
// NONE-NEXT:     graph.packed_matmul %x, %[[T]] {columns = 50, result_element = i32} : tensor<3x50xi32>
func.func @integers(%x: tensor<3x8xi16>) -> tensor<3x50xi32> {
  %p = graph.constant dense<5> : tensor<2x8x32xi16>
  %y = graph.packed_matmul %x, %p {columns = 50, result_element = i32} : tensor<3x50xi32>
  return %y : tensor<3x50xi32>
}

// -----

// A computed right operand is packed into panels with interleaved rows.
// CHECK-LABEL: func.func @computed
// CHECK:         %[[P:.*]] = graph.layout_transform %k {src = "AKN", dst = "ANK64n2k"} : tensor<12x2x32x64x2xbf16>
// CHECK-NEXT:    %y = graph.packed_matmul %q, %[[P]] {columns = 128, batch = 1, result_element = f32} : tensor<12x128x128xf32>
// NONE-LABEL:  func.func @computed
// NONE:          graph.matmul %q, %k {result_element = f32}
func.func @computed(%q: tensor<12x128x64xbf16>, %k: tensor<12x64x128xbf16>) -> tensor<12x128x128xf32> {
  %y = graph.matmul %q, %k {result_element = f32} : tensor<12x128x128xf32>
  return %y : tensor<12x128x128xf32>
}
