// RUN: tcopt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s

// Quantised integers must have 8 or 16 bits.
// CHECK: quantises to integers of 8 or 16 bits, not to i32
func.func @wide(%x: tensor<4xf32>, %s: tensor<f32>, %z: tensor<i32>) {
  %0 = graph.quantize %x, %s, %z : tensor<4xi32>
  return
}

// -----

// Scales must be f32.
// CHECK: the scale should be f32, got f64
func.func @scale(%x: tensor<4xf32>, %s: tensor<f64>, %z: tensor<i8>) {
  %0 = graph.quantize %x, %s, %z : tensor<4xi8>
  return
}

// -----

// The zero point must have the quantised type.
// CHECK: the zero point should be ui8
func.func @zero(%x: tensor<4xui8>, %s: tensor<f32>, %z: tensor<i8>) {
  %0 = graph.dequantize %x, %s, %z : tensor<4xf32>
  return
}

// -----

// Centred integers need one bit more than the type of the zero point.
// CHECK: result has type tensor<4xi8>, but operands and attributes give tensor<4xi16>
func.func @centred(%x: tensor<4xf32>, %s: tensor<f32>, %z: tensor<i8>) {
  %0 = graph.quantize %x, %s, %z {centered} : tensor<4xi8>
  return
}

// -----

// Only integers accumulate in integers.
// CHECK: products of f32 cannot be summed in i32
func.func @floats(%x: tensor<3x8xf32>, %w: tensor<8x5xf32>) {
  %0 = graph.matmul %x, %w {result_element = i32} : tensor<3x5xi32>
  return
}
