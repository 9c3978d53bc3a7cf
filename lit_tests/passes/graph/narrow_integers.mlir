// RUN: tcopt %s -p narrow-integers --split-input-file | filecheck %s

// What a ReLU left is not negative, and fits unsigned bytes.
// CHECK:      %d = graph.requantize
// CHECK-NEXT: %0 = graph.cast %d : tensor<1x8x4x4xui8>
// CHECK-NEXT: %1 = graph.cast %w : tensor<8x8x1x1xi8>
// CHECK-NEXT: %y = graph.conv %0, %1 {result_element = i32} : tensor<1x8x4x4xi32>
module attributes {tcopt.target = #target.gpu<api = "opencl", features = "dp4a", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
func.func @main(%x: tensor<1x8x4x4xi32>) -> tensor<1x8x4x4xi32> {
  %s = graph.constant dense<0.1> : tensor<f32>
  %z = graph.constant dense<0> : tensor<ui8>
  %w = graph.constant dense<3> : tensor<8x8x1x1xi16>
  %d = graph.requantize %x, %s, %z {centered} : tensor<1x8x4x4xi16>
  %y = graph.conv %d, %w {result_element = i32} : tensor<1x8x4x4xi32>
  func.return %y : tensor<1x8x4x4xi32>
}
}

// -----

// Integers without a zero point are signed bytes as they are, and a maximum of them is.
// CHECK:      graph.pool
// CHECK-NEXT: graph.cast {{.*}} : tensor<1x8x2x2xi8>
// CHECK-NOT:  graph.sub
// CHECK:      graph.conv {{.*}} {result_element = i32} : tensor<1x8x2x2xi32>
module attributes {tcopt.target = #target.gpu<api = "opencl", features = "dp4a", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
func.func @main(%x: tensor<1x8x4x4xi32>) -> tensor<1x8x2x2xi32> {
  %s = graph.constant dense<0.1> : tensor<f32>
  %z = graph.constant dense<0> : tensor<i8>
  %w = graph.constant dense<3> : tensor<8x8x1x1xi16>
  %d = graph.requantize %x, %s, %z {centered} : tensor<1x8x4x4xi16>
  %p = graph.pool %d {kind = max, kernel = [2, 2], strides = [2, 2]} : tensor<1x8x2x2xi16>
  %y = graph.conv %p, %w {result_element = i32} : tensor<1x8x2x2xi32>
  func.return %y : tensor<1x8x2x2xi32>
}
}

// -----

// From what is neither a number is taken: pads are less by it too, and the sums get it back.
// CHECK:      %[[S:.*]] = graph.constant dense<118> : tensor<i16>
// CHECK:      graph.sub %d, %[[S]]
// CHECK:      graph.constant dense<-118> : tensor<i8>
// CHECK-NEXT: graph.pad {{.*}} {low = [0, 0, 1, 1], high = [0, 0, 1, 1]} : tensor<1x8x6x6xi8>
// CHECK-NEXT: graph.conv {{.*}} {result_element = i32} : tensor<1x8x4x4xi32>
// CHECK:      graph.reduce {{.*}} {kind = sum, axes = [1, 2, 3]} : tensor<8xi32>
// CHECK:      graph.constant dense<118> : tensor<i32>
// CHECK:      %y = graph.add
module attributes {tcopt.target = #target.gpu<api = "opencl", features = "dp4a", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
func.func @main(%x: tensor<1x8x4x4xi32>) -> tensor<1x8x4x4xi32> {
  %s = graph.constant dense<0.1> : tensor<f32>
  %z = graph.constant dense<10> : tensor<ui8>
  %w = graph.constant dense<3> : tensor<8x8x3x3xi16>
  %d = graph.requantize %x, %s, %z {centered} : tensor<1x8x4x4xi16>
  %y = graph.conv %d, %w {pads = [1, 1, 1, 1], result_element = i32} : tensor<1x8x4x4xi32>
  func.return %y : tensor<1x8x4x4xi32>
}
}

// -----

// Weights of more than 8 bits, and data of which nothing is known, stay.
// CHECK-NOT: graph.cast
module attributes {tcopt.target = #target.gpu<api = "opencl", features = "dp4a", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {
func.func @main(%d: tensor<1x8x4x4xi16>, %e: tensor<1x8x4x4xi8>) -> (tensor<1x8x4x4xi32>, tensor<1x8x4x4xi32>) {
  %w = graph.constant dense<300> : tensor<8x8x1x1xi16>
  %v = graph.constant dense<3> : tensor<8x8x1x1xi16>
  %c = graph.relu %d : tensor<1x8x4x4xi16>
  %y = graph.conv %c, %w {result_element = i32} : tensor<1x8x4x4xi32>
  %z = graph.conv %c, %v {result_element = i32} : tensor<1x8x4x4xi32>
  func.return %y, %z : tensor<1x8x4x4xi32>, tensor<1x8x4x4xi32>
}
}
