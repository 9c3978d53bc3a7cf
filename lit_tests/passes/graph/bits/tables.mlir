// RUN: tcopt %s -p 'set-target{cpu=znver4},bit-serial{method=lookup}' --split-input-file | filecheck %s
// RUN: tcopt %s -p 'set-target{cpu=haswell},bit-serial{method=lookup}' --split-input-file | filecheck %s --check-prefix=AVX2
// RUN: tcopt %s -p 'set-target{cpu=x86-64},bit-serial{method=lookup}' --split-input-file | filecheck %s --check-prefix=NONE

// Tables of sums of six bytes have 64 entries of 11 bits; weights of 0 and -1 are one negative
// plane. With AVX2, which looks up 16 entries, tables hold sums of four.
// CHECK-LABEL: func.func @product
// CHECK:         %[[P:.*]] = graph.pad %x {low = [0, 0], high = [0, 4]} : tensor<3x12xui8>
// CHECK-NEXT:    %[[R:.*]] = graph.reshape %[[P]] : tensor<3x1x12xui8>
// CHECK-NEXT:    %[[T:.*]] = graph.sum_tables %[[R]] {numbers = 6, groups = 2, steps = 1, bits = 11} : tensor<3x1x2x2x64xui8>
// CHECK-NEXT:    %[[D:.*]] = graph.reshape %[[T]] : tensor<1x3x1x2x2x64xui8>
// CHECK-NEXT:    %[[W:.*]] = graph.constant {{.*}} : tensor<1x1x1x1x2x64xui8>
// CHECK-NEXT:    %[[S:.*]] = graph.table_conv %[[D]], %[[W]] {bits = 11, signed} : tensor<1x1x3x64xi32>
// CHECK:         graph.slice %{{.*}} {starts = [0, 0]} : tensor<3x9xi32>
// AVX2-LABEL:  func.func @product
// AVX2:          graph.sum_tables %{{.*}} {numbers = 4, groups = 2, steps = 1, bits = 10} : tensor<3x1x2x2x16xui8>
// AVX2:          graph.table_conv %{{.*}} {bits = 10, signed} : tensor<1x1x3x32xi32>
// NONE-LABEL:  func.func @product
// NONE:          graph.packed_matmul
func.func @product(%x: tensor<3x8xui8>) -> tensor<3x9xi32> {
  %a = graph.constant dense<0> : tensor<1x4x16xi8>
  %b = graph.constant dense<-1> : tensor<1x4x16xi8>
  %p = graph.concat %a, %b {axis = 1} : tensor<1x8x16xi8>
  %y = graph.packed_matmul %x, %p {columns = 9, result_element = i32} : tensor<3x9xi32>
  return %y : tensor<3x9xi32>
}

// -----

// For weights of -1 and 1, tables hold signed sums of centred values; the bias that keeps them
// non-negative is subtracted at the end. Padding is materialised first, because pad values
// contribute to the sums.
// CHECK-LABEL: func.func @signs
// CHECK:         %[[C:.*]] = graph.cast %x : tensor<1x2x4x4x16xi16>
// CHECK-NEXT:    %[[O:.*]] = graph.constant dense<128> : tensor<i16>
// CHECK-NEXT:    %[[D:.*]] = graph.sub %[[C]], %[[O]] : tensor<1x2x4x4x16xi16>
// CHECK-NEXT:    %[[N:.*]] = graph.constant dense<-127> : tensor<i16>
// CHECK-NEXT:    %[[P:.*]] = graph.pad %[[D]], %[[N]] {low = [0, 0, 1, 1, 0], high = [0, 0, 1, 1, 0]} : tensor<1x2x6x6x16xi16>
// CHECK-NEXT:    %[[Q:.*]] = graph.pad %[[P]] {low = [0, 0, 0, 0, 0], high = [0, 1, 0, 0, 0]} : tensor<1x3x6x6x16xi16>
// CHECK-NEXT:    %[[T:.*]] = graph.sum_tables %[[Q]] {numbers = 6, groups = 6, steps = 1, bits = 11, bias = 768, exclusive} : tensor<1x6x6x1x6x2x64xui8>
// CHECK:         graph.table_conv %[[T]], %{{.*}} {bits = 11} : tensor<1x1x4x4x64xi32>
// CHECK:         %[[R:.*]] = graph.constant dense<-41472> : tensor<1x1x1x1x16xi32>
// CHECK-NEXT:    graph.add %{{.*}}, %[[R]] : tensor<1x1x4x4x16xi32>
func.func @signs(%x: tensor<1x2x4x4x16xui8>) -> tensor<1x1x4x4x16xi32> {
  %a = graph.constant dense<1> : tensor<1x1x3x3x16x16xi8>
  %b = graph.constant dense<-1> : tensor<1x1x3x3x16x16xi8>
  %w = graph.concat %a, %b {axis = 1} : tensor<1x2x3x3x16x16xi8>
  %y = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1], pad_value = 1, result_element = i32} : tensor<1x1x4x4x16xi32>
  return %y : tensor<1x1x4x4x16xi32>
}

// -----

// Sums of values with few bits fit in a byte. Padding channels of the output are scaled to 0, and
// data channels without weights are masked.
// CHECK-LABEL: func.func @spare
// CHECK:         %[[U:.*]] = graph.constant dense<{{\[+}}1, 1, 1, 0]{{.*}}> : tensor<1x1x1x1x4xi16>
// CHECK-NEXT:    %[[D:.*]] = graph.mul %{{.*}}, %[[U]] : tensor<1x1x4x4x4xi16>
// CHECK:         graph.sum_tables %{{.*}} {numbers = 6, groups = 1, steps = 1, bits = 5, bias = 12, exclusive}
// CHECK:         %[[F:.*]] = graph.constant dense<{{\[+}}1, 1, 0, 0]{{.*}}> : tensor<1x1x1x1x4xi32>
// CHECK-NEXT:    graph.mul %{{.*}}, %[[F]]
func.func @spare(%q: tensor<1x1x4x4x4xui8>) -> tensor<1x1x4x4x4xi32> {
  %three = graph.constant dense<3> : tensor<ui8>
  %x = graph.min %q, %three : tensor<1x1x4x4x4xui8>
  %w = graph.constant dense<[[[[[[1, -1, 0, 0], [-1, -1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]]]]]]> : tensor<1x1x1x1x4x4xi8>
  %y = graph.blocked_conv %x, %w {result_element = i32} : tensor<1x1x4x4x4xi32>
  return %y : tensor<1x1x4x4x4xi32>
}

// -----

// Grouped convolutions and 16-bit data have no table form.
// CHECK-LABEL: func.func @others
// CHECK-NOT:     graph.sum_tables
func.func @others(%x: tensor<1x2x4x4x16xui8>, %z: tensor<3x8xi16>) -> (tensor<1x2x4x4x16xi32>, tensor<3x16xi32>) {
  %w = graph.constant dense<1> : tensor<2x1x1x1x16x16xi8>
  %y = graph.blocked_conv %x, %w {groups = 2, result_element = i32} : tensor<1x2x4x4x16xi32>
  %p = graph.constant dense<1> : tensor<1x8x16xi16>
  %v = graph.packed_matmul %z, %p {columns = 16, result_element = i32} : tensor<3x16xi32>
  return %y, %v : tensor<1x2x4x4x16xi32>, tensor<3x16xi32>
}
