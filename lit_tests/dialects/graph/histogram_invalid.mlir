// RUN: tcopt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s

// A histogram counts f32 values only.
// CHECK: expects f32, got tensor<4xi32>
func.func @integers(%x: tensor<4xi32>, %l: tensor<f32>, %h: tensor<f32>) {
  %0 = graph.histogram %x, %l, %h {bins = 8} : tensor<8xi32>
  return
}

// -----

// A range needs a lower and an upper bound.
// CHECK: the range should be two scalars
func.func @range(%x: tensor<4xf32>, %l: tensor<2xf32>, %h: tensor<f32>) {
  %0 = graph.histogram %x, %l, %h {bins = 8} : tensor<8xi32>
  return
}

// -----

// A histogram needs at least one bin.
// CHECK: bins should be 1 to 65536, got 0
func.func @none(%x: tensor<4xf32>, %l: tensor<f32>, %h: tensor<f32>) {
  %0 = graph.histogram %x, %l, %h {bins = 0} : tensor<0xi32>
  return
}
