// RUN: tcopt %s --split-input-file -p narrow-contractions,fold-constants,canonicalize | filecheck %s
// RUN: tcopt %s --split-input-file -p narrow-contractions --remarks -o %t 2>&1 | filecheck %s --check-prefix=PLAN

// The plan shows which values become bytes, in which form, and their users.
// PLAN:      done: narrow-contractions: graph.conv ({{.*}}): data in unsigned bytes above 7

// Unsigned data is stored with its zero point, which is also the pad value; the bias absorbs its
// contribution.
// CHECK-LABEL: func.func @layer
// CHECK:       %[[W:.*]] = graph.constant dense<{{.*}}> : tensor<2x2x1x1xi8>
// CHECK-NEXT:  %[[Z:.*]] = graph.constant dense<7> : tensor<ui8>
// CHECK-NEXT:  %q = graph.quantize %x, %{{.*}}, %[[Z]] : tensor<1x2x4x4xui8>
// CHECK-NEXT:  %[[C:.*]] = graph.conv %q, %[[W]] {pad_value = 7, pads = [1, 1, 1, 1], result_element = i32} : tensor<1x2x6x6xi32>
// CHECK-NEXT:  %[[B:.*]] = graph.constant dense<{{.*}}79{{.*}}207{{.*}}> : tensor<2x1x1xi32>
// CHECK-NEXT:  %y = graph.add %[[C]], %[[B]] : tensor<1x2x6x6xi32>
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", features = "+avxvnni", vector_bits = 256, registers = 16, l1 = 32768, l2 = 1048576>} {
func.func @layer(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x6x6xi32> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<7> : tensor<ui8>
  %w = graph.constant dense<[[[[1]], [[2]]], [[[-128]], [[127]]]]> : tensor<2x2x1x1xi16>
  %b = graph.constant dense<[[[100]], [[200]]]> : tensor<2x1x1xi32>
  %q = graph.quantize %x, %s, %z {centered} : tensor<1x2x4x4xi16>
  %c = graph.conv %q, %w {pads = [1, 1, 1, 1], result_element = i32} : tensor<1x2x6x6xi32>
  %y = graph.add %c, %b : tensor<1x2x6x6xi32>
  return %y : tensor<1x2x6x6xi32>
}
}

// -----

// If dot products need signed bytes, data is shifted by half its range.
// CHECK-LABEL: func.func @signed
// CHECK:       %[[Z:.*]] = graph.constant dense<-121> : tensor<i8>
// CHECK-NEXT:  %q = graph.quantize %x, %{{.*}}, %[[Z]] : tensor<2x2xi8>
// CHECK:       graph.matmul %q, %{{.*}} {result_element = i32} : tensor<2x2xi32>
// CHECK:       graph.constant dense<[-15367, 15488]> : tensor<2xi32>
module attributes {tcopt.target = #target.cpu<triple = "aarch64-unknown-linux-gnu", features = "+dotprod", vector_bits = 128, registers = 32, l1 = 32768, l2 = 1048576>} {
func.func @signed(%x: tensor<2x2xf32>) -> tensor<2x2xi32> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<7> : tensor<ui8>
  %w = graph.constant dense<[[1, 1], [-128, 127]]> : tensor<2x2xi16>
  %q = graph.quantize %x, %s, %z {centered} : tensor<2x2xi16>
  %y = graph.matmul %q, %w {result_element = i32} : tensor<2x2xi32>
  return %y : tensor<2x2xi32>
}
}

// -----

// Pooling selects among bytes; float users and a repeated quantisation convert from those bytes.
// CHECK-LABEL: func.func @users
// CHECK:       %q = graph.quantize %x, %{{.*}}, %{{.*}} : tensor<1x1x4x4xui8>
// CHECK:       %p = graph.pool %q {kind = max, kernel = [2, 2]} : tensor<1x1x3x3xui8>
// CHECK:       graph.conv %p, %{{.*}} {result_element = i32} : tensor<1x1x3x3xi32>
// CHECK:       %[[Z:.*]] = graph.constant dense<7> : tensor<ui8>
// CHECK-NEXT:  %r = graph.dequantize %p, %{{.*}}, %[[Z]] : tensor<1x1x3x3xf32>
// CHECK-NOT:   graph.cast
// CHECK:       func.return %{{.*}}, %r, %q
module attributes {tcopt.target = #target.cpu<triple = "aarch64-unknown-linux-gnu", features = "+dotprod,+i8mm", vector_bits = 128, registers = 32, l1 = 32768, l2 = 1048576>} {
func.func @users(%x: tensor<1x1x4x4xf32>) -> (tensor<1x1x3x3xi32>, tensor<1x1x3x3xf32>, tensor<1x1x4x4xui8>) {
  %s = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<7> : tensor<ui8>
  %wide = graph.constant dense<7> : tensor<i16>
  %none = graph.constant dense<0> : tensor<i16>
  %w = graph.constant dense<3> : tensor<1x1x1x1xi16>
  %q = graph.quantize %x, %s, %z {centered} : tensor<1x1x4x4xi16>
  %p = graph.pool %q {kind = max, kernel = [2, 2]} : tensor<1x1x3x3xi16>
  %y = graph.conv %p, %w {result_element = i32} : tensor<1x1x3x3xi32>
  %r = graph.dequantize %p, %s, %none : tensor<1x1x3x3xf32>
  %a = graph.add %q, %wide : tensor<1x1x4x4xi16>
  %b = graph.cast %a : tensor<1x1x4x4xui8>
  return %y, %r, %b : tensor<1x1x3x3xi32>, tensor<1x1x3x3xf32>, tensor<1x1x4x4xui8>
}
}

// -----

// With a runtime zero point, the data is padded before the convolution and the zero point's
// contribution is computed at run time.
// CHECK-LABEL: func.func @dynamic
// CHECK:       %q = graph.quantize %x, %s, %z : tensor<1x1x4x4xui8>
// CHECK:       %[[P:.*]] = graph.pad %q, %z {low = [0, 0, 1, 1], high = [0, 0, 1, 1]} : tensor<1x1x6x6xui8>
// CHECK-NEXT:  %[[C:.*]] = graph.conv %[[P]], %{{.*}} {result_element = i32} : tensor<1x1x6x6xi32>
// CHECK:       %[[Z:.*]] = graph.cast %z : tensor<i32>
// CHECK-NEXT:  %[[M:.*]] = graph.mul %{{.*}}, %[[Z]] : tensor<1x1x1xi32>
// CHECK-NEXT:  graph.sub %[[C]], %[[M]] : tensor<1x1x6x6xi32>
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", features = "+avxvnni", vector_bits = 256, registers = 16, l1 = 32768, l2 = 1048576>} {
func.func @dynamic(%x: tensor<1x1x4x4xf32>, %s: tensor<f32>, %z: tensor<ui8>) -> tensor<1x1x6x6xi32> {
  %w = graph.constant dense<3> : tensor<1x1x1x1xi16>
  %q = graph.quantize %x, %s, %z {centered} : tensor<1x1x4x4xi16>
  %c = graph.conv %q, %w {pads = [1, 1, 1, 1], result_element = i32} : tensor<1x1x6x6xi32>
  return %c : tensor<1x1x6x6xi32>
}
}

// -----

// Weights outside signed bytes are unchanged, and so is data with another 16-bit user.
// CHECK-LABEL: func.func @stays
// CHECK:       %q = graph.quantize %x, %s, %z {centered} : tensor<2x2xi16>
// CHECK-NEXT:  graph.matmul %q, %{{.*}} {result_element = i32} : tensor<2x2xi32>
// CHECK-NEXT:  graph.matmul %q, %{{.*}} {result_element = i32} : tensor<2x2xi32>
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", features = "+avxvnni", vector_bits = 256, registers = 16, l1 = 32768, l2 = 1048576>} {
func.func @stays(%x: tensor<2x2xf32>) -> (tensor<2x2xi32>, tensor<2x2xi32>) {
  %s = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<7> : tensor<ui8>
  %v = graph.constant dense<[[1, 1], [-128, 128]]> : tensor<2x2xi16>
  %w = graph.constant dense<[[1, 1], [-128, 127]]> : tensor<2x2xi16>
  %q = graph.quantize %x, %s, %z {centered} : tensor<2x2xi16>
  %a = graph.matmul %q, %v {result_element = i32} : tensor<2x2xi32>
  %b = graph.matmul %q, %w {result_element = i32} : tensor<2x2xi32>
  return %a, %b : tensor<2x2xi32>, tensor<2x2xi32>
}
}

// -----

// Without byte dot products nothing changes.
// CHECK-LABEL: func.func @pairs
// CHECK:       %q = graph.quantize %x, %s, %z {centered} : tensor<2x2xi16>
// CHECK-NEXT:  graph.matmul %q, %w {result_element = i32} : tensor<2x2xi32>
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", features = "+avx2", vector_bits = 256, registers = 16, l1 = 32768, l2 = 1048576>} {
func.func @pairs(%x: tensor<2x2xf32>) -> tensor<2x2xi32> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<7> : tensor<ui8>
  %w = graph.constant dense<[[1, 1], [-128, 127]]> : tensor<2x2xi16>
  %q = graph.quantize %x, %s, %z {centered} : tensor<2x2xi16>
  %y = graph.matmul %q, %w {result_element = i32} : tensor<2x2xi32>
  return %y : tensor<2x2xi32>
}
}

// -----

// Data known to be non-negative fits in bytes too.
// CHECK-LABEL: func.func @relu
// CHECK:       %[[R:.*]] = graph.relu %q : tensor<2x2xi16>
// CHECK-NEXT:  %[[B:.*]] = graph.cast %[[R]] : tensor<2x2xui8>
// CHECK-NEXT:  graph.matmul %[[B]], %{{.*}} {result_element = i32} : tensor<2x2xi32>
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", features = "+avxvnni", vector_bits = 256, registers = 16, l1 = 32768, l2 = 1048576>} {
func.func @relu(%x: tensor<2x2xf32>) -> tensor<2x2xi32> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<7> : tensor<ui8>
  %w = graph.constant dense<[[1, 1], [-128, 127]]> : tensor<2x2xi16>
  %q = graph.quantize %x, %s, %z {centered} : tensor<2x2xi16>
  %r = graph.relu %q : tensor<2x2xi16>
  %y = graph.matmul %r, %w {result_element = i32} : tensor<2x2xi32>
  return %y : tensor<2x2xi32>
}
}

// -----

// Two computed matrices are multiplied as unsigned and signed bytes. The contributions of their
// zero points are computed from row and column sums.
// CHECK-LABEL: func.func @computed
// CHECK:       %[[P:.*]] = graph.matmul %a, %b {result_element = i32} : tensor<4x6xi32>
// CHECK:       graph.reduce {{.*}}axes = [0]{{.*}} : tensor<6xi32>
// CHECK:       graph.reduce {{.*}}axes = [1]{{.*}} : tensor<4xi32>
// CHECK-NOT:   graph.matmul
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", features = "+avxvnni", vector_bits = 256, registers = 16, l1 = 32768, l2 = 1048576>} {
func.func @computed(%a: tensor<4x8xui8>, %b: tensor<8x6xi8>, %s: tensor<ui8>, %t: tensor<i8>) -> tensor<4x6xi32> {
  %0 = graph.cast %a : tensor<4x8xi16>
  %1 = graph.cast %s : tensor<i16>
  %2 = graph.sub %0, %1 : tensor<4x8xi16>
  %3 = graph.cast %b : tensor<8x6xi16>
  %4 = graph.cast %t : tensor<i16>
  %5 = graph.sub %3, %4 : tensor<8x6xi16>
  %6 = graph.matmul %2, %5 {result_element = i32} : tensor<4x6xi32>
  return %6 : tensor<4x6xi32>
}
}

// -----

// For a single row, converting the matrix to signed bytes does not pay off.
// CHECK-LABEL: func.func @row
// CHECK:       graph.matmul {{.*}} : tensor<1x6xi32>
// CHECK-NOT:   graph.reduce
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", features = "+avxvnni", vector_bits = 256, registers = 16, l1 = 32768, l2 = 1048576>} {
func.func @row(%a: tensor<1x8xui8>, %b: tensor<8x6xui8>) -> tensor<1x6xi32> {
  %0 = graph.cast %a : tensor<1x8xi16>
  %1 = graph.cast %b : tensor<8x6xi16>
  %2 = graph.matmul %0, %1 {result_element = i32} : tensor<1x6xi32>
  return %2 : tensor<1x6xi32>
}
}
