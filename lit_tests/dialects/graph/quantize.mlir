// RUN: tcopt %s | tcopt | filecheck %s
// RUN: tcopt %s -p fold-constants | filecheck %s --check-prefix=FOLD

// The zero point has the quantised type; scales broadcast, here along channels.
// CHECK-LABEL: func.func @by_channel
func.func @by_channel(%x: tensor<1x2x4x4xf32>, %s: tensor<2x1x1xf32>, %z: tensor<2x1x1xui8>) -> tensor<1x2x4x4xf32> {
  // CHECK: graph.quantize %x, %s, %z : tensor<1x2x4x4xui8>
  %0 = graph.quantize %x, %s, %z : tensor<1x2x4x4xui8>
  // CHECK: graph.dequantize %{{.*}}, %s, %z : tensor<1x2x4x4xf32>
  %1 = graph.dequantize %0, %s, %z : tensor<1x2x4x4xf32>
  return %1 : tensor<1x2x4x4xf32>
}

// Centred integers have the zero point subtracted and need one more bit.
// CHECK-LABEL: func.func @centred
func.func @centred(%x: tensor<4x4xi32>, %s: tensor<f32>, %z: tensor<ui8>) -> (tensor<4x4xi16>, tensor<4x4xui8>) {
  // CHECK: graph.requantize %x, %s, %z {centered} : tensor<4x4xi16>
  %0 = graph.requantize %x, %s, %z {centered} : tensor<4x4xi16>
  // CHECK: graph.requantize %x, %s, %z : tensor<4x4xui8>
  %1 = graph.requantize %x, %s, %z : tensor<4x4xui8>
  return %0, %1 : tensor<4x4xi16>, tensor<4x4xui8>
}

// 8-bit integers, also of mixed signedness, are multiplied and summed in 32 bits.
// CHECK-LABEL: func.func @products
func.func @products(%x: tensor<3x8xui8>, %w: tensor<8x5xi8>) -> tensor<3x5xi32> {
  // CHECK: graph.matmul %x, %w {result_element = i32} : tensor<3x5xi32>
  %0 = graph.matmul %x, %w {result_element = i32} : tensor<3x5xi32>
  return %0 : tensor<3x5xi32>
}

// Halves round to even; values beyond the range saturate.
// FOLD-LABEL: func.func @known
// FOLD: dense<[0, 100, 100, 102, 255]> : tensor<5xui8>
// FOLD: dense<[-100, 0, 0, 2, 155]> : tensor<5xi16>
// FOLD: dense<[-4.900000e+01, 1.000000e+00]> : tensor<2xf32>
func.func @known() -> (tensor<5xui8>, tensor<5xi16>, tensor<2xf32>) {
  %x = graph.constant dense<[-1.0e9, -0.25, 0.25, 0.75, 1.0e9]> : tensor<5xf32>
  %s = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<100> : tensor<ui8>
  %0 = graph.quantize %x, %s, %z : tensor<5xui8>
  %1 = graph.quantize %x, %s, %z {centered} : tensor<5xi16>
  %q = graph.constant dense<[2, 102]> : tensor<2xui8>
  %2 = graph.dequantize %q, %s, %z : tensor<2xf32>
  return %0, %1, %2 : tensor<5xui8>, tensor<5xi16>, tensor<2xf32>
}
