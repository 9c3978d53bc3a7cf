// RUN: tcopt %s | filecheck %s
// RUN: tcopt %s -p canonicalize | filecheck %s --check-prefix=SINK

// A step function takes the states, one slice of each scanned operand, and the invariant operands.
// CHECK-LABEL: func.func private @step(%h: tensor<1x8xf32>, %x: tensor<1x8xf32>, %w: tensor<8x8xf32>)
// SINK-LABEL: func.func private @step(%h: tensor<1x8xf32>, %x: tensor<1x8xf32>)
// SINK-NEXT: %w = graph.constant dense<5.000000e-01> : tensor<8x8xf32>
func.func private @step(%h: tensor<1x8xf32>, %x: tensor<1x8xf32>, %w: tensor<8x8xf32>) -> (tensor<1x8xf32>, tensor<1x8xf32>) {
  %m = graph.matmul %h, %w : tensor<1x8xf32>
  %s = graph.add %m, %x : tensor<1x8xf32>
  func.return %s, %s : tensor<1x8xf32>, tensor<1x8xf32>
}

// A constant that every step uses moves into the step function.
// CHECK-LABEL: func.func @main
// CHECK: %h, %ys = graph.scan @step(%h0, %xs, %w) {trip = 5, states = 1, scanned = 1, reverse}
// CHECK-SAME: (tensor<1x8xf32>, tensor<5x1x8xf32>, tensor<8x8xf32>) -> (tensor<1x8xf32>, tensor<5x1x8xf32>)
// SINK-LABEL: func.func @main
// SINK-NEXT: graph.scan @step(%h0, %xs) {trip = 5, states = 1, scanned = 1, reverse}
func.func @main(%xs: tensor<5x1x8xf32>, %h0: tensor<1x8xf32>) -> (tensor<1x8xf32>, tensor<5x1x8xf32>) {
  %w = graph.constant dense<0.5> : tensor<8x8xf32>
  %h, %ys = graph.scan @step(%h0, %xs, %w) {trip = 5, states = 1, scanned = 1, reverse} : (tensor<1x8xf32>, tensor<5x1x8xf32>, tensor<8x8xf32>) -> (tensor<1x8xf32>, tensor<5x1x8xf32>)
  func.return %h, %ys : tensor<1x8xf32>, tensor<5x1x8xf32>
}

// Two scans may share a step function; its constants then stay outside.
// SINK-LABEL: func.func @twice
// SINK: graph.scan @pair(%h0, %xs, %
// SINK: graph.scan @pair(%h0, %xs, %
func.func private @pair(%h: tensor<4xf32>, %x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %m = graph.mul %h, %w : tensor<4xf32>
  %s = graph.add %m, %x : tensor<4xf32>
  func.return %s : tensor<4xf32>
}
func.func @twice(%xs: tensor<3x4xf32>, %h0: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %v = graph.constant dense<0.5> : tensor<4xf32>
  %w = graph.constant dense<0.25> : tensor<4xf32>
  %a = graph.scan @pair(%h0, %xs, %v) {trip = 3, states = 1, scanned = 1} : (tensor<4xf32>, tensor<3x4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = graph.scan @pair(%h0, %xs, %w) {trip = 3, states = 1, scanned = 1} : (tensor<4xf32>, tensor<3x4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %a, %b : tensor<4xf32>, tensor<4xf32>
}
