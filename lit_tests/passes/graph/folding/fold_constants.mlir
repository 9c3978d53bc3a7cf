// RUN: tcopt %s -p fold-constants | filecheck %s
// RUN: tcopt %s -p 'fold-constants{max-bytes=10000000}' | filecheck %s --check-prefix=LARGE

// Small results become literals.
// CHECK-LABEL: func.func @literal
// CHECK-NEXT: %[[C:.*]] = graph.constant dense<[3.000000e+00, 5.000000e+00]> : tensor<2xf32>
// CHECK-NEXT: return %[[C]]
func.func @literal() -> tensor<2xf32> {
  %0 = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %1 = graph.constant dense<2.0> : tensor<f32>
  %2 = graph.constant dense<1.0> : tensor<f32>
  %3 = graph.mul %0, %1 : tensor<2xf32>
  %4 = graph.add %3, %2 : tensor<2xf32>
  return %4 : tensor<2xf32>
}

// Operators on runtime values stay and use the folded operand.
// CHECK-LABEL: func.func @partly
// CHECK-NEXT: %[[C:.*]] = graph.constant dense<[-1.000000e+00, -2.000000e+00]> : tensor<2xf32>
// CHECK-NEXT: graph.add %x, %[[C]]
func.func @partly(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %1 = graph.neg %0 : tensor<2xf32>
  %2 = graph.add %x, %1 : tensor<2xf32>
  return %2 : tensor<2xf32>
}

// A large non-uniform result goes to the weight store; a broadcast that is much larger than its
// source is folded only if the option allows it.
// CHECK-LABEL: func.func @sizes
// CHECK: graph.constant @folded.iota : tensor<100xi64>
// CHECK: graph.broadcast_to
// LARGE-LABEL: func.func @sizes
// LARGE-NOT: graph.broadcast_to
func.func @sizes() -> (tensor<100xi64>, tensor<10000x100xi64>) {
  %0 = graph.iota : tensor<100xi64>
  %1 = graph.broadcast_to %0 : tensor<10000x100xi64>
  return %0, %1 : tensor<100xi64>, tensor<10000x100xi64>
}

// A uniform result of any size is a splat literal.
// CHECK-LABEL: func.func @uniform
// CHECK-NEXT: graph.constant dense<2.000000e+00> : tensor<8x64x3x3xf32>
func.func @uniform() -> tensor<8x64x3x3xf32> {
  %0 = graph.constant dense<4.0> : tensor<8x64x3x3xf32>
  %1 = graph.sqrt %0 : tensor<8x64x3x3xf32>
  return %1 : tensor<8x64x3x3xf32>
}

// A tensor without elements is folded, whatever computes it.
// CHECK-LABEL: func.func @empty
// CHECK-NEXT: %[[Z:.*]] = graph.constant dense<0.000000e+00> : tensor<3xf32>
// CHECK-NEXT: return %[[Z]]
func.func @empty(%x: tensor<3x0xf32>) -> tensor<3xf32> {
  %0 = graph.relu %x : tensor<3x0xf32>
  %1 = graph.reduce %0 {kind = sum, axes = [1]} : tensor<3xf32>
  return %1 : tensor<3xf32>
}

// A weight without an available value is not folded.
// CHECK-LABEL: func.func @unknown
// CHECK: graph.neg
func.func @unknown() -> tensor<2xf32> {
  %0 = graph.constant @w : tensor<2xf32>
  %1 = graph.neg %0 : tensor<2xf32>
  return %1 : tensor<2xf32>
}

// Equal operators on the same weight share one folded result; different ones do not.
// CHECK-LABEL: func.func @shared
// CHECK: %[[A:.*]] = graph.constant @[[N:folded.iota.*.neg]] : tensor<100xi64>
// CHECK: %[[B:.*]] = graph.constant @[[N]] : tensor<100xi64>
// CHECK: %[[C:.*]] = graph.constant @folded.iota{{.*}}.abs
// CHECK: return %[[A]], %[[B]], %[[C]]
func.func @shared() -> (tensor<100xi64>, tensor<100xi64>, tensor<100xi64>) {
  %0 = graph.iota : tensor<100xi64>
  %1 = graph.neg %0 : tensor<100xi64>
  %2 = graph.neg %0 : tensor<100xi64>
  %3 = graph.abs %0 : tensor<100xi64>
  return %1, %2, %3 : tensor<100xi64>, tensor<100xi64>, tensor<100xi64>
}

// Operators with empty results are folded without knowing their operands.
// CHECK-LABEL: func.func @nothing
// CHECK-NEXT: %[[Y:.*]] = graph.constant dense<> : tensor<0x2x3xf32>
// CHECK-NEXT: return %[[Y]]
func.func @nothing(%x: tensor<0x4x3xf32>, %w: tensor<2x4x1xf32>) -> tensor<0x2x3xf32> {
  %0 = graph.conv %x, %w : tensor<0x2x3xf32>
  return %0 : tensor<0x2x3xf32>
}
