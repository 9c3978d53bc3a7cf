// RUN: echo '{"near": {"winograd": 2}, "far": {"winograd": 0}, "wild": {"winograd": 6}, "dense": {"panel": 32}, "loose": {"panel": 0}, "odd": {"panel": 20}, "plain": {"block": 0}, "alone": {"fuse": 0}, "moved": {"winograd": 2}}' > %t.json
// RUN: tcopt %s -p 'tune-graph{table="%t.json"}' --split-input-file | filecheck %s --check-prefix=WRITTEN
// RUN: tcopt %s -p 'set-target{cpu=skylake-avx512},tune-graph{table="%t.json"},convert-layout,pack-matmul,winograd,fuse-ops' --split-input-file | filecheck %s
// RUN: echo '{"near": {"winogard": 2}}' > %t.bad.json
// RUN: not tcopt %s -p 'tune-graph{table="%t.bad.json"}' 2>&1 | filecheck %s --check-prefix=NAME
// RUN: echo '{"near": {"fuse": 3}}' > %t.bad.json
// RUN: not tcopt %s -p 'tune-graph{table="%t.bad.json"}' 2>&1 | filecheck %s --check-prefix=VALUE
// RUN: not tcopt %s -p 'tune-graph{table="%t.none.json"}' 2>&1 | filecheck %s --check-prefix=FILE
// NAME:  'near' has no choice 'winogard'
// VALUE: 'fuse' of 'near' is 0, which gives an op a kernel of its own, not 3
// FILE:  none.json

// A chosen Winograd tile is used, none if that is the choice, and the estimated one if the accuracy
// forbids the choice.
// WRITTEN-LABEL: func.func @tiles
// WRITTEN:       %0 = graph.blocked_conv %x, %w {{.*}}tune.winograd = 2
// CHECK-LABEL:   func.func @tiles
// CHECK:         graph.winograd_conv %x, %{{.*}} {tile = 2,
// CHECK:         graph.blocked_conv
// CHECK:         graph.winograd_conv %{{.*}}, %{{.*}} {tile = 4,
func.func @tiles(%x: tensor<1x4x56x56x16xf32>) -> tensor<1x4x56x56x16xf32> {
  %w = graph.constant @w : tensor<4x4x3x3x16x16xf32>
  %0 = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x4x56x56x16xf32> loc("near")
  %1 = graph.blocked_conv %0, %w {pads = [1, 1, 1, 1]} : tensor<1x4x56x56x16xf32> loc("far")
  %2 = graph.blocked_conv %1, %w {pads = [1, 1, 1, 1]} : tensor<1x4x56x56x16xf32> loc("wild")
  return %2 : tensor<1x4x56x56x16xf32>
}

// -----

// A chosen panel width is used if it is whole vectors; weights stay unpacked if that is chosen.
// CHECK-LABEL:   func.func @panels
// CHECK:         graph.layout_transform %w {src = "KN", dst = "NK32n"}
// CHECK:         graph.packed_matmul %x,
// CHECK:         graph.matmul
// CHECK:         graph.layout_transform %v {src = "KN", dst = "NK48n"}
// CHECK:         graph.packed_matmul
func.func @panels(%x: tensor<128x768xf32>) -> tensor<128x768xf32> {
  %w = graph.constant @w : tensor<768x768xf32>
  %u = graph.constant @u : tensor<768x768xf32>
  %v = graph.constant @v : tensor<768x768xf32>
  %a = graph.matmul %x, %w : tensor<128x768xf32> loc("dense")
  %b = graph.matmul %a, %u : tensor<128x768xf32> loc("loose")
  %c = graph.matmul %b, %v : tensor<128x768xf32> loc("odd")
  return %c : tensor<128x768xf32>
}

// -----

// A convolution stays plain if that is chosen.
// CHECK-LABEL:   func.func @layouts
// CHECK:         graph.blocked_conv
// CHECK:         graph.conv
func.func @layouts(%x: tensor<1x64x28x28xf32>) -> tensor<1x64x28x28xf32> {
  %w = graph.constant @w : tensor<64x64x1x1xf32>
  %0 = graph.conv %x, %w : tensor<1x64x28x28xf32>
  %1 = graph.conv %0, %w : tensor<1x64x28x28xf32> loc("plain")
  return %1 : tensor<1x64x28x28xf32>
}

// -----

// An operator chosen to be a separate kernel is not fused with others in either direction.
// CHECK-LABEL:   func.func @groups
// CHECK:         graph.group
// CHECK:           graph.matmul
// CHECK-NEXT:      graph.yield
// CHECK:         graph.group
// CHECK:           graph.relu
// CHECK-NEXT:      graph.yield
// CHECK:         graph.group
// CHECK:           graph.exp
// CHECK-NEXT:      graph.yield
func.func @groups(%x: tensor<8x16xf32>, %w: tensor<16x16xf32>) -> tensor<8x16xf32> {
  %0 = graph.matmul %x, %w : tensor<8x16xf32>
  %1 = graph.relu %0 : tensor<8x16xf32> loc("alone")
  %2 = graph.exp %1 : tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}

// -----

// Choices carry over to replacements of an operator: blocks of channels, then a tile.
// WRITTEN-LABEL: func.func @later
// WRITTEN:       graph.conv {{.*}}tune.winograd = 2
// CHECK-LABEL:   func.func @later
// CHECK:         graph.winograd_conv {{.*}}{tile = 2,
func.func @later(%x: tensor<1x64x56x56xf32>) -> tensor<1x64x56x56xf32> {
  %w = graph.constant @w : tensor<64x64x3x3xf32>
  %0 = graph.conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x64x56x56xf32> loc("moved")
  return %0 : tensor<1x64x56x56xf32>
}
