// RUN: tcopt %s -p 'partition{all_of_them=true}' --split-input-file | filecheck %s

// With an ALU multiply, any scale becomes a multiply, add and shift that is exact for every sum
// that weights and data allow.
// CHECK-LABEL: func.func @any_scale
// CHECK:         graph.group kind = complex_out_fusable {
// CHECK-NEXT:      %[[C:.*]] = graph.blocked_conv
// CHECK-NEXT:      %[[L:.*]] = graph.shift_left %[[C]], %{{.*}} : tensor<1x1x64x64x16xi32>
// CHECK-NEXT:      %[[M:.*]] = graph.multiply_high %[[L]], %{{.*}} : tensor<1x1x64x64x16xi32>
// CHECK-NEXT:      %[[S:.*]] = graph.add %[[M]], %{{.*}} : tensor<1x1x64x64x16xi32>
// CHECK-NEXT:      graph.shift_right %[[S]], %{{.*}} : tensor<1x1x64x64x16xi32>
module attributes {tcopt.accelerator = #target.vdla<results = "i8", features = "alu,load_i8,mulh", inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  func.func @any_scale(%x: tensor<1x32x64x64xi8>) -> tensor<1x16x64x64xi8> {
    %w = graph.constant dense<3> : tensor<16x32x3x3xi8>
    %s = graph.constant dense<0.0123> : tensor<f32>
    %z = graph.constant dense<0> : tensor<i8>
    %0 = graph.conv %x, %w {pads = [1, 1, 1, 1], result_element = i32} : tensor<1x16x64x64xi32>
    %1 = graph.requantize %0, %s, %z : tensor<1x16x64x64xi8>
    return %1 : tensor<1x16x64x64xi8>
  }
}

// -----

// A global average pooling accumulates in registers.
// CHECK-LABEL: func.func @mean
// CHECK:         graph.layout_transform %{{.*}} {src = "NCHW", dst = "NCHW16c"} : tensor<1x4x8x8x16xi8>
// CHECK:         graph.group kind = reduction {
// CHECK-NEXT:      %[[W:.*]] = graph.cast %{{.*}} : tensor<1x4x8x8x16xi32>
// CHECK-NEXT:      %[[S:.*]] = graph.reduce %[[W]] {kind = sum, axes = [2, 3], keepdims} : tensor<1x4x1x1x16xi32>
// CHECK:           graph.cast %{{.*}} : tensor<1x4x1x1x16xi8>
module attributes {tcopt.accelerator = #target.vdla<results = "i8", features = "alu,load_i8", inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  func.func @mean(%x: tensor<1x64x8x8xi8>) -> tensor<1x64x1x1xi8> {
    %s = graph.constant dense<1.562500e-02> : tensor<f32>
    %z = graph.constant dense<0> : tensor<i8>
    %0 = graph.cast %x : tensor<1x64x8x8xi32>
    %1 = graph.reduce %0 {kind = sum, axes = [2, 3], keepdims} : tensor<1x64x1x1xi32>
    %2 = graph.requantize %1, %s, %z : tensor<1x64x1x1xi8>
    return %2 : tensor<1x64x1x1xi8>
  }
}

// -----

// The rows of a dense layer are its pixels, and the next layer reads them as stored.
// CHECK-LABEL: func.func @dense
// CHECK:         graph.layout_transform %{{.*}} {src = "NWC", dst = "NCW16c"} : tensor<1x2x6x16xi8>
// CHECK:         %[[A:.*]] = graph.group kind = complex_out_fusable {
// CHECK-NEXT:      %[[P:.*]] = graph.blocked_conv %{{.*}} {result_element = i32} : tensor<1x3x6x16xi32>
// CHECK-NEXT:      graph.add %[[P]], %{{.*}} : tensor<1x3x6x16xi32>
// CHECK:         } attributes {place = "vdla"} : tensor<1x3x6x16xi8>
// CHECK:         graph.group kind = complex_out_fusable {
// CHECK-NEXT:      graph.blocked_conv %[[A]], %{{.*}} {result_element = i32} : tensor<1x1x6x16xi32>
// CHECK:         graph.layout_transform %{{.*}} {src = "NCW16c", dst = "NWC"} : tensor<1x6x10xi8>
// CHECK-NEXT:    graph.reshape %{{.*}} : tensor<2x3x10xi8>
module attributes {tcopt.accelerator = #target.vdla<results = "i8", features = "alu,load_i8", inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  func.func @dense(%x: tensor<2x3x32xi8>, %w: tensor<32x48xi8>, %v: tensor<48x10xi8>) -> tensor<2x3x10xi8> {
    %s = graph.constant dense<1.562500e-02> : tensor<f32>
    %z = graph.constant dense<0> : tensor<i8>
    %b = graph.constant dense<7> : tensor<48xi32>
    %0 = graph.matmul %x, %w {result_element = i32} : tensor<2x3x48xi32>
    %1 = graph.add %0, %b : tensor<2x3x48xi32>
    %2 = graph.requantize %1, %s, %z : tensor<2x3x48xi8>
    %3 = graph.matmul %2, %v {result_element = i32} : tensor<2x3x10xi32>
    %4 = graph.requantize %3, %s, %z : tensor<2x3x10xi8>
    return %4 : tensor<2x3x10xi8>
  }
}

// -----

// The means of a single image are laid out like a row, so no transform is needed between the two.
// CHECK-LABEL: func.func @means
// CHECK:         %[[A:.*]] = graph.group kind = reduction {
// CHECK:         } attributes {place = "vdla"} : tensor<1x4x1x1x16xi8>
// CHECK-NOT:     graph.layout_transform %{{.*}} {src = "NWC", dst = "NCW16c"}
// CHECK:         %[[R:.*]] = graph.reshape %[[A]] : tensor<1x4x1x16xi8>
// CHECK:         graph.blocked_conv %[[R]], %{{.*}} {result_element = i32} : tensor<1x1x1x16xi32>
module attributes {tcopt.accelerator = #target.vdla<results = "i8", features = "alu,load_i8", inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  func.func @means(%x: tensor<1x64x8x8xi8>, %w: tensor<64x10xi8>) -> tensor<1x10xi8> {
    %s = graph.constant dense<1.562500e-02> : tensor<f32>
    %z = graph.constant dense<0> : tensor<i8>
    %0 = graph.cast %x : tensor<1x64x8x8xi32>
    %1 = graph.reduce %0 {kind = sum, axes = [2, 3], keepdims} : tensor<1x64x1x1xi32>
    %2 = graph.reshape %1 : tensor<1x64xi32>
    %3 = graph.requantize %2, %s, %z : tensor<1x64xi8>
    %4 = graph.matmul %3, %w {result_element = i32} : tensor<1x10xi32>
    %5 = graph.requantize %4, %s, %z : tensor<1x10xi8>
    return %5 : tensor<1x10xi8>
  }
}
