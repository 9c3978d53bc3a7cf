// RUN: tcopt %s -p 'set-target{gpu=opencl},fuse-ops' | filecheck %s

// A permutation that moves whole rows is done by the store of the product's kernel.
// CHECK-LABEL: @rows
// CHECK:       graph.group kind = complex_out_fusable
// CHECK-NEXT:    graph.matmul
// CHECK-NEXT:    graph.transpose {{.*}} {perm = [1, 0, 2]}
// CHECK-NEXT:    graph.yield
func.func @rows(%x: tensor<5x8x16xf32>, %w: tensor<16x17xf32>) -> tensor<8x5x17xf32> {
  %m = graph.matmul %x, %w : tensor<5x8x17xf32>
  %t = graph.transpose %m {perm = [1, 0, 2]} : tensor<8x5x17xf32>
  func.return %t : tensor<8x5x17xf32>
}

// Few elements are stored one by one, each on its own, in less time than another launch takes.
// CHECK-LABEL: @columns
// CHECK:       graph.matmul
// CHECK-NEXT:    graph.transpose
// CHECK-NEXT:    graph.yield
func.func @columns(%x: tensor<5x8x16xf32>, %w: tensor<16x12xf32>) -> tensor<5x12x8xf32> {
  %m = graph.matmul %x, %w : tensor<5x8x12xf32>
  %t = graph.transpose %m {perm = [0, 2, 1]} : tensor<5x12x8xf32>
  func.return %t : tensor<5x12x8xf32>
}

// Many are permuted by a launch of their own.
// CHECK-LABEL: @many_columns
// CHECK:       graph.matmul
// CHECK-NEXT:    graph.yield
func.func @many_columns(%x: tensor<512x16xf32>, %w: tensor<16x512xf32>) -> tensor<512x512xf32> {
  %m = graph.matmul %x, %w : tensor<512x512xf32>
  %t = graph.transpose %m {perm = [1, 0]} : tensor<512x512xf32>
  func.return %t : tensor<512x512xf32>
}

// An op on each element joins them, behind views too.
// CHECK-LABEL: @rounded
// CHECK:       graph.matmul
// CHECK-NEXT:    graph.transpose
// CHECK-NEXT:    graph.reshape
// CHECK-NEXT:    graph.cast
// CHECK-NEXT:    graph.yield
func.func @rounded(%x: tensor<5x8x16xf32>, %w: tensor<16x17xf32>) -> tensor<8x85xf16> {
  %m = graph.matmul %x, %w : tensor<5x8x17xf32>
  %t = graph.transpose %m {perm = [1, 0, 2]} : tensor<8x5x17xf32>
  %r = graph.reshape %t : tensor<8x85xf32>
  %c = graph.cast %r : tensor<8x85xf16>
  func.return %c : tensor<8x85xf16>
}

// So do those with operands that are broadcast, but not those that read as much again.
// CHECK-LABEL: @biased
// CHECK:       graph.matmul
// CHECK-NEXT:    graph.transpose
// CHECK-NEXT:    graph.add
// CHECK-NEXT:    graph.relu
// CHECK-NEXT:    graph.yield
// CHECK:       graph.add
func.func @biased(%x: tensor<5x8x16xf32>, %w: tensor<16x17xf32>, %b: tensor<17xf32>, %r: tensor<8x5x17xf32>) -> tensor<8x5x17xf32> {
  %m = graph.matmul %x, %w : tensor<5x8x17xf32>
  %t = graph.transpose %m {perm = [1, 0, 2]} : tensor<8x5x17xf32>
  %a = graph.add %t, %b : tensor<8x5x17xf32>
  %c = graph.relu %a : tensor<8x5x17xf32>
  %s = graph.add %c, %r : tensor<8x5x17xf32>
  func.return %s : tensor<8x5x17xf32>
}
