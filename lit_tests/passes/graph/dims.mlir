// RUN: tcopt %s -p set-target,fake-quantization-to-integer,fold-constants,fold-shapes,decompose,hoist-slices,fold-constants,fold-scale,canonicalize,narrow-contractions,widen-floats,separate-pools,expand-conv-transpose,split-taps,sink-concat,gather-pixels,convert-layout,pack-matmul,pack-dots,winograd,sink-concat,fold-constants,canonicalize,propagate-padding,fuse-ops -o %t.mlir && filecheck %s --input-file %t.mlir
// RUN: tcopt %t.mlir -p lower-graph-to-te | filecheck %s --check-prefix=TE

// Dimension names are preserved by all graph passes.
// CHECK: func.func @main(%x: tensor<2x3x8x8xf32> {graph.dims = #graph.dims<batch, 3, h, w>}, %w{{[_0-9]*}}: tensor<10x1024xf32>) -> (tensor<2x10xf32> {graph.dims = #graph.dims<batch, 10>})

// Tensor expressions have none.
// TE: func.func @main(%x: tensor<2x3x8x8xf32>, %w{{[_0-9]*}}: tensor<10x1024xf32>) -> tensor<2x10xf32>
// TE-NOT: graph.dims
builtin.module attributes {graph.inputs = ["x", "w"], graph.outputs = ["y"]} {
  func.func @main(%x: tensor<2x3x8x8xf32> {graph.dims = #graph.dims<batch, 3, h, w>}, %w: tensor<10x1024xf32>)
      -> (tensor<2x10xf32> {graph.dims = #graph.dims<batch, 10>}) {
    %k = graph.constant dense<0.5> : tensor<16x3x3x3xf32>
    %h = graph.conv %x, %k {pads = [1, 1, 1, 1]} : tensor<2x16x8x8xf32>
    %r = graph.relu %h : tensor<2x16x8x8xf32>
    %f = graph.reshape %r : tensor<2x1024xf32>
    %t = graph.transpose %w {perm = [1, 0]} : tensor<1024x10xf32>
    %m = graph.matmul %f, %t : tensor<2x10xf32>
    %y = graph.softmax %m {axis = 1} : tensor<2x10xf32>
    func.return %y : tensor<2x10xf32>
  }
}
