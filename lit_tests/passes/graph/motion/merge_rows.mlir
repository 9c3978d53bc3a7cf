// RUN: tcopt %s -p fold-constants,merge-rows | filecheck %s

// Products with the same weights become one; the producers of the second operand move up.
// CHECK-LABEL: func.func @two
// CHECK:       %n = graph.relu %z
// CHECK-NEXT:  [[B:%.*]] = graph.reshape %n : tensor<3x128xf32>
// CHECK-NEXT:  [[J:%.*]] = graph.concat %x, [[B]] {axis = 0} : tensor<4x128xf32>
// CHECK-NEXT:  [[Y:%.*]] = graph.matmul [[J]], {{.*}} : tensor<4x128xf32>
// CHECK-NEXT:  [[P:%.*]] = graph.slice [[Y]] {starts = [0, 0]} : tensor<1x128xf32>
// CHECK-NEXT:  [[R:%.*]] = graph.relu [[P]]
// CHECK-NEXT:  [[Q:%.*]] = graph.slice [[Y]] {starts = [1, 0]} : tensor<3x128xf32>
// CHECK-NEXT:  [[L:%.*]] = graph.reshape [[Q]] : tensor<3x1x128xf32>
// CHECK-NEXT:  return [[R]], [[L]]
func.func @two(%x: tensor<1x128xf32>, %z: tensor<3x1x128xf32>)
    -> (tensor<1x128xf32>, tensor<3x1x128xf32>) {
  %i = graph.iota : tensor<16384xf32>
  %w = graph.reshape %i : tensor<128x128xf32>
  %a = graph.matmul %x, %w : tensor<1x128xf32>
  %r = graph.relu %a : tensor<1x128xf32>
  %n = graph.relu %z : tensor<3x1x128xf32>
  %b = graph.matmul %n, %w : tensor<3x1x128xf32>
  return %r, %b : tensor<1x128xf32>, tensor<3x1x128xf32>
}

// Recurrent steps depend on each other, so only the products of their inputs are merged.
// CHECK-LABEL: func.func @recurrence
// CHECK:         graph.matmul {{.*}} : tensor<2x128xf32>
// CHECK:         [[H:%.*]] = graph.matmul {{.*}} : tensor<1x128xf32>
// CHECK:         [[S:%.*]] = graph.add [[H]]
// CHECK:         graph.matmul [[S]], {{.*}} : tensor<1x128xf32>
// CHECK-NOT:     graph.matmul
func.func @recurrence(%x0: tensor<1x128xf32>, %x1: tensor<1x128xf32>, %h0: tensor<1x128xf32>)
    -> tensor<1x128xf32> {
  %i = graph.iota : tensor<16384xf32>
  %w = graph.reshape %i : tensor<128x128xf32>
  %n = graph.neg %i : tensor<16384xf32>
  %u = graph.reshape %n : tensor<128x128xf32>
  %a0 = graph.matmul %x0, %w : tensor<1x128xf32>
  %b0 = graph.matmul %h0, %u : tensor<1x128xf32>
  %h1 = graph.add %b0, %a0 : tensor<1x128xf32>
  %a1 = graph.matmul %x1, %w : tensor<1x128xf32>
  %b1 = graph.matmul %h1, %u : tensor<1x128xf32>
  %h2 = graph.add %b1, %a1 : tensor<1x128xf32>
  return %h2 : tensor<1x128xf32>
}

// Products with many rows, different weights, small weights or non-constant weights are not merged.
// CHECK-LABEL: func.func @apart
// CHECK-NOT:     graph.concat
// CHECK:         return
func.func @apart(%x: tensor<1x128xf32>, %y: tensor<1x128xf32>, %m: tensor<20x128xf32>,
                 %v: tensor<128x128xf32>) -> (tensor<1x128xf32>, tensor<20x128xf32>,
                 tensor<1x128xf32>, tensor<1x128xf32>, tensor<1x128xf32>, tensor<1x8xf32>,
                 tensor<1x8xf32>) {
  %i = graph.iota : tensor<16384xf32>
  %w = graph.reshape %i : tensor<128x128xf32>
  %n = graph.neg %i : tensor<16384xf32>
  %u = graph.reshape %n : tensor<128x128xf32>
  %k = graph.iota : tensor<1024xf32>
  %s = graph.reshape %k : tensor<128x8xf32>
  %0 = graph.matmul %x, %w : tensor<1x128xf32>
  %1 = graph.matmul %m, %w : tensor<20x128xf32>
  %2 = graph.matmul %y, %u : tensor<1x128xf32>
  %3 = graph.matmul %x, %v : tensor<1x128xf32>
  %4 = graph.matmul %y, %v : tensor<1x128xf32>
  %5 = graph.matmul %x, %s : tensor<1x8xf32>
  %6 = graph.matmul %y, %s : tensor<1x8xf32>
  return %0, %1, %2, %3, %4, %5, %6 : tensor<1x128xf32>, tensor<20x128xf32>,
    tensor<1x128xf32>, tensor<1x128xf32>, tensor<1x128xf32>, tensor<1x8xf32>, tensor<1x8xf32>
}

// A bias that is common to all is added to the merged rows; differing operators stay separate.
// CHECK-LABEL: func.func @bias
// CHECK:         [[Y:%.*]] = graph.matmul {{.*}} : tensor<2x128xf32>
// CHECK-NEXT:    [[B:%.*]] = graph.constant dense<2.000000e+00> : tensor<128xf32>
// CHECK-NEXT:    [[S:%.*]] = graph.add [[Y]], [[B]] : tensor<2x128xf32>
// CHECK-NEXT:    [[P:%.*]] = graph.slice [[S]] {starts = [0, 0]} : tensor<1x128xf32>
// CHECK-NEXT:    graph.relu [[P]]
// CHECK:         [[Q:%.*]] = graph.slice [[S]] {starts = [1, 0]} : tensor<1x128xf32>
// CHECK-NEXT:    graph.tanh [[Q]]
func.func @bias(%x: tensor<1x128xf32>, %z: tensor<1x128xf32>)
    -> (tensor<1x128xf32>, tensor<1x128xf32>) {
  %i = graph.iota : tensor<16384xf32>
  %w = graph.reshape %i : tensor<128x128xf32>
  %b = graph.constant dense<2.0> : tensor<128xf32>
  %c = graph.constant dense<2.0> : tensor<128xf32>
  %0 = graph.matmul %x, %w : tensor<1x128xf32>
  %1 = graph.add %0, %b : tensor<1x128xf32>
  %2 = graph.relu %1 : tensor<1x128xf32>
  %3 = graph.matmul %z, %w : tensor<1x128xf32>
  %4 = graph.add %3, %c : tensor<1x128xf32>
  %5 = graph.tanh %4 : tensor<1x128xf32>
  return %2, %5 : tensor<1x128xf32>, tensor<1x128xf32>
}

// The rows of the second product depend on a size that is defined after the first one.
// CHECK-LABEL: func.func @defined_size
// CHECK: graph.matmul {{.*}} : tensor<1x128xf32>
// CHECK: size.define
// CHECK: graph.matmul {{.*}} : tensor<1x128xf32>
func.func @defined_size(%x: tensor<1x128xf32>, %z: tensor<8x128xf32>, %f: tensor<8xi1>)
    -> (tensor<1x128xf32>, tensor<1x128xf32>) {
  %i = graph.iota : tensor<16384xf32>
  %w = graph.reshape %i : tensor<128x128xf32>
  %0 = graph.matmul %x, %w : tensor<1x128xf32>
  %p, %c = graph.nonzero %f : tensor<8xi64>, tensor<1xi64>
  %n = size.define %c as <n[0:8]> : tensor<1xi64>
  %r = graph.slice %z {starts = [0, 0]} : tensor<8x128xf32, #size.dims<n[0:8], 128>>
  %s = graph.reduce %r {kind = sum, axes = [0]} : tensor<128xf32>
  %t = graph.reshape %s : tensor<1x128xf32>
  %1 = graph.matmul %t, %w : tensor<1x128xf32>
  return %0, %1 : tensor<1x128xf32>, tensor<1x128xf32>
}
