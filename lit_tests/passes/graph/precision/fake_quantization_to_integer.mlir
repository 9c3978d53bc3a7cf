// RUN: tcopt %s -p fake-quantization-to-integer,fold-constants,canonicalize | filecheck %s
// RUN: tcopt %s -p fake-quantization-to-integer --remarks --split-input-file -o %t 2>&1 | filecheck %s --check-prefix=PLAN

// The plan shows what each op is replaced by.
// PLAN:      done: fake-quantization-to-integer: graph.conv ({{.*}}): on i32
// PLAN-NEXT: done: fake-quantization-to-integer: graph.add ({{.*}}): on i32
// PLAN:      done: fake-quantization-to-integer: graph.pool ({{.*}}): on i16

// A layer with bias is computed on centred integers and requantised by one multiplication. A choice
// made for the convolution applies to the integer form too.
// CHECK-LABEL: func.func @layer
// CHECK:       %[[X:.*]] = graph.cast %x : tensor<1x4x4x4xi16>
// CHECK:       %[[C:.*]] = graph.sub %[[X]], %{{.*}} : tensor<1x4x4x4xi16>
// CHECK:       %[[S:.*]] = graph.conv %[[C]], %{{.*}} {result_element = i32, tune.block = 0} : tensor<1x8x4x4xi32>
// CHECK:       %[[B:.*]] = graph.add %[[S]], %{{.*}} : tensor<1x8x4x4xi32>
// CHECK:       %[[R:.*]] = graph.relu %[[B]] : tensor<1x8x4x4xi32>
// CHECK:       %[[F:.*]] = graph.constant dense<2.500000e-01> : tensor<f32>
// CHECK:       %[[Q:.*]] = graph.requantize %[[R]], %[[F]], %{{.*}} {centered} : tensor<1x8x4x4xi16>
// CHECK:       %[[Z:.*]] = graph.add %[[Q]], %{{.*}} : tensor<1x8x4x4xi16>
// CHECK:       %q = graph.cast %[[Z]] : tensor<1x8x4x4xui8>
// CHECK-NEXT:  func.return %q
func.func @layer(%x: tensor<1x4x4x4xui8>) -> tensor<1x8x4x4xui8> {
  %w = graph.constant @w : tensor<8x4x1x1xi8>
  %b = graph.constant dense<[[[0]], [[1]], [[2]], [[3]], [[4]], [[5]], [[6]], [[7]]]> : tensor<8x1x1xi32>
  %half = graph.constant dense<0.5> : tensor<f32>
  %quarter = graph.constant dense<0.25> : tensor<f32>
  %one = graph.constant dense<1.0> : tensor<f32>
  %z = graph.constant dense<100> : tensor<ui8>
  %none = graph.constant dense<0> : tensor<i8>
  %zero = graph.constant dense<0> : tensor<i32>
  %0 = graph.dequantize %x, %half, %z : tensor<1x4x4x4xf32>
  %1 = graph.dequantize %w, %half, %none : tensor<8x4x1x1xf32>
  %2 = graph.conv %0, %1 {tune.block = 0 : i64} : tensor<1x8x4x4xf32>
  %3 = graph.dequantize %b, %quarter, %zero : tensor<8x1x1xf32>
  %4 = graph.add %2, %3 : tensor<1x8x4x4xf32>
  %5 = graph.relu %4 : tensor<1x8x4x4xf32>
  %q = graph.quantize %5, %one, %z : tensor<1x8x4x4xui8>
  return %q : tensor<1x8x4x4xui8>
}

// Comparisons and data movement keep integers and scale: requantising them is an identity.
// CHECK-LABEL: func.func @moved
// CHECK:       %[[C:.*]] = graph.sub
// CHECK-NEXT:  %[[M:.*]] = graph.pool %[[C]] {kind = max, kernel = [2, 2]} : tensor<1x4x3x3xi16>
// CHECK-NEXT:  %[[T:.*]] = graph.transpose %[[M]] {perm = [0, 2, 3, 1]} : tensor<1x3x3x4xi16>
// CHECK:       %[[Z:.*]] = graph.add %[[T]], %{{.*}} : tensor<1x3x3x4xi16>
// CHECK-NEXT:  %q = graph.cast %[[Z]] : tensor<1x3x3x4xui8>
func.func @moved(%x: tensor<1x4x4x4xui8>) -> tensor<1x3x3x4xui8> {
  %half = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<100> : tensor<ui8>
  %0 = graph.dequantize %x, %half, %z : tensor<1x4x4x4xf32>
  %1 = graph.pool %0 {kind = max, kernel = [2, 2]} : tensor<1x4x3x3xf32>
  %2 = graph.transpose %1 {perm = [0, 2, 3, 1]} : tensor<1x3x3x4xf32>
  %q = graph.quantize %2, %half, %z : tensor<1x3x3x4xui8>
  return %q : tensor<1x3x3x4xui8>
}

// Other operators get floats from the centred integers, which replace the model's own subtraction
// of the zero point; nothing quantises with the zero point.
// CHECK-LABEL: func.func @both
// CHECK:       %[[Q:.*]] = graph.quantize %x, %{{.*}}, %{{.*}} {centered} : tensor<2x4xi16>
// CHECK:       %[[D:.*]] = graph.dequantize %[[Q]]
// CHECK:       %[[E:.*]] = graph.sigmoid %[[D]] : tensor<2x4xf32>
// CHECK:       %[[P:.*]] = graph.matmul %[[Q]], %w {result_element = i32} : tensor<2x3xi32>
// CHECK-NEXT:  func.return %[[E]], %[[P]]
func.func @both(%x: tensor<2x4xf32>, %w: tensor<4x3xi16>) -> (tensor<2x4xf32>, tensor<2x3xi32>) {
  %half = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<100> : tensor<ui8>
  %wide = graph.constant dense<100> : tensor<i16>
  %q = graph.quantize %x, %half, %z : tensor<2x4xui8>
  %0 = graph.dequantize %q, %half, %z : tensor<2x4xf32>
  %1 = graph.sigmoid %0 : tensor<2x4xf32>
  %2 = graph.cast %q : tensor<2x4xi16>
  %3 = graph.sub %2, %wide : tensor<2x4xi16>
  %4 = graph.matmul %3, %w {result_element = i32} : tensor<2x3xi32>
  return %1, %4 : tensor<2x4xf32>, tensor<2x3xi32>
}

// A scale that varies along the reduced channels, or 16-bit integers, leave the layer in floats.
// CHECK-LABEL: func.func @not_possible
// CHECK:       graph.conv %{{.*}}, %{{.*}} : tensor<1x8x4x4xf32>
// CHECK:       graph.matmul %{{.*}}, %{{.*}} : tensor<2x2xf32>
func.func @not_possible(%x: tensor<1x4x4x4xui8>, %w: tensor<8x4x1x1xi8>, %s: tensor<4x1x1xf32>, %a: tensor<2x2xi16>) -> (tensor<1x8x4x4xf32>, tensor<2x2xf32>) {
  %half = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<100> : tensor<ui8>
  %none = graph.constant dense<0> : tensor<i8>
  %none16 = graph.constant dense<0> : tensor<i16>
  %0 = graph.dequantize %x, %half, %z : tensor<1x4x4x4xf32>
  %1 = graph.dequantize %w, %s, %none : tensor<8x4x1x1xf32>
  %2 = graph.conv %0, %1 : tensor<1x8x4x4xf32>
  %3 = graph.dequantize %a, %half, %none16 : tensor<2x2xf32>
  %4 = graph.matmul %3, %3 : tensor<2x2xf32>
  return %2, %4 : tensor<1x8x4x4xf32>, tensor<2x2xf32>
}

// -----

// A clamp outside the quantised range is removed before quantisation; other clamps stay.
// CHECK-LABEL: func.func @limits
// CHECK-NOT:   graph.clip
// CHECK-NOT:   graph.relu
// CHECK:       %[[S:.*]] = graph.conv %{{.*}} {result_element = i32}
// CHECK:       graph.requantize %[[S]], %{{.*}} {centered}
// CHECK:       %[[L:.*]] = graph.clip %{{.*}} {min = 0.0, max = 6.0}
// CHECK:       graph.quantize %[[L]], %{{.*}} {centered}
// CHECK-NOT:   graph.clip
func.func @limits(%x: tensor<1x4x4x4xui8>, %y: tensor<2xf32>) -> (tensor<1x8x4x4xui8>, tensor<2xui8>, tensor<2xui8>) {
  %w = graph.constant @w : tensor<8x4x1x1xi8>
  %half = graph.constant dense<0.5> : tensor<f32>
  %six = graph.constant dense<0.0235294122> : tensor<f32>
  %seven = graph.constant dense<0.0274509806> : tensor<f32>
  %z = graph.constant dense<0> : tensor<ui8>
  %none = graph.constant dense<0> : tensor<i8>
  %0 = graph.dequantize %x, %half, %z : tensor<1x4x4x4xf32>
  %1 = graph.dequantize %w, %half, %none : tensor<8x4x1x1xf32>
  %2 = graph.conv %0, %1 : tensor<1x8x4x4xf32>
  %3 = graph.relu %2 : tensor<1x8x4x4xf32>
  %4 = graph.clip %3 {min = 0.0, max = 6.0} : tensor<1x8x4x4xf32>
  %q = graph.quantize %4, %six, %z : tensor<1x8x4x4xui8>
  %5 = graph.clip %y {min = 0.0, max = 6.0} : tensor<2xf32>
  %r = graph.quantize %5, %seven, %z : tensor<2xui8>
  %s = graph.quantize %5, %six, %z : tensor<2xui8>
  return %q, %r, %s : tensor<1x8x4x4xui8>, tensor<2xui8>, tensor<2xui8>
}
