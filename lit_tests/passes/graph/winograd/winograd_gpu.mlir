// REQUIRES: long
// RUN: tcopt %s -p 'set-target{gpu=sm_80},winograd' | filecheck %s
// RUN: tcopt %s -p 'set-target{gpu=sm_80},winograd{accuracy=strict}' | filecheck %s --check-prefix=STRICT
// RUN: tcopt %s -p 'set-target{gpu=sm_80},winograd{accuracy=fast}' | filecheck %s --check-prefix=FAST
// RUN: tcopt %s -p 'set-target{gpu=sm_89},winograd{accuracy=fast}' | filecheck %s --check-prefix=SLOW
// RUN: tcopt %s -p 'set-target{gpu=mali},winograd{accuracy=fast}' | filecheck %s --check-prefix=FEW

// Weights are transformed as one block of all channels; the accuracy limits the tile size. On
// devices with low memory bandwidth the transforms cost more than they save. Devices with few
// registers use small tiles.
// CHECK-LABEL: func.func @large
// CHECK:       %[[T:.*]] = graph.transpose %w {perm = [2, 3, 1, 0]} : tensor<3x3x64x96xf32>
// CHECK-NEXT:  %[[B:.*]] = graph.reshape %[[T]] : tensor<1x1x3x3x64x96xf32>
// CHECK-NEXT:  %[[U:.*]] = graph.winograd_weights %[[B]] {tile = 4} : tensor<6x6x1x1x64x96xf32>
// CHECK-NEXT:  %[[W:.*]] = graph.reshape %[[U]] : tensor<6x6x64x96xf32>
// CHECK-NEXT:  %y = graph.winograd_plain_conv %x, %[[W]] {tile = 4, pads = [1, 1, 1, 1]} : tensor<8x96x56x56xf32>
// STRICT-LABEL: func.func @large
// STRICT:       graph.winograd_plain_conv %x, %{{.*}} {tile = 2, pads = [1, 1, 1, 1]}
// FAST-LABEL:   func.func @large
// FAST:         graph.winograd_plain_conv %x, %{{.*}} {tile = 6, pads = [1, 1, 1, 1]}
// SLOW-LABEL:   func.func @large
// SLOW:         graph.conv
// FEW-LABEL:    func.func @large
// FEW:          graph.winograd_plain_conv %x, %{{.*}} {tile = 2, pads = [1, 1, 1, 1]}
func.func @large(%x: tensor<8x64x56x56xf32>) -> tensor<8x96x56x56xf32> {
  %w = graph.constant dense<0.5> : tensor<96x64x3x3xf32>
  %y = graph.conv %x, %w {pads = [1, 1, 1, 1]} : tensor<8x96x56x56xf32>
  return %y : tensor<8x96x56x56xf32>
}

// With few channels transforms dominate, and small images finish faster than three launches.
// Groups, strides and non-constant weights stay direct.
// CHECK-NOT:   graph.winograd
// CHECK:       return
func.func @channels(%x: tensor<8x3x224x224xf32>) -> tensor<8x64x224x224xf32> {
  %w = graph.constant dense<0.5> : tensor<64x3x3x3xf32>
  %y = graph.conv %x, %w {pads = [1, 1, 1, 1]} : tensor<8x64x224x224xf32>
  return %y : tensor<8x64x224x224xf32>
}
// CHECK-NOT:   graph.winograd
func.func @small(%x: tensor<1x32x14x14xf32>) -> tensor<1x32x14x14xf32> {
  %w = graph.constant dense<0.5> : tensor<32x32x3x3xf32>
  %y = graph.conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x32x14x14xf32>
  return %y : tensor<1x32x14x14xf32>
}
// CHECK-NOT:   graph.winograd
func.func @direct(%x: tensor<8x64x57x57xf32>, %v: tensor<64x64x3x3xf32>) -> (tensor<8x64x29x29xf32>, tensor<8x64x55x55xf32>, tensor<8x64x55x55xf32>) {
  %w = graph.constant dense<0.5> : tensor<64x64x3x3xf32>
  %g = graph.constant dense<0.5> : tensor<64x32x3x3xf32>
  %a = graph.conv %x, %w {strides = [2, 2], pads = [1, 1, 1, 1]} : tensor<8x64x29x29xf32>
  %b = graph.conv %x, %g {groups = 2} : tensor<8x64x55x55xf32>
  %c = graph.conv %x, %v : tensor<8x64x55x55xf32>
  return %a, %b, %c : tensor<8x64x29x29xf32>, tensor<8x64x55x55xf32>, tensor<8x64x55x55xf32>
}
