// REQUIRES: long
// RUN: tcopt %s -p 'convert-layout{block=4}' | filecheck %s
// RUN: tcopt %s -p 'convert-layout{block=4},canonicalize,convert-layout{block=4}' | filecheck %s --check-prefix=TWICE
// RUN: tcopt %s -p 'convert-layout{block=4}' --remarks -o %t 2>&1 | filecheck %s --check-prefix=PLAN

// The plan shows which ops of each function compute in blocks.
// PLAN:      done: convert-layout: graph.conv ({{.*}}): in blocks of up to 4 channels
// PLAN-NEXT: done: convert-layout: graph.relu ({{.*}}): in blocks of up to 4 channels

// Data and kernel are transformed to channel blocks, later ops stay blocked, and the result is
// transformed back.
// CHECK-LABEL: func.func @conv
// CHECK-NEXT: %[[X:.*]] = graph.layout_transform %x {src = "NCHW", dst = "NCHW4c"} : tensor<1x1x6x6x4xf32>
// CHECK-NEXT: %[[W:.*]] = graph.layout_transform %w {src = "OIHW", dst = "OIHW4i4o"} : tensor<2x1x3x3x4x4xf32>
// CHECK-NEXT: %c = graph.blocked_conv %[[X]], %[[W]] : tensor<1x2x4x4x4xf32>
// CHECK-NEXT: %r = graph.relu %c : tensor<1x2x4x4x4xf32>
// CHECK-NEXT: %[[Y:.*]] = graph.layout_transform %r {src = "NCHW4c", dst = "NCHW"} : tensor<1x8x4x4xf32>
// CHECK-NEXT: return %[[Y]]
// The pass is idempotent.
// TWICE-LABEL: func.func @conv
// TWICE-COUNT-3: graph.layout_transform
// TWICE-NOT: graph.layout_transform
// TWICE: return
func.func @conv(%x: tensor<1x4x6x6xf32>, %w: tensor<8x4x3x3xf32>) -> tensor<1x8x4x4xf32> {
  %c = graph.conv %x, %w : tensor<1x8x4x4xf32>
  %r = graph.relu %c : tensor<1x8x4x4xf32>
  return %r : tensor<1x8x4x4xf32>
}

// For dilated windows, the axes along which most taps read padding are marked in `skips`.
// CHECK-LABEL: func.func @dilated
// CHECK: graph.blocked_conv %{{.*}} {pads = [4, 4, 4, 4], dilations = [4, 4], skips = [0, 1]} : tensor<1x2x6x6x4xf32>
func.func @dilated(%x: tensor<1x4x6x6xf32>, %w: tensor<8x4x3x3xf32>) -> tensor<1x8x6x6xf32> {
  %c = graph.conv %x, %w {pads = [4, 4, 4, 4], dilations = [4, 4]} : tensor<1x8x6x6xf32>
  return %c : tensor<1x8x6x6xf32>
}

// Columns are vectorised, so a wide axis of columns is padded instead of skipped.
// CHECK-LABEL: func.func @dilated_wide
// CHECK: graph.blocked_conv %{{.*}} {pads = [4, 100, 4, 100], dilations = [4, 100], skips = [0]} : tensor<1x2x6x300x4xf32>
func.func @dilated_wide(%x: tensor<1x4x6x300xf32>, %w: tensor<8x4x3x3xf32>) -> tensor<1x8x6x300xf32> {
  %c = graph.conv %x, %w {pads = [4, 100, 4, 100], dilations = [4, 100]} : tensor<1x8x6x300xf32>
  return %c : tensor<1x8x6x300xf32>
}

// Consecutive blocked ops have no transform between them.
// CHECK-LABEL: func.func @chain
// CHECK:      %a = graph.blocked_conv
// CHECK-NEXT: %b = graph.relu %a
// CHECK-NEXT: graph.layout_transform %v
// CHECK-NEXT: %c = graph.blocked_conv %b
// CHECK-NEXT: graph.layout_transform %c {src = "NCHW4c", dst = "NCHW"}
func.func @chain(%x: tensor<1x4x6x6xf32>, %w: tensor<4x4x1x1xf32>, %v: tensor<8x4x3x3xf32>) -> tensor<1x8x4x4xf32> {
  %a = graph.conv %x, %w : tensor<1x4x6x6xf32>
  %b = graph.relu %a : tensor<1x4x6x6xf32>
  %c = graph.conv %b, %v : tensor<1x8x4x4xf32>
  return %c : tensor<1x8x4x4xf32>
}

// A depthwise kernel has one block axis and no input channels.
// CHECK-LABEL: func.func @depthwise
// CHECK-NEXT: %[[F:.*]] = graph.reshape %w : tensor<8x3x3xf32>
// CHECK-NEXT: %[[X:.*]] = graph.layout_transform %x {src = "NCHW", dst = "NCHW4c"}
// CHECK-NEXT: %[[W:.*]] = graph.layout_transform %[[F]] {src = "OHW", dst = "OHW4o"} : tensor<2x3x3x4xf32>
// CHECK-NEXT: graph.blocked_conv %[[X]], %[[W]] {strides = [2, 2], pads = [1, 1, 1, 1]} : tensor<1x2x3x3x4xf32>
func.func @depthwise(%x: tensor<1x8x6x6xf32>, %w: tensor<8x1x3x3xf32>) -> tensor<1x8x3x3xf32> {
  %c = graph.conv %x, %w {strides = [2, 2], pads = [1, 1, 1, 1], groups = 8} : tensor<1x8x3x3xf32>
  return %c : tensor<1x8x3x3xf32>
}

// Groups with whole output blocks but narrower input read plain data; grouped 1x1 convolutions stay
// plain, as matrix products.
// CHECK-LABEL: func.func @narrow_groups
// CHECK: graph.blocked_conv %x, %{{.*}} {strides = [2, 2], groups = 2, plain} : tensor<1x2x2x2x4xf32>
// CHECK: graph.conv %x, %v {groups = 2} : tensor<1x8x6x6xf32>
func.func @narrow_groups(%x: tensor<1x6x6x6xf32>, %w: tensor<8x3x3x3xf32>, %v: tensor<8x3x1x1xf32>) -> (tensor<1x8x2x2xf32>, tensor<1x8x6x6xf32>) {
  %c = graph.conv %x, %w {strides = [2, 2], groups = 2} : tensor<1x8x2x2xf32>
  %d = graph.conv %x, %v {groups = 2} : tensor<1x8x6x6xf32>
  return %c, %d : tensor<1x8x2x2xf32>, tensor<1x8x6x6xf32>
}

// The first layer has fewer channels than a block: its data stays plain, its result is blocked.
// CHECK-LABEL: func.func @shallow
// CHECK-NEXT: %[[W:.*]] = graph.layout_transform %w {src = "OIHW", dst = "OIHW4o"} : tensor<1x3x3x3x4xf32>
// CHECK-NEXT: %c = graph.blocked_conv %x, %[[W]] {plain} : tensor<1x1x4x4x4xf32>
// CHECK-NEXT: graph.layout_transform %c {src = "NCHW4c", dst = "NCHW"}
func.func @shallow(%x: tensor<1x3x6x6xf32>, %w: tensor<4x3x3x3xf32>) -> tensor<1x4x4x4xf32> {
  %c = graph.conv %x, %w : tensor<1x4x4x4xf32>
  return %c : tensor<1x4x4x4xf32>
}

// One-dimensional convolutions are blocked too.
// CHECK-LABEL: func.func @sequence
// CHECK-NEXT: graph.layout_transform %x {src = "NCW", dst = "NCW4c"} : tensor<1x1x6x4xf32>
// CHECK-NEXT: graph.layout_transform %w {src = "OIW", dst = "OIW4i4o"} : tensor<1x1x3x4x4xf32>
func.func @sequence(%x: tensor<1x4x6xf32>, %w: tensor<4x4x3xf32>) -> tensor<1x4x6xf32> {
  %c = graph.conv %x, %w {pads = [1, 1]} : tensor<1x4x6xf32>
  return %c : tensor<1x4x6xf32>
}

// Scalars stay, constants per channel are reshaped, larger ones are transformed.
// CHECK-LABEL: func.func @constants
// CHECK:      graph.mul %c, %s : tensor<1x1x6x6x4xf32>
// CHECK-NEXT: %[[K:.*]] = graph.reshape %k : tensor<1x1x1x4xf32>
// CHECK-NEXT: graph.add %{{.*}}, %[[K]] : tensor<1x1x6x6x4xf32>
// CHECK-NEXT: %[[F:.*]] = graph.layout_transform %f {src = "CHW", dst = "CHW4c"} : tensor<1x6x6x4xf32>
// CHECK-NEXT: graph.add %[[F]], %{{.*}} : tensor<1x1x6x6x4xf32>
// CHECK-NEXT: graph.layout_transform %{{.*}} {src = "NCHW4c", dst = "NCHW"}
// CHECK-NEXT: return
func.func @constants(%x: tensor<1x4x6x6xf32>, %w: tensor<4x4x3x3xf32>) -> tensor<1x4x6x6xf32> {
  %s = graph.constant dense<2.0> : tensor<f32>
  %k = graph.constant dense<[[[1.0]], [[2.0]], [[3.0]], [[4.0]]]> : tensor<4x1x1xf32>
  %f = graph.constant dense<3.0> : tensor<4x6x6xf32>
  %c = graph.conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x4x6x6xf32>
  %0 = graph.mul %c, %s : tensor<1x4x6x6xf32>
  %1 = graph.add %0, %k : tensor<1x4x6x6xf32>
  %2 = graph.add %f, %1 : tensor<1x4x6x6xf32>
  return %2 : tensor<1x4x6x6xf32>
}

// A factor per pixel would need an extra dimension, so the multiplication stays plain.
// CHECK-LABEL: func.func @places
// CHECK:      %[[P:.*]] = graph.layout_transform %c {src = "NCHW4c", dst = "NCHW"}
// CHECK-NEXT: graph.mul %[[P]], %m : tensor<1x4x6x6xf32>
func.func @places(%x: tensor<1x4x6x6xf32>, %w: tensor<4x4x3x3xf32>, %m: tensor<1x1x6x6xf32>) -> tensor<1x4x6x6xf32> {
  %c = graph.conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x4x6x6xf32>
  %0 = graph.mul %c, %m : tensor<1x4x6x6xf32>
  return %0 : tensor<1x4x6x6xf32>
}

// Both operands of a residual add share one transform of their source.
// CHECK-LABEL: func.func @residual
// CHECK-NEXT: %[[X:.*]] = graph.layout_transform %x
// CHECK-NEXT: graph.layout_transform %w
// CHECK-NEXT: %c = graph.blocked_conv %[[X]]
// CHECK-NEXT: graph.add %c, %[[X]] : tensor<1x1x6x6x4xf32>
func.func @residual(%x: tensor<1x4x6x6xf32>, %w: tensor<4x4x3x3xf32>) -> tensor<1x4x6x6xf32> {
  %c = graph.conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x4x6x6xf32>
  %0 = graph.add %c, %x : tensor<1x4x6x6xf32>
  return %0 : tensor<1x4x6x6xf32>
}

// Pooling windows get an inner dimension of extent 1.
// CHECK-LABEL: func.func @pool
// CHECK: graph.pool %c {kind = max, kernel = [3, 3, 1], strides = [2, 2, 1], pads = [1, 1, 0, 1, 1, 0]} : tensor<1x1x3x3x4xf32>
func.func @pool(%x: tensor<1x4x6x6xf32>, %w: tensor<4x4x1x1xf32>) -> tensor<1x4x3x3xf32> {
  %c = graph.conv %x, %w : tensor<1x4x6x6xf32>
  %0 = graph.pool %c {kind = max, kernel = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]} : tensor<1x4x3x3xf32>
  return %0 : tensor<1x4x3x3xf32>
}

// Concatenations of whole blocks stay blocked.
// CHECK-LABEL: func.func @concat
// CHECK: graph.concat %c, %d {axis = 1} : tensor<1x2x6x6x4xf32>
func.func @concat(%x: tensor<1x4x6x6xf32>, %w: tensor<4x4x1x1xf32>) -> tensor<1x8x6x6xf32> {
  %c = graph.conv %x, %w : tensor<1x4x6x6xf32>
  %d = graph.conv %c, %w : tensor<1x4x6x6xf32>
  %0 = graph.concat %c, %d {axis = 1} : tensor<1x8x6x6xf32>
  return %0 : tensor<1x8x6x6xf32>
}

// The last part may end inside a block, if the result does.
// CHECK-LABEL: func.func @open_concat
// CHECK:      %[[R:.*]] = graph.concat %c, %d {axis = 1} : tensor<1x2x6x6x4xf32>
// CHECK-NEXT: graph.layout_transform %[[R]] {src = "NCHW4c", dst = "NCHW"} : tensor<1x6x6x6xf32>
func.func @open_concat(%y: tensor<1x4x6x6xf32>, %w: tensor<4x4x1x1xf32>, %v: tensor<2x4x1x1xf32>) -> tensor<1x6x6x6xf32> {
  %c = graph.conv %y, %w : tensor<1x4x6x6xf32>
  %d = graph.conv %y, %v : tensor<1x2x6x6xf32>
  %0 = graph.concat %c, %d {axis = 1} : tensor<1x6x6x6xf32>
  return %0 : tensor<1x6x6x6xf32>
}

// A part that would start inside a block forces the plain layout.
// CHECK-LABEL: func.func @narrow_concat
// CHECK:      %[[C:.*]] = graph.layout_transform %c {src = "NCHW4c", dst = "NCHW"}
// CHECK-NEXT: graph.concat %x, %[[C]] {axis = 1} : tensor<1x6x6x6xf32>
func.func @narrow_concat(%x: tensor<1x2x6x6xf32>, %y: tensor<1x4x6x6xf32>, %w: tensor<4x4x1x1xf32>) -> tensor<1x6x6x6xf32> {
  %c = graph.conv %y, %w : tensor<1x4x6x6xf32>
  %0 = graph.concat %x, %c {axis = 1} : tensor<1x6x6x6xf32>
  return %0 : tensor<1x6x6x6xf32>
}

// A spatial mean stays blocked; dropped dimensions become a view of its result.
// CHECK-LABEL: func.func @mean
// CHECK:      %[[M:.*]] = graph.reduce %c {kind = mean, axes = [2, 3], keepdims} : tensor<1x1x1x1x4xf32>
// CHECK-NEXT: %[[D:.*]] = graph.reduce %c {kind = mean, axes = [2, 3], keepdims} : tensor<1x1x1x1x4xf32>
// CHECK-NEXT: %[[P:.*]] = graph.layout_transform %[[D]] {src = "NCHW4c", dst = "NCHW"} : tensor<1x4x1x1xf32>
// CHECK-NEXT: graph.reshape %[[P]] : tensor<1x4xf32>
// CHECK-NEXT: graph.layout_transform %[[M]] {src = "NCHW4c", dst = "NCHW"} : tensor<1x4x1x1xf32>
func.func @mean(%x: tensor<1x4x6x6xf32>, %w: tensor<4x4x1x1xf32>) -> (tensor<1x4x1x1xf32>, tensor<1x4xf32>) {
  %c = graph.conv %x, %w : tensor<1x4x6x6xf32>
  %0 = graph.reduce %c {kind = mean, axes = [2, 3], keepdims} : tensor<1x4x1x1xf32>
  %1 = graph.reduce %c {kind = mean, axes = [2, 3]} : tensor<1x4xf32>
  return %0, %1 : tensor<1x4x1x1xf32>, tensor<1x4xf32>
}

// Ops without a blocked form share one transform to plain data.
// CHECK-LABEL: func.func @softmax
// CHECK:      %[[C:.*]] = graph.layout_transform %c {src = "NCHW4c", dst = "NCHW"}
// CHECK-NEXT: graph.softmax %[[C]] {axis = 1}
// CHECK-NEXT: graph.softmax %[[C]] {axis = 2}
func.func @softmax(%x: tensor<1x4x6x6xf32>, %w: tensor<4x4x3x3xf32>) -> (tensor<1x4x6x6xf32>, tensor<1x4x6x6xf32>) {
  %c = graph.conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x4x6x6xf32>
  %0 = graph.softmax %c {axis = 1} : tensor<1x4x6x6xf32>
  %1 = graph.softmax %c {axis = 2} : tensor<1x4x6x6xf32>
  return %0, %1 : tensor<1x4x6x6xf32>, tensor<1x4x6x6xf32>
}

// A broadcast against data of higher rank moves the channel axis, so the add stays plain.
// CHECK-LABEL: func.func @ranks
// CHECK: %[[C:.*]] = graph.layout_transform %c {src = "NCW4c", dst = "NCW"} : tensor<4x4x6xf32>
// CHECK-NEXT: graph.add %[[C]], %y : tensor<2x4x4x6xf32>
func.func @ranks(%x: tensor<4x4x6xf32>, %w: tensor<4x4x3xf32>, %y: tensor<2x4x4x6xf32>) -> tensor<2x4x4x6xf32> {
  %c = graph.conv %x, %w {pads = [1, 1]} : tensor<4x4x6xf32>
  %0 = graph.add %c, %y : tensor<2x4x4x6xf32>
  return %0 : tensor<2x4x4x6xf32>
}

// Channels that do not fill a block are padded with zeros in data and weights; ops with finite
// results on them stay blocked.
// CHECK-LABEL: func.func @spare_lanes
// CHECK-NEXT: graph.layout_transform %x {src = "NCHW", dst = "NCHW4c"} : tensor<1x2x6x6x4xf32>
// CHECK-NEXT: graph.layout_transform %w {src = "OIHW", dst = "OIHW4i4o"} : tensor<2x2x3x3x4x4xf32>
// CHECK-NEXT: %c = graph.blocked_conv %{{.*}}, %{{.*}} : tensor<1x2x6x6x4xf32>
// CHECK-NEXT: %[[S:.*]] = graph.sigmoid %c : tensor<1x2x6x6x4xf32>
// CHECK-NEXT: graph.layout_transform %v {src = "OIHW", dst = "OIHW4i4o"} : tensor<1x2x3x3x4x4xf32>
// CHECK-NEXT: graph.blocked_conv %[[S]]
func.func @spare_lanes(%x: tensor<1x6x6x6xf32>, %w: tensor<6x6x3x3xf32>, %v: tensor<4x6x3x3xf32>) -> tensor<1x4x6x6xf32> {
  %c = graph.conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x6x6x6xf32>
  %s = graph.sigmoid %c : tensor<1x6x6x6xf32>
  %0 = graph.conv %s, %v {pads = [1, 1, 1, 1]} : tensor<1x4x6x6xf32>
  return %0 : tensor<1x4x6x6xf32>
}

// The logarithm of a padding zero is infinite, and multiplied by a zero weight it would be nan.
// CHECK-LABEL: func.func @infinite
// CHECK:      %[[C:.*]] = graph.layout_transform %c {src = "NCHW4c", dst = "NCHW"}
// CHECK-NEXT: graph.log %[[C]]
func.func @infinite(%x: tensor<1x6x6x6xf32>, %w: tensor<6x6x3x3xf32>, %v: tensor<4x6x3x3xf32>) -> tensor<1x4x6x6xf32> {
  %c = graph.conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x6x6x6xf32>
  %s = graph.log %c : tensor<1x6x6x6xf32>
  %0 = graph.conv %s, %v {pads = [1, 1, 1, 1]} : tensor<1x4x6x6xf32>
  return %0 : tensor<1x4x6x6xf32>
}

// Groups of whole blocks are blocked; other groups, and convolutions between few channels, stay
// plain.
// CHECK-LABEL: func.func @groups
// CHECK:      graph.layout_transform %g {src = "OIHW", dst = "OIHW4i4o"} : tensor<4x1x1x1x4x4xf32>
// CHECK-NEXT: graph.blocked_conv %{{.*}}, %{{.*}} {groups = 2} : tensor<1x4x6x6x4xf32>
// CHECK:      graph.conv %x, %h {groups = 4}
// CHECK-NEXT: graph.conv %y, %f
func.func @groups(%x: tensor<1x8x6x6xf32>, %g: tensor<16x4x1x1xf32>, %h: tensor<16x2x1x1xf32>, %y: tensor<1x3x6x6xf32>, %f: tensor<2x3x1x1xf32>) -> (tensor<1x16x6x6xf32>, tensor<1x16x6x6xf32>, tensor<1x2x6x6xf32>) {
  %0 = graph.conv %x, %g {groups = 2} : tensor<1x16x6x6xf32>
  %1 = graph.conv %x, %h {groups = 4} : tensor<1x16x6x6xf32>
  %2 = graph.conv %y, %f : tensor<1x2x6x6xf32>
  return %0, %1, %2 : tensor<1x16x6x6xf32>, tensor<1x16x6x6xf32>, tensor<1x2x6x6xf32>
}

// Without a convolution nothing is transformed.
// CHECK-LABEL: func.func @none
// CHECK-NEXT: graph.relu %x : tensor<1x4x6x6xf32>
func.func @none(%x: tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32> {
  %0 = graph.relu %x : tensor<1x4x6x6xf32>
  return %0 : tensor<1x4x6x6xf32>
}

// Each phase of a transposed convolution is a convolution: its weights are that phase's taps of the
// kernel, starting with the phase of the first output.
// CHECK-LABEL: func.func @transposed
// CHECK-NEXT: %[[A:.*]] = graph.reshape %w : tensor<8x4x2x2xf32>
// CHECK-NEXT: %[[B:.*]] = graph.transpose %[[A]] {perm = [1, 3, 0, 2]} : tensor<4x2x8x2xf32>
// CHECK-NEXT: %[[L:.*]] = graph.slice %[[B]] {starts = [0, 1, 0, 0]} : tensor<4x1x8x2xf32>
// CHECK-NEXT: %[[F:.*]] = graph.slice %[[B]] {starts = [0, 0, 0, 0]} : tensor<4x1x8x2xf32>
// CHECK-NEXT: %[[C:.*]] = graph.concat %[[L]], %[[F]] {axis = 1} : tensor<4x2x8x2xf32>
// CHECK-NEXT: %[[D:.*]] = graph.slice %[[C]] {{.*}} : tensor<4x2x8x2xf32>
// CHECK-NEXT: %[[X:.*]] = graph.layout_transform %x {src = "NCW", dst = "NCW4c"} : tensor<1x2x5x4xf32>
// CHECK-NEXT: %[[W:.*]] = graph.layout_transform %[[D]] {src = "OPIW", dst = "OPIW4i4o"} : tensor<1x2x2x2x4x4xf32>
// CHECK-NEXT: graph.blocked_conv_transpose %[[X]], %[[W]] {starts = [1], pads = [1, 1]} : tensor<1x1x10x4xf32>
// TWICE-LABEL: func.func @transposed
func.func @transposed(%x: tensor<1x8x5xf32>, %w: tensor<8x4x4xf32>) -> tensor<1x4x10xf32> {
  %0 = graph.conv_transpose %x, %w {strides = [2], pads = [1, 1]} : tensor<1x4x10xf32>
  return %0 : tensor<1x4x10xf32>
}

// For a single input element every tap is a phase, whatever the strides.
// CHECK-LABEL: func.func @one_element
// CHECK: graph.blocked_conv_transpose {{.*}} {starts = [0]} : tensor<1x1x4x4xf32>
// TWICE-LABEL: func.func @one_element
func.func @one_element(%x: tensor<1x8x1xf32>, %w: tensor<8x4x4xf32>) -> tensor<1x4x4xf32> {
  %0 = graph.conv_transpose %x, %w : tensor<1x4x4xf32>
  return %0 : tensor<1x4x4xf32>
}

// A residual add between plain convolutions stays plain because that is cheaper than transforms; a
// pooling next to it is still blocked.
// CHECK-LABEL: func.func @plain_residual
// CHECK:      %[[C:.*]] = graph.layout_transform %c {src = "NCHW4c", dst = "NCHW"}
// CHECK-NEXT: %d = graph.conv %[[C]], %h {groups = 4} : tensor<1x8x6x6xf32>
// CHECK-NEXT: graph.add %d, %[[C]] : tensor<1x8x6x6xf32>
// CHECK-NEXT: %r = graph.relu
// CHECK-NEXT: graph.conv %r, %h {groups = 4}
// CHECK-NEXT: %[[R:.*]] = graph.layout_transform %r {src = "NCHW", dst = "NCHW4c"}
// CHECK-NEXT: graph.pool %[[R]] {{.*}} : tensor<1x2x4x4x4xf32>
func.func @plain_residual(%x: tensor<1x8x6x6xf32>, %w: tensor<8x8x1x1xf32>, %h: tensor<8x2x1x1xf32>) -> (tensor<1x8x6x6xf32>, tensor<1x8x4x4xf32>) {
  %c = graph.conv %x, %w : tensor<1x8x6x6xf32>
  %d = graph.conv %c, %h {groups = 4} : tensor<1x8x6x6xf32>
  %a = graph.add %d, %c : tensor<1x8x6x6xf32>
  %r = graph.relu %a : tensor<1x8x6x6xf32>
  %e = graph.conv %r, %h {groups = 4} : tensor<1x8x6x6xf32>
  %p = graph.pool %r {kind = max, kernel = [3, 3]} : tensor<1x8x4x4xf32>
  return %e, %p : tensor<1x8x6x6xf32>, tensor<1x8x4x4xf32>
}

// 1x1 convolutions vectorise along the pixels of plain images, so plain data stays plain unless
// most of a vector would be empty.
// CHECK-LABEL: func.func @pointwise
// CHECK-NEXT: %a = graph.conv %x, %w : tensor<1x8x6x6xf32>
// CHECK-NEXT: %b = graph.relu %a : tensor<1x8x6x6xf32>
// CHECK-NEXT: graph.layout_transform %y
// CHECK: graph.blocked_conv
// TWICE-LABEL: func.func @pointwise
func.func @pointwise(%x: tensor<1x4x6x6xf32>, %w: tensor<8x4x1x1xf32>, %y: tensor<1x64x1x1xf32>, %v: tensor<64x64x1x1xf32>) -> (tensor<1x8x6x6xf32>, tensor<1x64x1x1xf32>) {
  %a = graph.conv %x, %w : tensor<1x8x6x6xf32>
  %b = graph.relu %a : tensor<1x8x6x6xf32>
  %c = graph.conv %y, %v : tensor<1x64x1x1xf32>
  return %b, %c : tensor<1x8x6x6xf32>, tensor<1x64x1x1xf32>
}

// Integers are blocked too, also few channels, so that groups of them are contiguous.
// CHECK-LABEL: func.func @integers
// CHECK: %[[X:.*]] = graph.layout_transform %x {src = "NCHW", dst = "NCHW4c"} : tensor<1x1x6x6x4xi16>
// CHECK: %c = graph.blocked_conv %[[X]], %{{.*}} {result_element = i32} : tensor<1x2x4x4x4xi32>
// CHECK: %q = graph.requantize %c, %s, %z {centered} : tensor<1x2x4x4x4xi16>
// CHECK: graph.layout_transform %q {src = "NCHW4c", dst = "NCHW"} : tensor<1x8x4x4xi16>
func.func @integers(%x: tensor<1x3x6x6xi16>, %w: tensor<8x3x3x3xi16>) -> tensor<1x8x4x4xi16> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<3> : tensor<ui8>
  %c = graph.conv %x, %w {result_element = i32} : tensor<1x8x4x4xi32>
  %q = graph.requantize %c, %s, %z {centered} : tensor<1x8x4x4xi16>
  return %q : tensor<1x8x4x4xi16>
}

// Normalisation across channels reads adjacent blocks, unless the last block is not full.
// CHECK-LABEL: func.func @neighbours
// CHECK:      %c = graph.blocked_conv
// CHECK-NEXT: %n = graph.lrn %c {size = 5, blocked} : tensor<1x2x6x6x4xf32>
// CHECK:      %d = graph.blocked_conv %n
// CHECK:      %[[D:.*]] = graph.layout_transform %d {src = "NCHW4c", dst = "NCHW"} : tensor<1x6x4x4xf32>
// CHECK-NEXT: %m = graph.lrn %[[D]] {size = 5} : tensor<1x6x4x4xf32>
// TWICE-LABEL: func.func @neighbours
func.func @neighbours(%x: tensor<1x4x8x8xf32>, %w: tensor<8x4x3x3xf32>, %v: tensor<6x8x3x3xf32>) -> tensor<1x6x4x4xf32> {
  %c = graph.conv %x, %w : tensor<1x8x6x6xf32>
  %n = graph.lrn %c {size = 5} : tensor<1x8x6x6xf32>
  %d = graph.conv %n, %v : tensor<1x6x4x4xf32>
  %m = graph.lrn %d {size = 5} : tensor<1x6x4x4xf32>
  return %m : tensor<1x6x4x4xf32>
}

// Rows that every window covers completely become channels, which fill blocks better.
// CHECK-LABEL: func.func @tall
// CHECK-NEXT: %[[X:.*]] = graph.reshape %x : tensor<1x30x1x7xf32>
// CHECK-NEXT: %[[W:.*]] = graph.reshape %w : tensor<8x30x1x3xf32>
// CHECK: graph.layout_transform %[[X]] {src = "NCHW", dst = "NCHW4c"} : tensor<1x8x1x7x4xf32>
// CHECK: graph.layout_transform %[[W]] {src = "OIHW", dst = "OIHW4i4o"} : tensor<2x8x1x3x4x4xf32>
// CHECK: graph.blocked_conv %{{.*}} {pads = [0, 1, 0, 1]} : tensor<1x2x1x7x4xf32>
func.func @tall(%x: tensor<1x5x6x7xf32>, %w: tensor<8x5x6x3xf32>) -> tensor<1x8x1x7xf32> {
  %c = graph.conv %x, %w {pads = [0, 1, 0, 1]} : tensor<1x8x1x7xf32>
  return %c : tensor<1x8x1x7xf32>
}
