// REQUIRES: long
// RUN: tcopt %s -p partition --split-input-file | filecheck %s
// RUN: tcopt %s -p partition --remarks --split-input-file -o /dev/null 2>&1 | filecheck %s --check-prefix=PLAN
// RUN: tcopt %s -p 'partition{host_products=10000}' --split-input-file | filecheck %s --check-prefix=FAST
// RUN: tcopt %s -p partition,lower-graph-to-te --split-input-file | filecheck %s --check-prefix=TE

// An 8-bit convolution becomes a blocked one in a group for the accelerator; the host transforms
// data and weights, and the sums back.
// CHECK-LABEL: func.func @conv
// CHECK-NEXT:    graph.layout_transform %x {src = "NCHW", dst = "NCHW16c"} : tensor<1x2x8x8x16xi8>
// CHECK-NEXT:    graph.layout_transform %w {src = "OIHW", dst = "OIHW16o16i"} : tensor<3x2x3x3x16x16xi8>
// CHECK-NEXT:    graph.reshape %{{.*}} : tensor<3x2x3x3x1x16x16xi8>
// CHECK-NEXT:    %[[P:.*]] = graph.group kind = complex_out_fusable {
// CHECK-NEXT:      graph.blocked_conv %{{.*}}, %{{.*}} {pads = [1, 1, 1, 1], result_element = i32} : tensor<1x3x8x8x16xi32>
// CHECK-NEXT:      graph.yield
// CHECK-NEXT:    } attributes {place = "vdla"} : tensor<1x3x8x8x16xi32>
// CHECK-NEXT:    graph.layout_transform %[[P]] {src = "NCHW16c", dst = "NCHW"} : tensor<1x48x8x8xi32>

// PLAN: done: partition: graph.conv ({{.*}}): on vdla: {{.*}} cycles on vdla, {{.*}} on the host

// On a fast host the convolution stays there.
// FAST-LABEL: func.func @conv
// FAST-NEXT:    graph.conv

// The group's function has the accelerator as its target, the others have the module's.
// TE-LABEL: te.func @layout_transform(%x: tensor<1x32x8x8xi8>) -> tensor<1x2x8x8x16xi8> {
// TE:       te.func @blocked_conv({{.*}}) -> tensor<1x3x8x8x16xi32> attributes {{{.*}}tcopt.target = #target.vdla<
module attributes {tcopt.accelerator = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  func.func @conv(%x: tensor<1x32x8x8xi8>, %w: tensor<48x32x3x3xi8>) -> tensor<1x48x8x8xi32> {
    %c = graph.conv %x, %w {pads = [1, 1, 1, 1], result_element = i32} : tensor<1x48x8x8xi32>
    return %c : tensor<1x48x8x8xi32>
  }
}

// -----

// Three channels with stride 2 become 12 channels with stride 1; the host writes non-zero padding.
// CHECK-LABEL: func.func @first
// CHECK-NEXT:    graph.constant dense<7>
// CHECK-NEXT:    graph.pad %x, %{{.*}} {low = [0, 0, 3, 3], high = [0, 0, 3, 3]} : tensor<1x3x38x38xi8>
// CHECK:         graph.transpose %{{.*}} {perm = [0, 1, 3, 5, 2, 4]} : tensor<1x3x2x2x19x19xi8>
// CHECK-NEXT:    graph.reshape %{{.*}} : tensor<1x12x19x19xi8>
// CHECK-NEXT:    graph.pad %w {low = [0, 0, 0, 0], high = [0, 0, 1, 1]} : tensor<64x3x8x8xi8>
// CHECK:         graph.blocked_conv %{{.*}}, %{{.*}} {result_element = i32} : tensor<1x4x16x16x16xi32>
module attributes {tcopt.accelerator = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  func.func @first(%x: tensor<1x3x32x32xi8>, %w: tensor<64x3x7x7xi8>) -> tensor<1x64x16x16xi32> {
    %c = graph.conv %x, %w {pads = [3, 3, 3, 3], strides = [2, 2], pad_value = 7, result_element = i32} : tensor<1x64x16x16xi32>
    return %c : tensor<1x64x16x16xi32>
  }
}

// -----

// Floats and groups that fill no blocks stay on the host.
// CHECK-LABEL: func.func @host
// CHECK-NEXT:    graph.conv %x, %w
// CHECK-NEXT:    graph.conv %b, %d
module attributes {tcopt.accelerator = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  func.func @host(%x: tensor<1x32x8x8xf32>, %w: tensor<48x32x3x3xf32>, %b: tensor<1x32x8x8xi8>, %d: tensor<32x1x3x3xi8>) -> (tensor<1x48x6x6xf32>, tensor<1x32x6x6xi32>) {
    %c = graph.conv %x, %w : tensor<1x48x6x6xf32>
    %e = graph.conv %b, %d {groups = 32, result_element = i32} : tensor<1x32x6x6xi32>
    return %c, %e : tensor<1x48x6x6xf32>, tensor<1x32x6x6xi32>
  }
}

// -----

// An accelerator that cannot store 32-bit sums gets only convolutions whose sums become bytes.
// CHECK-LABEL: func.func @bytes
// CHECK-NEXT:    graph.conv
// PLAN: missed: partition: graph.conv ({{.*}}): on the host: its sums are not requantised to bytes
module attributes {tcopt.accelerator = #target.vdla<results = "i8", features = "alu", inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  func.func @bytes(%x: tensor<1x32x8x8xi8>, %w: tensor<48x32x3x3xi8>) -> tensor<1x48x6x6xi32> {
    %c = graph.conv %x, %w {result_element = i32} : tensor<1x48x6x6xi32>
    return %c : tensor<1x48x6x6xi32>
  }
}

// -----

// An ALU also computes bias, scale and clamp: a half is added with the bias, and one is subtracted
// for ties to even. Later layers read the stored bytes in blocks.
// CHECK-LABEL: func.func @chain
// CHECK:         %[[B:.*]] = graph.constant dense<{{.*}}12{{.*}}> : tensor<i32>
// CHECK:         %[[P:.*]] = graph.group kind = complex_out_fusable {
// CHECK-NEXT:      %[[C:.*]] = graph.blocked_conv
// CHECK-NEXT:      %[[V:.*]] = graph.add %[[C]], %[[B]] : tensor<1x1x8x8x16xi32>
// CHECK-NEXT:      %[[L:.*]] = graph.shift_left %[[V]], %{{.*}} : tensor<1x1x8x8x16xi32>
// CHECK-NEXT:      %[[T:.*]] = graph.shift_right %[[L]], %{{.*}} : tensor<1x1x8x8x16xi32>
// CHECK-NEXT:      %[[S:.*]] = graph.add %[[V]], %[[T]] : tensor<1x1x8x8x16xi32>
// CHECK-NEXT:      %[[R:.*]] = graph.shift_right %[[S]], %{{.*}} : tensor<1x1x8x8x16xi32>
// CHECK-NEXT:      %[[M:.*]] = graph.max %[[R]], %{{.*}} : tensor<1x1x8x8x16xi32>
// CHECK-NEXT:      %[[N:.*]] = graph.min %[[M]], %{{.*}} : tensor<1x1x8x8x16xi32>
// CHECK-NEXT:      %[[Q:.*]] = graph.cast %[[N]] : tensor<1x1x8x8x16xi8>
// CHECK-NEXT:      graph.yield %[[Q]] : tensor<1x1x8x8x16xi8>
// CHECK:         graph.group kind = complex_out_fusable {
// CHECK-NEXT:      graph.blocked_conv %[[P]], %{{.*}} {result_element = i32}
// CHECK:           graph.cast %[[P]] : tensor<1x1x8x8x16xi32>
// PLAN: done: partition: graph.conv ({{.*}}): on vdla, with 4 operators that follow: {{.*}} cycles on vdla
// PLAN: done: partition: graph.conv ({{.*}}): on vdla, with 2 operators that follow: {{.*}} cycles on vdla
module attributes {tcopt.accelerator = #target.vdla<results = "i8", features = "alu,load_i8", inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  func.func @chain(%x: tensor<1x32x8x8xi8>, %w: tensor<16x32x3x3xi8>, %v: tensor<16x16x1x1xi8>) -> tensor<1x16x8x8xi16> {
    %b = graph.constant dense<4> : tensor<16x1x1xi32>
    %s = graph.constant dense<6.250000e-02> : tensor<f32>
    %z = graph.constant dense<0> : tensor<i8>
    %0 = graph.conv %x, %w {pads = [1, 1, 1, 1], result_element = i32} : tensor<1x16x8x8xi32>
    %1 = graph.add %0, %b : tensor<1x16x8x8xi32>
    %2 = graph.requantize %1, %s, %z {centered} : tensor<1x16x8x8xi16>
    %3 = graph.relu %2 : tensor<1x16x8x8xi16>
    %4 = graph.cast %3 : tensor<1x16x8x8xi8>
    %5 = graph.conv %4, %v {result_element = i32} : tensor<1x16x8x8xi32>
    %6 = graph.cast %4 : tensor<1x16x8x8xi32>
    %7 = graph.add %5, %6 : tensor<1x16x8x8xi32>
    %8 = graph.requantize %7, %s, %z {centered} : tensor<1x16x8x8xi16>
    return %8 : tensor<1x16x8x8xi16>
  }
}

// -----

// A scale that is not a power of two stays on the host.
// CHECK-LABEL: func.func @scale
// CHECK-NOT:     graph.group
// CHECK:         graph.conv
module attributes {tcopt.accelerator = #target.vdla<results = "i8", features = "alu,load_i8", inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  func.func @scale(%x: tensor<1x32x8x8xi8>, %w: tensor<16x32x3x3xi8>) -> tensor<1x16x8x8xi16> {
    %s = graph.constant dense<7.000000e-02> : tensor<f32>
    %z = graph.constant dense<0> : tensor<i8>
    %0 = graph.conv %x, %w {pads = [1, 1, 1, 1], result_element = i32} : tensor<1x16x8x8xi32>
    %2 = graph.requantize %0, %s, %z {centered} : tensor<1x16x8x8xi16>
    return %2 : tensor<1x16x8x8xi16>
  }
}

// -----

// A rescaled residual add runs on the accelerator, before the sums are requantised.
// CHECK-LABEL: func.func @both_scaled
// CHECK:         %[[A:.*]] = graph.group kind = complex_out_fusable {
// CHECK:         %[[B:.*]] = graph.group kind = complex_out_fusable {
// CHECK:           graph.cast %[[A]] : tensor<1x1x8x8x16xi32>
// CHECK-NOT:     graph.requantize
module attributes {tcopt.accelerator = #target.vdla<results = "i8", features = "alu,load_i8", inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  func.func @both_scaled(%x: tensor<1x16x8x8xi8>, %w: tensor<16x16x3x3xi8>) -> tensor<1x16x8x8xi8> {
    %s = graph.constant dense<6.250000e-02> : tensor<f32>
    %h = graph.constant dense<5.000000e-01> : tensor<f32>
    %z = graph.constant dense<0> : tensor<i8>
    %0 = graph.conv %x, %w {pads = [1, 1, 1, 1], result_element = i32} : tensor<1x16x8x8xi32>
    %1 = graph.requantize %0, %s, %z : tensor<1x16x8x8xi8>
    %2 = graph.cast %1 : tensor<1x16x8x8xi32>
    %3 = graph.requantize %2, %h, %z {centered} : tensor<1x16x8x8xi16>
    %4 = graph.conv %x, %w {pads = [1, 1, 1, 1], result_element = i32} : tensor<1x16x8x8xi32>
    %5 = graph.cast %3 : tensor<1x16x8x8xi32>
    %6 = graph.add %4, %5 : tensor<1x16x8x8xi32>
    %7 = graph.requantize %6, %s, %z : tensor<1x16x8x8xi8>
    return %7 : tensor<1x16x8x8xi8>
  }
}

// -----

// Max pooling runs on registers, between convolutions on blocked bytes; padding is the smallest
// byte.
// CHECK-LABEL: func.func @maximum
// CHECK:         %[[C:.*]] = graph.group kind = complex_out_fusable {
// CHECK:         %[[P:.*]] = graph.group kind = complex_out_fusable {
// CHECK-NEXT:      %[[D:.*]] = graph.pad %[[C]], %{{.*}} {low = [0, 0, 1, 1, 0], high = [0, 0, 0, 0, 0]} : tensor<1x1x65x65x16xi8>
// CHECK-NEXT:      %[[W:.*]] = graph.cast %[[D]] : tensor<1x1x65x65x16xi32>
// CHECK-NEXT:      %[[M:.*]] = graph.pool %[[W]] {kind = max, kernel = [3, 3, 1], strides = [2, 2, 1]} : tensor<1x1x32x32x16xi32>
// CHECK-NEXT:      %[[N:.*]] = graph.cast %[[M]] : tensor<1x1x32x32x16xi8>
// CHECK-NEXT:      graph.yield %[[N]]
// CHECK:         graph.group kind = complex_out_fusable {
// CHECK-NEXT:      graph.blocked_conv %[[P]], %{{.*}} {result_element = i32}
// PLAN: done: partition: graph.pool ({{.*}}): on vdla: 
module attributes {tcopt.accelerator = #target.vdla<results = "i8", features = "alu,load_i8", inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  func.func @maximum(%x: tensor<1x16x64x64xi8>, %w: tensor<16x16x3x3xi8>, %v: tensor<16x16x1x1xi8>) -> tensor<1x16x32x32xi8> {
    %s = graph.constant dense<6.250000e-02> : tensor<f32>
    %z = graph.constant dense<0> : tensor<i8>
    %0 = graph.conv %x, %w {pads = [1, 1, 1, 1], result_element = i32} : tensor<1x16x64x64xi32>
    %1 = graph.requantize %0, %s, %z : tensor<1x16x64x64xi8>
    %2 = graph.pool %1 {kind = max, kernel = [3, 3], strides = [2, 2], pads = [1, 1, 0, 0]} : tensor<1x16x32x32xi8>
    %3 = graph.conv %2, %v {result_element = i32} : tensor<1x16x32x32xi32>
    %4 = graph.requantize %3, %s, %z : tensor<1x16x32x32xi8>
    return %4 : tensor<1x16x32x32xi8>
  }
}
