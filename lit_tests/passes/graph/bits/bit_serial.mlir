// RUN: tcopt %s -p 'set-target{cpu=znver4},bit-serial' --split-input-file | filecheck %s
// RUN: tcopt %s -p 'set-target{cpu=znver4},bit-serial{method=never}' --split-input-file | filecheck %s --check-prefix=NEVER
// RUN: tcopt %s -p 'set-target{cpu=znver4},bit-serial{method=popcount}' --split-input-file | filecheck %s --check-prefix=ALWAYS

// Data from 0 to 3 has two bit planes, weights of 0 and -1 have one signed plane. Both are packed,
// the weights with output channels last.
// CHECK-LABEL: func.func @two_bits
// CHECK:         %[[V:.*]] = graph.constant @weights.bits : tensor<1x2x1x1x16x16xi8>
// CHECK-NEXT:    %[[X:.*]] = graph.pack_bits %x {bits = 2} : tensor<1x4x4x1x2xui32>
// CHECK-NEXT:    %[[T:.*]] = graph.transpose %[[V]] {perm = [0, 1, 2, 3, 5, 4]} : tensor<1x2x1x1x16x16xi8>
// CHECK-NEXT:    %[[P:.*]] = graph.pack_bits %[[T]] {bits = 1} : tensor<1x1x1x16x1x1xui32>
// CHECK-NEXT:    %[[W:.*]] = graph.transpose %[[P]] {perm = [0, 4, 1, 2, 5, 3]} : tensor<1x1x1x1x1x16xui32>
// CHECK-NEXT:    %y = graph.bit_conv %[[X]], %[[W]] {weights_signed} : tensor<1x1x4x4x16xi32>
// NEVER-LABEL: func.func @two_bits
// NEVER:         graph.blocked_conv
func.func @two_bits(%q: tensor<1x2x4x4x16xui8>) -> tensor<1x1x4x4x16xi32> {
  %three = graph.constant dense<3> : tensor<ui8>
  %x = graph.min %q, %three : tensor<1x2x4x4x16xui8>
  %a = graph.constant dense<0> : tensor<1x1x1x1x16x16xi8>
  %b = graph.constant dense<-1> : tensor<1x1x1x1x16x16xi8>
  %w = graph.concat %a, %b {axis = 1} : tensor<1x2x1x1x16x16xi8>
  %y = graph.blocked_conv %x, %w {result_element = i32} : tensor<1x1x4x4x16xi32>
  return %y : tensor<1x1x4x4x16xi32>
}

// -----

// Weights of 1 and -1 take one bit, and the kernel counts differing bits: the result is a constant
// per channel minus that count.
// CHECK-LABEL: func.func @minus_one_or_one
// CHECK:         %[[S:.*]] = graph.bit_conv {{.*}} {exclusive} : tensor<1x1x4x4x16xi32>
// CHECK-NEXT:    %[[R:.*]] = graph.constant dense<48> : tensor<1x1x1x1x16xi32>
// CHECK-NEXT:    %y = graph.sub %[[R]], %[[S]] : tensor<1x1x4x4x16xi32>
func.func @minus_one_or_one(%q: tensor<1x2x4x4x16xui8>) -> tensor<1x1x4x4x16xi32> {
  %three = graph.constant dense<3> : tensor<ui8>
  %x = graph.min %q, %three : tensor<1x2x4x4x16xui8>
  %a = graph.constant dense<1> : tensor<1x1x1x1x16x16xi8>
  %b = graph.constant dense<-1> : tensor<1x1x1x1x16x16xi8>
  %w = graph.concat %a, %b {axis = 1} : tensor<1x2x1x1x16x16xi8>
  %y = graph.blocked_conv %x, %w {result_element = i32} : tensor<1x1x4x4x16xi32>
  return %y : tensor<1x1x4x4x16xi32>
}

// -----

// Unpadded data of -1 and 1 takes one bit: the value is twice the bit minus 1.
// CHECK-LABEL: func.func @both
// CHECK:         %[[C:.*]] = graph.cast %x : tensor<1x2x4x4x16xi16>
// CHECK-NEXT:    %[[O:.*]] = graph.constant dense<-1> : tensor<i16>
// CHECK-NEXT:    %[[D:.*]] = graph.sub %[[C]], %[[O]] : tensor<1x2x4x4x16xi16>
// CHECK-NEXT:    %[[T:.*]] = graph.constant dense<2> : tensor<i16>
// CHECK-NEXT:    %[[Q:.*]] = graph.div %[[D]], %[[T]] : tensor<1x2x4x4x16xi16>
// CHECK-NEXT:    %[[B:.*]] = graph.cast %[[Q]] : tensor<1x2x4x4x16xi8>
// CHECK:         graph.pack_bits %[[B]] {bits = 1} : tensor<1x4x4x1x1xui32>
// CHECK:         %[[S:.*]] = graph.bit_conv {{.*}} {exclusive} : tensor<1x1x4x4x16xi32>
// CHECK-NEXT:    %[[F:.*]] = graph.constant dense<-2> : tensor<i32>
// CHECK-NEXT:    %[[M:.*]] = graph.mul %[[S]], %[[F]] : tensor<1x1x4x4x16xi32>
// CHECK-NEXT:    %[[R:.*]] = graph.constant dense<32> : tensor<1x1x1x1x16xi32>
// CHECK-NEXT:    %y = graph.add %[[M]], %[[R]] : tensor<1x1x4x4x16xi32>
func.func @both(%c: tensor<1x2x4x4x16xi1>) -> tensor<1x1x4x4x16xi32> {
  %one = graph.constant dense<1> : tensor<i8>
  %less = graph.constant dense<-1> : tensor<i8>
  %x = graph.select %c, %one, %less : tensor<1x2x4x4x16xi8>
  %a = graph.constant dense<1> : tensor<1x1x1x1x16x16xi8>
  %b = graph.constant dense<-1> : tensor<1x1x1x1x16x16xi8>
  %w = graph.concat %a, %b {axis = 1} : tensor<1x2x1x1x16x16xi8>
  %y = graph.blocked_conv %x, %w {result_element = i32} : tensor<1x1x4x4x16xi32>
  return %y : tensor<1x1x4x4x16xi32>
}

// -----

// The pad value gets code 0: data from 0 to 3 padded with 1 has codes from -1 to 2.
// CHECK-LABEL: func.func @pads
// CHECK:         %[[O:.*]] = graph.constant dense<1> : tensor<ui8>
// CHECK-NEXT:    %[[D:.*]] = graph.sub %x, %[[O]] : tensor<1x2x4x4x16xui8>
// CHECK:         graph.pack_bits %[[D]] {bits = 3} : tensor<1x4x4x1x3xui32>
// CHECK:         graph.bit_conv {{.*}} {pads = [1, 1, 1, 1], data_signed}
// CHECK-NEXT:    %[[R:.*]] = graph.constant dense<144> : tensor<1x1x1x1x16xi32>
// CHECK-NEXT:    graph.add %{{.*}}, %[[R]] : tensor<1x1x4x4x16xi32>
func.func @pads(%q: tensor<1x2x4x4x16xui8>) -> tensor<1x1x4x4x16xi32> {
  %three = graph.constant dense<3> : tensor<ui8>
  %x = graph.min %q, %three : tensor<1x2x4x4x16xui8>
  %a = graph.constant dense<1> : tensor<1x1x3x3x16x16xi8>
  %b = graph.constant dense<0> : tensor<1x1x3x3x16x16xi8>
  %w = graph.concat %a, %b {axis = 1} : tensor<1x2x3x3x16x16xi8>
  %y = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1], pad_value = 1, result_element = i32} : tensor<1x1x4x4x16xi32>
  return %y : tensor<1x1x4x4x16xi32>
}

// -----

// Padding input channels of a block have no weights, so their data is masked to 0; padding output
// channels are scaled to 0. With so few channels, direct multiplication is faster and the default.
// CHECK-LABEL: func.func @spare
// CHECK:         graph.blocked_conv
// ALWAYS-LABEL: func.func @spare
// ALWAYS:        %[[U:.*]] = graph.constant dense<{{\[+}}1, 1, 1, 0]{{.*}}> : tensor<1x1x1x1x4xui8>
// ALWAYS-NEXT:   %[[D:.*]] = graph.mul %x, %[[U]] : tensor<1x1x4x4x4xui8>
// ALWAYS:        %[[S:.*]] = graph.bit_conv {{.*}} {exclusive}
// ALWAYS-NEXT:   %[[F:.*]] = graph.constant dense<{{\[+}}-1, -1, 0, 0]{{.*}}> : tensor<1x1x1x1x4xi32>
// ALWAYS-NEXT:   graph.mul %[[S]], %[[F]]
func.func @spare(%q: tensor<1x1x4x4x4xui8>) -> tensor<1x1x4x4x4xi32> {
  %three = graph.constant dense<3> : tensor<ui8>
  %x = graph.min %q, %three : tensor<1x1x4x4x4xui8>
  %w = graph.constant dense<[[[[[[1, -1, 0, 0], [-1, -1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]]]]]]> : tensor<1x1x1x1x4x4xi8>
  %y = graph.blocked_conv %x, %w {result_element = i32} : tensor<1x1x4x4x4xi32>
  return %y : tensor<1x1x4x4x4xi32>
}

// -----

// A matrix product becomes a convolution whose pixels are the rows, padded to whole words.
// ALWAYS-LABEL: func.func @product
// ALWAYS:        %[[B:.*]] = graph.pad %{{.*}} {low = [0, 0], high = [0, 24]} : tensor<3x32xui8>
// ALWAYS-NEXT:   %[[V:.*]] = graph.pad %{{.*}} {low = [0, 0, 0], high = [0, 24, 0]} : tensor<1x32x16xi8>
// ALWAYS-NEXT:   %[[R:.*]] = graph.reshape %[[B]] : tensor<3x1x32xui8>
// ALWAYS-NEXT:   %[[P:.*]] = graph.pack_bits %[[R]] {bits = 2} : tensor<3x1x2xui32>
// ALWAYS:        graph.bit_conv %{{.*}}, %{{.*}} : tensor<1x1x3x16xi32>
// ALWAYS:        graph.slice %{{.*}} {starts = [0, 0]} : tensor<3x9xi32>
// ALWAYS-NEXT:   %y = graph.reshape %{{.*}} : tensor<3x9xi32>
func.func @product(%q: tensor<3x8xui8>) -> tensor<3x9xi32> {
  %three = graph.constant dense<3> : tensor<ui8>
  %x = graph.min %q, %three : tensor<3x8xui8>
  %p = graph.constant dense<1> : tensor<1x8x16xi8>
  %y = graph.packed_matmul %x, %p {columns = 9, result_element = i32} : tensor<3x9xi32>
  return %y : tensor<3x9xi32>
}

// -----

// Data with the full range of a byte and weights of five bits are unchanged.
// ALWAYS-LABEL: func.func @others
// ALWAYS-NOT:    graph.pack_bits
func.func @others(%q: tensor<1x2x4x4x16xui8>) -> (tensor<1x1x4x4x16xi32>, tensor<1x1x4x4x16xi32>) {
  %three = graph.constant dense<3> : tensor<ui8>
  %x = graph.min %q, %three : tensor<1x2x4x4x16xui8>
  %v = graph.constant dense<1> : tensor<1x2x1x1x16x16xi8>
  %a = graph.constant dense<15> : tensor<1x1x1x1x16x16xi8>
  %b = graph.constant dense<-4> : tensor<1x1x1x1x16x16xi8>
  %w = graph.concat %a, %b {axis = 1} : tensor<1x2x1x1x16x16xi8>
  %y = graph.blocked_conv %q, %v {result_element = i32} : tensor<1x1x4x4x16xi32>
  %z = graph.blocked_conv %x, %w {result_element = i32} : tensor<1x1x4x4x16xi32>
  return %y, %z : tensor<1x1x4x4x16xi32>, tensor<1x1x4x4x16xi32>
}
