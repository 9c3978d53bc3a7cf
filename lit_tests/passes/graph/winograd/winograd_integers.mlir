// RUN: tcopt %s -p 'set-target{cpu=haswell},winograd{accuracy=strict}' | filecheck %s
// RUN: tcopt %s -p 'set-target{cpu=haswell},winograd{tile=2}' | filecheck %s --check-prefix=TWO
// RUN: tcopt %s -p 'set-target{cpu=cortex-a72},winograd' | filecheck %s --check-prefix=NONE

// Widened 8-bit data minus a zero point: the results are exact, so any accuracy allows it.
// CHECK-LABEL: func.func @bytes
// CHECK:       %[[W:.*]] = graph.winograd_weights %w {tile = 4} : tensor<6x6x8x8x8x8xi16>
// CHECK-NEXT:  %[[R:.*]] = graph.reshape %[[W]] : tensor<6x6x8x8x4x2x8xi16>
// CHECK-NEXT:  %[[P:.*]] = graph.transpose %[[R]] {perm = [0, 1, 2, 3, 4, 6, 5]} : tensor<6x6x8x8x4x8x2xi16>
// CHECK-NEXT:  %y = graph.winograd_conv %d, %[[P]] {tile = 4, pads = [1, 1, 1, 1]} : tensor<1x8x56x56x8xi32>
// TWO-LABEL:   func.func @bytes
// TWO:         graph.winograd_conv %d, %{{.*}} {tile = 2, pads = [1, 1, 1, 1]} : tensor<1x8x56x56x8xi32>
// Without a 16-bit dot product nothing changes.
// NONE-NOT:    graph.winograd
func.func @bytes(%x: tensor<1x8x56x56x8xui8>) -> tensor<1x8x56x56x8xi32> {
  %w = graph.constant dense<-128> : tensor<8x8x3x3x8x8xi16>
  %z = graph.constant dense<7> : tensor<i16>
  %c = graph.cast %x : tensor<1x8x56x56x8xi16>
  %d = graph.sub %c, %z : tensor<1x8x56x56x8xi16>
  %y = graph.blocked_conv %d, %w {pads = [1, 1, 1, 1], result_element = i32} : tensor<1x8x56x56x8xi32>
  return %y : tensor<1x8x56x56x8xi32>
}

// With this many channels, sums scaled by 64 for F(4x4) may overflow 32 bits; scaled by 4 for
// F(2x2) they do not.
// CHECK-LABEL: func.func @deep
// CHECK:       graph.winograd_conv %d, %{{.*}} {tile = 2, pads = [1, 1, 1, 1]}
func.func @deep(%x: tensor<1x32x28x28x8xi8>) -> tensor<1x8x28x28x8xi32> {
  %w = graph.constant dense<127> : tensor<8x32x3x3x8x8xi16>
  %d = graph.cast %x : tensor<1x32x28x28x8xi16>
  %y = graph.blocked_conv %d, %w {pads = [1, 1, 1, 1], result_element = i32} : tensor<1x8x28x28x8xi32>
  return %y : tensor<1x8x28x28x8xi32>
}

// The transform of 16-bit data or weights may need more than 16 bits.
// CHECK-LABEL: func.func @wide
// CHECK-NOT:   graph.winograd
// CHECK:       return
// TWO-LABEL:   func.func @wide
// TWO-NOT:     graph.winograd
// TWO:         return
func.func @wide(%x: tensor<1x8x56x56x8xi16>, %v: tensor<1x8x56x56x8xi8>) -> (tensor<1x8x56x56x8xi32>, tensor<1x8x56x56x8xi32>) {
  %w = graph.constant dense<1> : tensor<8x8x3x3x8x8xi16>
  %u = graph.constant dense<5000> : tensor<8x8x3x3x8x8xi16>
  %d = graph.cast %v : tensor<1x8x56x56x8xi16>
  %y = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1], result_element = i32} : tensor<1x8x56x56x8xi32>
  %z = graph.blocked_conv %d, %u {pads = [1, 1, 1, 1], result_element = i32} : tensor<1x8x56x56x8xi32>
  return %y, %z : tensor<1x8x56x56x8xi32>, tensor<1x8x56x56x8xi32>
}

// Bytes for which the target has dot products stay bytes.
// CHECK-LABEL: func.func @narrow
// CHECK-NOT:   graph.winograd
// CHECK:       return
func.func @narrow(%x: tensor<1x8x56x56x8xui8>) -> tensor<1x8x56x56x8xi32> {
  %w = graph.constant dense<3> : tensor<8x8x3x3x8x8xi8>
  %y = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1], result_element = i32} : tensor<1x8x56x56x8xi32>
  return %y : tensor<1x8x56x56x8xi32>
}

// A stride turns pixels into channels, so the sums are equally long.
// TWO-LABEL:   func.func @strided
// TWO:         graph.winograd_conv %d, %{{.*}} {tile = 2, stride = 2, pads = [1, 1, 1, 1]} : tensor<1x8x28x28x8xi32>
func.func @strided(%x: tensor<1x2x56x56x8xi8>) -> tensor<1x8x28x28x8xi32> {
  %w = graph.constant dense<3> : tensor<8x2x4x4x8x8xi16>
  %d = graph.cast %x : tensor<1x2x56x56x8xi16>
  %y = graph.blocked_conv %d, %w {strides = [2, 2], pads = [1, 1, 1, 1], result_element = i32} : tensor<1x8x28x28x8xi32>
  return %y : tensor<1x8x28x28x8xi32>
}
