// RUN: tcopt %s | tcopt | filecheck %s
// RUN: tcopt %s --print-op-generic | tcopt | filecheck %s

// Round trip of the operators that no other file here covers.
// CHECK: graph.abs %a : tensor<3xf32>
func.func @abs(%a: tensor<3xf32>) -> tensor<3xf32> {
  %b = graph.abs %a : tensor<3xf32>
  func.return %b : tensor<3xf32>
}

// CHECK: graph.acos %a : tensor<3xf32>
func.func @acos(%a: tensor<3xf32>) -> tensor<3xf32> {
  %b = graph.acos %a : tensor<3xf32>
  func.return %b : tensor<3xf32>
}

// CHECK: graph.acosh %a : tensor<3xf32>
func.func @acosh(%a: tensor<3xf32>) -> tensor<3xf32> {
  %b = graph.acosh %a : tensor<3xf32>
  func.return %b : tensor<3xf32>
}

// CHECK: graph.and %a, %b : tensor<3x4xi1>
func.func @and(%a: tensor<3x4xi1>, %b: tensor<3x4xi1>) -> tensor<3x4xi1> {
  %c = graph.and %a, %b : tensor<3x4xi1>
  func.return %c : tensor<3x4xi1>
}

// CHECK: graph.arg_reduce %a {kind = max, axis = 1} : tensor<2xi64>
func.func @arg_reduce(%a: tensor<2x2xf32>) -> tensor<2xi64> {
  %b = graph.arg_reduce %a {kind = max, axis = 1} : tensor<2xi64>
  func.return %b : tensor<2xi64>
}

// CHECK: graph.asin %a : tensor<3xf32>
func.func @asin(%a: tensor<3xf32>) -> tensor<3xf32> {
  %b = graph.asin %a : tensor<3xf32>
  func.return %b : tensor<3xf32>
}

// CHECK: graph.asinh %a : tensor<3xf32>
func.func @asinh(%a: tensor<3xf32>) -> tensor<3xf32> {
  %b = graph.asinh %a : tensor<3xf32>
  func.return %b : tensor<3xf32>
}

// CHECK: graph.atan %a : tensor<3xf32>
func.func @atan(%a: tensor<3xf32>) -> tensor<3xf32> {
  %b = graph.atan %a : tensor<3xf32>
  func.return %b : tensor<3xf32>
}

// CHECK: graph.atanh %a : tensor<3xf32>
func.func @atanh(%a: tensor<3xf32>) -> tensor<3xf32> {
  %b = graph.atanh %a : tensor<3xf32>
  func.return %b : tensor<3xf32>
}

// CHECK: graph.ceil %a : tensor<2xf32>
func.func @ceil(%a: tensor<2xf32>) -> tensor<2xf32> {
  %b = graph.ceil %a : tensor<2xf32>
  func.return %b : tensor<2xf32>
}

// CHECK: graph.cos %a : tensor<3xf32>
func.func @cos(%a: tensor<3xf32>) -> tensor<3xf32> {
  %b = graph.cos %a : tensor<3xf32>
  func.return %b : tensor<3xf32>
}

// CHECK: graph.cosh %a : tensor<3xf32>
func.func @cosh(%a: tensor<3xf32>) -> tensor<3xf32> {
  %b = graph.cosh %a : tensor<3xf32>
  func.return %b : tensor<3xf32>
}

// CHECK: graph.depth_to_space %a {blocksize = 2} : tensor<1x2x4x6xf32>
func.func @depth_to_space(%a: tensor<1x8x2x3xf32>) -> tensor<1x2x4x6xf32> {
  %b = graph.depth_to_space %a {blocksize = 2} : tensor<1x2x4x6xf32>
  func.return %b : tensor<1x2x4x6xf32>
}

// CHECK: graph.determinant %a : tensor<1xf32>
func.func @determinant(%a: tensor<1x2x2xf32>) -> tensor<1xf32> {
  %b = graph.determinant %a : tensor<1xf32>
  func.return %b : tensor<1xf32>
}

// CHECK: graph.erf %a : tensor<1x3x32x32xf32>
func.func @erf(%a: tensor<1x3x32x32xf32>) -> tensor<1x3x32x32xf32> {
  %b = graph.erf %a : tensor<1x3x32x32xf32>
  func.return %b : tensor<1x3x32x32xf32>
}

// CHECK: graph.floor %a : tensor<3xf32>
func.func @floor(%a: tensor<3xf32>) -> tensor<3xf32> {
  %b = graph.floor %a : tensor<3xf32>
  func.return %b : tensor<3xf32>
}

// CHECK: graph.gather_elements %a, %b : tensor<2x3xf32>
func.func @gather_elements(%a: tensor<3x3xf32>, %b: tensor<2x3xi64>) -> tensor<2x3xf32> {
  %c = graph.gather_elements %a, %b : tensor<2x3xf32>
  func.return %c : tensor<2x3xf32>
}

// CHECK: graph.gather_nd %a, %b : tensor<2xi32>
func.func @gather_nd(%a: tensor<2x2xi32>, %b: tensor<2x2xi64>) -> tensor<2xi32> {
  %c = graph.gather_nd %a, %b : tensor<2xi32>
  func.return %c : tensor<2xi32>
}

// CHECK: graph.group_norm %a, %b, %c {groups = 2} : tensor<3x4x2x2xf32>
func.func @group_norm(%a: tensor<3x4x2x2xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>) -> tensor<3x4x2x2xf32> {
  %d = graph.group_norm %a, %b, %c {groups = 2} : tensor<3x4x2x2xf32>
  func.return %d : tensor<3x4x2x2xf32>
}

// CHECK: graph.hard_sigmoid %a : tensor<3x4x5xf32>
func.func @hard_sigmoid(%a: tensor<3x4x5xf32>) -> tensor<3x4x5xf32> {
  %b = graph.hard_sigmoid %a : tensor<3x4x5xf32>
  func.return %b : tensor<3x4x5xf32>
}

// CHECK: graph.hard_swish %a : tensor<3x4x5xf32>
func.func @hard_swish(%a: tensor<3x4x5xf32>) -> tensor<3x4x5xf32> {
  %b = graph.hard_swish %a : tensor<3x4x5xf32>
  func.return %b : tensor<3x4x5xf32>
}

// CHECK: graph.instance_norm %a, %b, %c : tensor<1x2x1x3xf32>
func.func @instance_norm(%a: tensor<1x2x1x3xf32>, %b: tensor<2xf32>, %c: tensor<2xf32>) -> tensor<1x2x1x3xf32> {
  %d = graph.instance_norm %a, %b, %c : tensor<1x2x1x3xf32>
  func.return %d : tensor<1x2x1x3xf32>
}

// CHECK: graph.isinf %a : tensor<6xi1>
func.func @isinf(%a: tensor<6xf32>) -> tensor<6xi1> {
  %b = graph.isinf %a : tensor<6xi1>
  func.return %b : tensor<6xi1>
}

// CHECK: graph.isnan %a : tensor<6xi1>
func.func @isnan(%a: tensor<6xf32>) -> tensor<6xi1> {
  %b = graph.isnan %a : tensor<6xi1>
  func.return %b : tensor<6xi1>
}

// CHECK: graph.leaky_relu %a {alpha = 0.1} : tensor<3xf32>
func.func @leaky_relu(%a: tensor<3xf32>) -> tensor<3xf32> {
  %b = graph.leaky_relu %a {alpha = 0.1} : tensor<3xf32>
  func.return %b : tensor<3xf32>
}

// CHECK: graph.log_softmax %a {axis = 1} : tensor<1x3xf32>
func.func @log_softmax(%a: tensor<1x3xf32>) -> tensor<1x3xf32> {
  %b = graph.log_softmax %a {axis = 1} : tensor<1x3xf32>
  func.return %b : tensor<1x3xf32>
}

// CHECK: graph.max_pool_indices %a {kernel = [5, 5], pads = [2, 2, 2, 2]} : tensor<1x1x5x5xf32>, tensor<1x1x5x5xi64>
func.func @max_pool_indices(%a: tensor<1x1x5x5xf32>) -> (tensor<1x1x5x5xf32>, tensor<1x1x5x5xi64>) {
  %b, %c = graph.max_pool_indices %a {kernel = [5, 5], pads = [2, 2, 2, 2]} : tensor<1x1x5x5xf32>, tensor<1x1x5x5xi64>
  func.return %b, %c : tensor<1x1x5x5xf32>, tensor<1x1x5x5xi64>
}

// CHECK: graph.min %a, %b : tensor<f32>
func.func @min(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %c = graph.min %a, %b : tensor<f32>
  func.return %c : tensor<f32>
}

// CHECK: graph.mish %a : tensor<10000xf32>
func.func @mish(%a: tensor<10000xf32>) -> tensor<10000xf32> {
  %b = graph.mish %a : tensor<10000xf32>
  func.return %b : tensor<10000xf32>
}

// CHECK: graph.mod %a, %b : tensor<6xi8>
func.func @mod(%a: tensor<6xi8>, %b: tensor<6xi8>) -> tensor<6xi8> {
  %c = graph.mod %a, %b : tensor<6xi8>
  func.return %c : tensor<6xi8>
}

// CHECK: graph.not %a : tensor<3x4xi1>
func.func @not(%a: tensor<3x4xi1>) -> tensor<3x4xi1> {
  %b = graph.not %a : tensor<3x4xi1>
  func.return %b : tensor<3x4xi1>
}

// CHECK: graph.one_hot %a, %b {depth = 4, axis = 1} : tensor<4x4xf32>
func.func @one_hot(%a: tensor<4xi64>, %b: tensor<2xf32>) -> tensor<4x4xf32> {
  %c = graph.one_hot %a, %b {depth = 4, axis = 1} : tensor<4x4xf32>
  func.return %c : tensor<4x4xf32>
}

// CHECK: graph.or %a, %b : tensor<3x4xi1>
func.func @or(%a: tensor<3x4xi1>, %b: tensor<3x4xi1>) -> tensor<3x4xi1> {
  %c = graph.or %a, %b : tensor<3x4xi1>
  func.return %c : tensor<3x4xi1>
}

// CHECK: graph.pow %a, %b : tensor<f32>
func.func @pow(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %c = graph.pow %a, %b : tensor<f32>
  func.return %c : tensor<f32>
}

// CHECK: graph.prelu %a, %b : tensor<3x4x5xf32>
func.func @prelu(%a: tensor<3x4x5xf32>, %b: tensor<5xf32>) -> tensor<3x4x5xf32> {
  %c = graph.prelu %a, %b : tensor<3x4x5xf32>
  func.return %c : tensor<3x4x5xf32>
}

// CHECK: graph.reciprocal %a : tensor<2xf32>
func.func @reciprocal(%a: tensor<2xf32>) -> tensor<2xf32> {
  %b = graph.reciprocal %a : tensor<2xf32>
  func.return %b : tensor<2xf32>
}

// CHECK: graph.reverse_sequence %a, %b {axis = 0, batch_axis = 1} : tensor<4x4xf32>
func.func @reverse_sequence(%a: tensor<4x4xf32>, %b: tensor<4xi64>) -> tensor<4x4xf32> {
  %c = graph.reverse_sequence %a, %b {axis = 0, batch_axis = 1} : tensor<4x4xf32>
  func.return %c : tensor<4x4xf32>
}

// CHECK: graph.rms_norm %a, %b {axis = 1} : tensor<3x4xf32>
func.func @rms_norm(%a: tensor<3x4xf32>, %b: tensor<4xf32>) -> tensor<3x4xf32> {
  %c = graph.rms_norm %a, %b {axis = 1} : tensor<3x4xf32>
  func.return %c : tensor<3x4xf32>
}

// CHECK: graph.concat_rows %a, %b, %a : tensor<3x10xf32>
func.func @concat_rows(%a: tensor<3x4xf32>, %b: tensor<3x2xf32>) -> tensor<3x10xf32> {
  %c = graph.concat_rows %a, %b, %a : tensor<3x10xf32>
  func.return %c : tensor<3x10xf32>
}

// CHECK: graph.roi_align %a, %b, %c {size = [5, 5], samples = 2} : tensor<3x5x5x1xf32>
func.func @roi_align(%a: tensor<1x10x10x1xf32>, %b: tensor<3x4xf32>, %c: tensor<3xi64>) -> tensor<3x5x5x1xf32> {
  %d = graph.roi_align %a, %b, %c {size = [5, 5], samples = 2} : tensor<3x5x5x1xf32>
  func.return %d : tensor<3x5x5x1xf32>
}

// CHECK: graph.round %a : tensor<15xf32>
func.func @round(%a: tensor<15xf32>) -> tensor<15xf32> {
  %b = graph.round %a : tensor<15xf32>
  func.return %b : tensor<15xf32>
}

// CHECK: graph.sample %a, %b {channels_last} : tensor<2x6x3xf32>
func.func @sample_channels_last(%a: tensor<2x5x4x3xf32>, %b: tensor<2x2x6xf32>) -> tensor<2x6x3xf32> {
  %c = graph.sample %a, %b {channels_last} : tensor<2x6x3xf32>
  func.return %c : tensor<2x6x3xf32>
}

// CHECK: graph.sample %a, %b : tensor<1x1x2x4xf32>
func.func @sample(%a: tensor<1x1x3x2xf32>, %b: tensor<1x2x2x4xf32>) -> tensor<1x1x2x4xf32> {
  %c = graph.sample %a, %b : tensor<1x1x2x4xf32>
  func.return %c : tensor<1x1x2x4xf32>
}

// CHECK: graph.scatter_nd %a, %b, %c : tensor<4x4x4xf32>
func.func @scatter_nd(%a: tensor<4x4x4xf32>, %b: tensor<2x1xi64>, %c: tensor<2x4x4xf32>) -> tensor<4x4x4xf32> {
  %d = graph.scatter_nd %a, %b, %c : tensor<4x4x4xf32>
  func.return %d : tensor<4x4x4xf32>
}

// CHECK: graph.select %a, %b, %c : tensor<f32>
func.func @select(%a: tensor<i1>, %b: tensor<f32>, %c: tensor<f32>) -> tensor<f32> {
  %d = graph.select %a, %b, %c : tensor<f32>
  func.return %d : tensor<f32>
}

// CHECK: graph.selu %a {alpha = 2.0, gamma = 3.0} : tensor<3xf32>
func.func @selu(%a: tensor<3xf32>) -> tensor<3xf32> {
  %b = graph.selu %a {alpha = 2.0, gamma = 3.0} : tensor<3xf32>
  func.return %b : tensor<3xf32>
}

// CHECK: graph.shift_left %a, %b : tensor<3xi8>
func.func @shift_left(%a: tensor<3xi8>, %b: tensor<3xi8>) -> tensor<3xi8> {
  %c = graph.shift_left %a, %b : tensor<3xi8>
  func.return %c : tensor<3xi8>
}

// CHECK: graph.shift_right %a, %b : tensor<3xi8>
func.func @shift_right(%a: tensor<3xi8>, %b: tensor<3xi8>) -> tensor<3xi8> {
  %c = graph.shift_right %a, %b : tensor<3xi8>
  func.return %c : tensor<3xi8>
}

// CHECK: graph.shift_right %a, %b {in_range} : tensor<3xi32>
// CHECK: graph.multiply_high %a, %b : tensor<3xi32>
func.func @multiply_high(%a: tensor<3xi32>, %b: tensor<3xi32>) -> (tensor<3xi32>, tensor<3xi32>) {
  %c = graph.shift_right %a, %b {in_range} : tensor<3xi32>
  %d = graph.multiply_high %a, %b : tensor<3xi32>
  return %c, %d : tensor<3xi32>, tensor<3xi32>
}

// CHECK: graph.sign %a : tensor<11xf32>
func.func @sign(%a: tensor<11xf32>) -> tensor<11xf32> {
  %b = graph.sign %a : tensor<11xf32>
  func.return %b : tensor<11xf32>
}

// CHECK: graph.silu %a : tensor<3xf32>
func.func @silu(%a: tensor<3xf32>) -> tensor<3xf32> {
  %b = graph.silu %a : tensor<3xf32>
  func.return %b : tensor<3xf32>
}

// CHECK: graph.sin %a : tensor<3xf32>
func.func @sin(%a: tensor<3xf32>) -> tensor<3xf32> {
  %b = graph.sin %a : tensor<3xf32>
  func.return %b : tensor<3xf32>
}

// CHECK: graph.sinh %a : tensor<3xf32>
func.func @sinh(%a: tensor<3xf32>) -> tensor<3xf32> {
  %b = graph.sinh %a : tensor<3xf32>
  func.return %b : tensor<3xf32>
}

// CHECK: graph.softplus %a : tensor<3xf32>
func.func @softplus(%a: tensor<3xf32>) -> tensor<3xf32> {
  %b = graph.softplus %a : tensor<3xf32>
  func.return %b : tensor<3xf32>
}

// CHECK: graph.space_to_depth %a {blocksize = 2} : tensor<2x8x3x3xf32>
func.func @space_to_depth(%a: tensor<2x2x6x6xf32>) -> tensor<2x8x3x3xf32> {
  %b = graph.space_to_depth %a {blocksize = 2} : tensor<2x8x3x3xf32>
  func.return %b : tensor<2x8x3x3xf32>
}

// CHECK: graph.tan %a : tensor<3xf32>
func.func @tan(%a: tensor<3xf32>) -> tensor<3xf32> {
  %b = graph.tan %a : tensor<3xf32>
  func.return %b : tensor<3xf32>
}

// CHECK: graph.tanh_softplus %a : tensor<3xf32>
func.func @tanh_softplus(%a: tensor<3xf32>) -> tensor<3xf32> {
  %b = graph.tanh_softplus %a : tensor<3xf32>
  func.return %b : tensor<3xf32>
}

// CHECK: graph.trilu %a : tensor<4x5xi64>
func.func @trilu(%a: tensor<4x5xi64>) -> tensor<4x5xi64> {
  %b = graph.trilu %a : tensor<4x5xi64>
  func.return %b : tensor<4x5xi64>
}

// CHECK: graph.xor %a, %b : tensor<3x4xi1>
func.func @xor(%a: tensor<3x4xi1>, %b: tensor<3x4xi1>) -> tensor<3x4xi1> {
  %c = graph.xor %a, %b : tensor<3x4xi1>
  func.return %c : tensor<3x4xi1>
}

// CHECK: graph.col2im %a {image = [5, 5]} : tensor<1x1x5x5xf32>
func.func @col2im(%a: tensor<1x1x1x5x5x1xf32>) -> tensor<1x1x5x5xf32> {
  %b = graph.col2im %a {image = [5, 5]} : tensor<1x1x5x5xf32>
  func.return %b : tensor<1x1x5x5xf32>
}

// CHECK: graph.resize %a {mode = linear, scales = [1.0, 1.0, 2.0, 2.0]} : tensor<1x1x4x6xf32>
func.func @resize(%a: tensor<1x1x2x3xf32>) -> tensor<1x1x4x6xf32> {
  %b = graph.resize %a {mode = linear, scales = [1.0, 1.0, 2.0, 2.0]} : tensor<1x1x4x6xf32>
  func.return %b : tensor<1x1x4x6xf32>
}

// CHECK: graph.tile %a {reps = [2, 3]} : tensor<4x9xf32>
func.func @tile(%a: tensor<2x3xf32>) -> tensor<4x9xf32> {
  %b = graph.tile %a {reps = [2, 3]} : tensor<4x9xf32>
  func.return %b : tensor<4x9xf32>
}

// CHECK: graph.inverse %a : tensor<1x2x2xf32>
func.func @inverse(%a: tensor<1x2x2xf32>) -> tensor<1x2x2xf32> {
  %b = graph.inverse %a : tensor<1x2x2xf32>
  return %b : tensor<1x2x2xf32>
}
