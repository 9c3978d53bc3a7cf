// RUN: tcopt %s -p sink-concat | filecheck %s

// Operators after a concatenation move to its parts, one after the other; constants are split.
// CHECK-LABEL: func.func @chain
// CHECK-NEXT:    %b = graph.constant
// CHECK-NEXT:    %c = graph.conv %x, %w : tensor<1x8x4x4xf32>
// CHECK-NEXT:    [[B0:%.*]] = graph.slice %b {starts = [0, 0, 0]} : tensor<8x1x1xf32>
// CHECK-NEXT:    [[S0:%.*]] = graph.add %c, [[B0]] : tensor<1x8x4x4xf32>
// CHECK-NEXT:    [[B1:%.*]] = graph.slice %b {starts = [8, 0, 0]} : tensor<4x1x1xf32>
// CHECK-NEXT:    [[S1:%.*]] = graph.add %x, [[B1]] : tensor<1x4x4x4xf32>
// CHECK-NEXT:    [[R0:%.*]] = graph.relu [[S0]] : tensor<1x8x4x4xf32>
// CHECK-NEXT:    [[R1:%.*]] = graph.relu [[S1]] : tensor<1x4x4x4xf32>
// CHECK-NEXT:    %r = graph.concat [[R0]], [[R1]] {axis = 1} : tensor<1x12x4x4xf32>
// CHECK-NEXT:    return %r
func.func @chain(%x: tensor<1x4x4x4xf32>, %w: tensor<8x4x1x1xf32>) -> tensor<1x12x4x4xf32> {
  %b = graph.constant dense<1.0> : tensor<12x1x1xf32>
  %c = graph.conv %x, %w : tensor<1x8x4x4xf32>
  %y = graph.concat %c, %x {axis = 1} : tensor<1x12x4x4xf32>
  %s = graph.add %y, %b : tensor<1x12x4x4xf32>
  %r = graph.relu %s : tensor<1x12x4x4xf32>
  return %r : tensor<1x12x4x4xf32>
}

// The concatenation stays if it or all of its parts have other users, or if an operand is unknown.
// CHECK-LABEL: func.func @used
// CHECK:         [[Y:%.*]] = graph.concat
// CHECK-NEXT:    graph.relu [[Y]]
// CHECK-LABEL: func.func @shared
// CHECK:         [[Y:%.*]] = graph.concat
// CHECK-NEXT:    graph.relu [[Y]]
// CHECK-LABEL: func.func @unknown
// CHECK:         [[Y:%.*]] = graph.concat
// CHECK-NEXT:    graph.add [[Y]]
func.func @used(%x: tensor<1x4x4x4xf32>, %w: tensor<8x4x1x1xf32>) -> (tensor<1x12x4x4xf32>, tensor<1x12x4x4xf32>) {
  %c = graph.conv %x, %w : tensor<1x8x4x4xf32>
  %y = graph.concat %c, %x {axis = 1} : tensor<1x12x4x4xf32>
  %r = graph.relu %y : tensor<1x12x4x4xf32>
  return %y, %r : tensor<1x12x4x4xf32>, tensor<1x12x4x4xf32>
}
func.func @shared(%x: tensor<1x4x4x4xf32>, %w: tensor<8x4x1x1xf32>) -> (tensor<1x8x4x4xf32>, tensor<1x12x4x4xf32>) {
  %c = graph.conv %x, %w : tensor<1x8x4x4xf32>
  %y = graph.concat %c, %x {axis = 1} : tensor<1x12x4x4xf32>
  %r = graph.relu %y : tensor<1x12x4x4xf32>
  return %c, %r : tensor<1x8x4x4xf32>, tensor<1x12x4x4xf32>
}
func.func @unknown(%x: tensor<1x4x4x4xf32>, %w: tensor<8x4x1x1xf32>, %z: tensor<1x12x4x4xf32>) -> tensor<1x12x4x4xf32> {
  %c = graph.conv %x, %w : tensor<1x8x4x4xf32>
  %y = graph.concat %c, %x {axis = 1} : tensor<1x12x4x4xf32>
  %r = graph.add %y, %z : tensor<1x12x4x4xf32>
  return %r : tensor<1x12x4x4xf32>
}
