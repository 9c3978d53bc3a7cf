// RUN: tcopt %s -p 'set-target{cpu=haswell},split-taps' | filecheck %s
// RUN: tcopt %s -p split-taps | filecheck %s --check-prefix=NONE

// A single output channel would use one lane of a vector; with taps as channels, vectors are full.
// CHECK-LABEL: func.func @last
// CHECK-NEXT: %[[S:.*]] = graph.reshape %w : tensor<1x1x64x9xf32>
// CHECK-NEXT: %[[T:.*]] = graph.transpose %[[S]] {perm = [0, 3, 1, 2]} : tensor<1x9x1x64xf32>
// CHECK-NEXT: %[[W:.*]] = graph.reshape %[[T]] : tensor<9x64x1x1xf32>
// CHECK-NEXT: %[[P:.*]] = graph.conv %x, %[[W]] : tensor<1x9x28x28xf32>
// CHECK-NEXT: graph.sum_taps %[[P]] {kernel = [3, 3], pads = [1, 1, 1, 1]} : tensor<1x1x28x28xf32>
// NONE-LABEL: func.func @last
// NONE-NEXT: graph.conv %x, %w
func.func @last(%x: tensor<1x64x28x28xf32>, %w: tensor<1x64x3x3xf32>) -> tensor<1x1x28x28xf32> {
  %0 = graph.conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x1x28x28xf32>
  return %0 : tensor<1x1x28x28xf32>
}

// Grouped convolutions without whole channel blocks, on images narrower than a vector, are split
// too.
// CHECK-LABEL: func.func @groups
// CHECK: %[[P:.*]] = graph.conv %x, %{{.*}} {groups = 2} : tensor<1x150x5x5xf32>
// CHECK-NEXT: graph.sum_taps %[[P]] {kernel = [5, 5], pads = [4, 4, 4, 4], groups = 2} : tensor<1x6x9x9xf32>
func.func @groups(%x: tensor<1x128x5x5xf32>, %w: tensor<6x64x5x5xf32>) -> tensor<1x6x9x9xf32> {
  %0 = graph.conv %x, %w {pads = [4, 4, 4, 4], groups = 2} : tensor<1x6x9x9xf32>
  return %0 : tensor<1x6x9x9xf32>
}

// With a single input channel, storing the products costs more than computing them.
// CHECK-LABEL: func.func @shallow
// CHECK-NEXT: graph.conv %x, %w
func.func @shallow(%x: tensor<1x1x28x28xf32>, %w: tensor<1x1x3x3xf32>) -> tensor<1x1x28x28xf32> {
  %0 = graph.conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x1x28x28xf32>
  return %0 : tensor<1x1x28x28xf32>
}

// Channels that fill vectors are computed directly.
// CHECK-LABEL: func.func @full
// CHECK-NEXT: graph.conv %x, %w
func.func @full(%x: tensor<1x64x28x28xf32>, %w: tensor<64x64x3x3xf32>) -> tensor<1x64x28x28xf32> {
  %0 = graph.conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x64x28x28xf32>
  return %0 : tensor<1x64x28x28xf32>
}
