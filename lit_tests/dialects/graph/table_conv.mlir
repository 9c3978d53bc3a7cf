// RUN: tcopt %s --split-input-file --verify-diagnostics | filecheck %s
// RUN: tcopt %s --split-input-file --verify-diagnostics -p fold-constants | filecheck %s --check-prefix=FOLD

// For each output and plane, two-bit weights select an entry of each table.
// CHECK-LABEL: func.func @image
// CHECK: graph.table_conv %x, %w {bits = 11, strides = [2, 1], signed} : tensor<1x3x2x5x64xi32>
func.func @image(%x: tensor<1x5x7x2x4x2x64xui8>, %w: tensor<3x2x3x3x2x4x64xui8>) -> tensor<1x3x2x5x64xi32> {
  %0 = graph.table_conv %x, %w {bits = 11, strides = [2, 1], signed} : tensor<1x3x2x5x64xi32>
  return %0 : tensor<1x3x2x5x64xi32>
}

// -----

// Entry 3 plus twice entry 1; a signed last plane subtracts instead.
// FOLD-LABEL: func.func @constant
// FOLD: graph.constant dense<27> : tensor<1x1x1x1xi32>
// FOLD: graph.constant dense<-13> : tensor<1x1x1x1xi32>
func.func @constant() -> (tensor<1x1x1x1xi32>, tensor<1x1x1x1xi32>) {
  %x = graph.constant dense<[[[[[[0, 10, 5, 7]]]]]]> : tensor<1x1x1x1x1x4xui8>
  %w = graph.constant dense<[[[[[[3]], [[1]]]]]]> : tensor<1x1x1x2x1x1xui8>
  %0 = graph.table_conv %x, %w {bits = 7} : tensor<1x1x1x1xi32>
  %1 = graph.table_conv %x, %w {bits = 7, signed} : tensor<1x1x1x1xi32>
  return %0, %1 : tensor<1x1x1x1xi32>, tensor<1x1x1x1xi32>
}

// -----

func.func @tables(%x: tensor<1x5x2x4x2x64xui8>, %w: tensor<3x2x1x1x3x64xui8>) -> tensor<1x3x5x64xi32> {
  // expected-error @+1 {{2 x 4 tables of 64 entries do not fit weights [3, 2, 1, 1, 3, 64]}}
  %0 = graph.table_conv %x, %w {bits = 11} : tensor<1x3x5x64xi32>
  return %0 : tensor<1x3x5x64xi32>
}

// -----

func.func @bits(%x: tensor<1x5x2x4x1x64xui8>, %w: tensor<3x2x1x1x4x64xui8>) -> tensor<1x3x5x64xi32> {
  // expected-error @+1 {{1 parts do not hold entries of 11 bits}}
  %0 = graph.table_conv %x, %w {bits = 11} : tensor<1x3x5x64xi32>
  return %0 : tensor<1x3x5x64xi32>
}

// -----

func.func @signed_bytes(%x: tensor<1x5x2x4x1x64xi8>, %w: tensor<3x2x1x1x4x64xui8>) -> tensor<1x3x5x64xi32> {
  // expected-error @+1 {{operands should be ui8}}
  %0 = graph.table_conv %x, %w {bits = 7} : tensor<1x3x5x64xi32>
  return %0 : tensor<1x3x5x64xi32>
}
