// RUN: tcopt %s | tcopt | filecheck %s
// RUN: tcopt %s --print-op-generic | tcopt | filecheck %s

// Operators print their operands, the attributes that differ from the default, and the result type.
// CHECK-LABEL: func.func @convolution
func.func @convolution(%x: tensor<1x4x8x8xf32>, %w: tensor<6x2x3x3xf32>) -> tensor<1x6x4x4xf32> {
  // CHECK: graph.conv %x, %w {strides = [2, 2], pads = [1, 1, 1, 1], groups = 2} : tensor<1x6x4x4xf32>
  %0 = graph.conv %x, %w {groups = 2, pads = [1, 1, 1, 1], strides = [2, 2]} : tensor<1x6x4x4xf32>
  return %0 : tensor<1x6x4x4xf32>
}

// An attribute equal to its default is not printed.
// CHECK-LABEL: func.func @defaults
func.func @defaults(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK: graph.gelu %x : tensor<2x3xf32>
  %0 = graph.gelu %x {approximate = none} : tensor<2x3xf32>
  // CHECK: graph.elu %{{.*}} {alpha = 0.3} : tensor<2x3xf32>
  %1 = graph.elu %0 {alpha = 0.3} : tensor<2x3xf32>
  // CHECK: graph.clip %{{.*}} {min = 0.0, max = 1.0e-30} : tensor<2x3xf32>
  %2 = graph.clip %1 {min = 0.0, max = 1.0e-30} : tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
}

// Keywords and flags are printed without quotes.
// CHECK-LABEL: func.func @keywords
func.func @keywords(%x: tensor<2x3xf32>, %y: tensor<3xf32>) -> (tensor<2x1xf32>, tensor<2x3xi1>, tensor<2x2xf32>) {
  // CHECK: graph.reduce %x {kind = log_sum_exp, axes = [1], keepdims} : tensor<2x1xf32>
  %0 = graph.reduce %x {kind = log_sum_exp, axes = [1], keepdims} : tensor<2x1xf32>
  // CHECK: graph.compare %x, %y {predicate = le} : tensor<2x3xi1>
  %1 = graph.compare %x, %y {predicate = le} : tensor<2x3xi1>
  // CHECK: graph.matmul %x, %x {transpose_b} : tensor<2x2xf32>
  %2 = graph.matmul %x, %x {transpose_b} : tensor<2x2xf32>
  return %0, %1, %2 : tensor<2x1xf32>, tensor<2x3xi1>, tensor<2x2xf32>
}

// A constant names a weight of the side store or holds a literal.
// CHECK-LABEL: func.func @constants
func.func @constants() -> (tensor<4x2xf32>, tensor<3xf32>, tensor<2xi64>, tensor<3x3xf32>) {
  // CHECK: graph.constant @fc.weight : tensor<4x2xf32>
  %0 = graph.constant @fc.weight : tensor<4x2xf32>
  // CHECK: graph.constant @"fc/bias" : tensor<3xf32>
  %1 = graph.constant @"fc/bias" : tensor<3xf32>
  // CHECK: graph.constant dense<[1, 2]> : tensor<2xi64>
  %2 = graph.constant dense<[1, 2]> : tensor<2xi64>
  // CHECK: graph.constant dense<5.000000e-01> : tensor<3x3xf32>
  %3 = graph.constant dense<0.5> : tensor<3x3xf32>
  return %0, %1, %2, %3 : tensor<4x2xf32>, tensor<3xf32>, tensor<2xi64>, tensor<3x3xf32>
}

// A group is a region that uses values from outside; the types of its yield may be omitted.
// CHECK-LABEL: func.func @group
func.func @group(%x: tensor<4xf32>, %b: tensor<1xf32>) -> tensor<4xf32> {
  // CHECK: %[[Y:.*]] = graph.group kind = injective {
  // CHECK-NEXT: %[[A:.*]] = graph.add %x, %b : tensor<4xf32>
  // CHECK-NEXT: %[[R:.*]] = graph.relu %[[A]] : tensor<4xf32>
  // CHECK-NEXT: graph.yield %[[R]] : tensor<4xf32>
  // CHECK-NEXT: } : tensor<4xf32>
  %y = graph.group kind = injective {
    %0 = graph.add %x, %b : tensor<4xf32>
    %1 = graph.relu %0 : tensor<4xf32>
    graph.yield %1
  } : tensor<4xf32>
  return %y : tensor<4xf32>
}

// Attributes that the operator does not define are preserved.
// CHECK-LABEL: func.func @other_attributes
func.func @other_attributes(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: graph.relu %x {note = "kept", test.n = 3} : tensor<4xf32>
  %0 = graph.relu %x {note = "kept", test.n = 3} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Optional operands may be omitted.
// CHECK-LABEL: func.func @optional
func.func @optional(%x: tensor<2x4xf32>, %s: tensor<4xf32>, %v: tensor<f32>) -> (tensor<2x4xf32>, tensor<2x6xf32>) {
  // CHECK: graph.layer_norm %x, %s {axis = 1} : tensor<2x4xf32>
  %0 = graph.layer_norm %x, %s {axis = 1} : tensor<2x4xf32>
  // CHECK: graph.layer_norm %{{.*}}, %s, %s {axis = 1, epsilon = 0.001} : tensor<2x4xf32>
  %1 = graph.layer_norm %0, %s, %s {axis = 1, epsilon = 0.001} : tensor<2x4xf32>
  // CHECK: graph.pad %{{.*}}, %v {low = [0, 1], high = [0, 1]} : tensor<2x6xf32>
  %2 = graph.pad %1, %v {low = [0, 1], high = [0, 1]} : tensor<2x6xf32>
  return %1, %2 : tensor<2x4xf32>, tensor<2x6xf32>
}

// sum_taps adds the products of a window's taps where they overlap, also in channel groups.
// CHECK-LABEL: func.func @taps
func.func @taps(%x: tensor<1x12x5x5xf32>) -> tensor<1x2x4x6xf32> {
  // CHECK: graph.sum_taps %x {kernel = [2, 1], strides = [2, 2], dilations = [2, 1], groups = 3} : tensor<1x6x2x3xf32>
  %1 = graph.sum_taps %x {kernel = [2, 1], strides = [2, 2], dilations = [2, 1], groups = 3} : tensor<1x6x2x3xf32>
  // CHECK: graph.sum_taps %x {kernel = [3, 2], pads = [1, 1, 0, 1]} : tensor<1x2x4x6xf32>
  %0 = graph.sum_taps %x {kernel = [3, 2], pads = [1, 1, 0, 1]} : tensor<1x2x4x6xf32>
  return %0 : tensor<1x2x4x6xf32>
}

// Phases are interleaved into one image, also in channel groups and with zeros between them.
// CHECK-LABEL: func.func @weave
func.func @weave(%x: tensor<1x12x5x5xf32>) -> tensor<1x3x8x8xf32> {
  // CHECK: graph.interleave %x {strides = [3, 2], starts = [1, 1], output = [8, 8], groups = 2, kept = [1, 2]} : tensor<1x6x8x8xf32>
  %1 = graph.interleave %x {strides = [3, 2], starts = [1, 1], output = [8, 8], groups = 2, kept = [1, 2]} : tensor<1x6x8x8xf32>
  // CHECK: graph.interleave %x {strides = [2, 2], starts = [1, 1], output = [8, 8]} : tensor<1x3x8x8xf32>
  %0 = graph.interleave %x {strides = [2, 2], starts = [1, 1], output = [8, 8]} : tensor<1x3x8x8xf32>
  return %0 : tensor<1x3x8x8xf32>
}

// Operators that are implemented as loops print like others; those with two results list both
// types.
// CHECK-LABEL: func.func @opaque
func.func @opaque(%x: tensor<4x9xf32>, %i: tensor<2x9xi64>, %u: tensor<2x9xf32>) -> (tensor<4x3xf32>, tensor<4x3xi64>, tensor<4x9xf32>) {
  // CHECK: %{{.*}}, %{{.*}} = graph.top_k %x {k = 3, smallest} : tensor<4x3xf32>, tensor<4x3xi64>
  %0, %1 = graph.top_k %x {k = 3, smallest} : tensor<4x3xf32>, tensor<4x3xi64>
  // CHECK: graph.scatter_elements %x, %i, %u {reduction = add} : tensor<4x9xf32>
  %2 = graph.scatter_elements %x, %i, %u {reduction = add} : tensor<4x9xf32>
  // CHECK: graph.cumprod %{{.*}} {axis = 1, exclusive} : tensor<4x9xf32>
  %3 = graph.cumprod %2 {axis = 1, exclusive} : tensor<4x9xf32>
  return %0, %1, %3 : tensor<4x3xf32>, tensor<4x3xi64>, tensor<4x9xf32>
}

// Operators with data-dependent result sizes allocate the maximum and return the actual size.
// CHECK-LABEL: func.func @selection
func.func @selection(%flags: tensor<9xi1>, %b: tensor<1x9x4xf32>, %s: tensor<1x2x9xf32>,
                     %n: tensor<1xi64>, %t: tensor<1xf32>) {
  // CHECK: graph.nonzero %flags : tensor<9xi64>, tensor<1xi64>
  %0, %1 = graph.nonzero %flags : tensor<9xi64>, tensor<1xi64>
  // CHECK: graph.non_max_suppression %b, %s, %n, %t, %t {limit = 3, centred} : tensor<6x3xi64>, tensor<1xi64>
  %2, %3 = graph.non_max_suppression %b, %s, %n, %t, %t {limit = 3, centred} : tensor<6x3xi64>, tensor<1xi64>
  // CHECK: graph.argsort_rows %{{.*}} : tensor<6xi64>
  %4 = graph.argsort_rows %2 : tensor<6xi64>
  return
}

// Words of low-bit codes are stored in panels of columns; zero points may be implied.
// CHECK-LABEL: func.func @blockwise
func.func @blockwise(%x: tensor<1x64xf32>, %q: tensor<2x2x4x32xui32>, %s: tensor<2x2x32xf16>, %z: tensor<2x2x32xui8>) {
  // CHECK: graph.blockwise_matmul %x, %q, %s {bits = 4, columns = 40} : tensor<1x40xf32>
  %0 = graph.blockwise_matmul %x, %q, %s {bits = 4, columns = 40} : tensor<1x40xf32>
  // CHECK: graph.blockwise_matmul %x, %q, %s, %z {bits = 4, columns = 40} : tensor<1x40xf32>
  %1 = graph.blockwise_matmul %x, %q, %s, %z {bits = 4, columns = 40} : tensor<1x40xf32>
  // CHECK: graph.blockwise_matmul %x, %q, %s {bits = 4, columns = 40, rounded} : tensor<1x40xf32>
  %2 = graph.blockwise_matmul %x, %q, %s {bits = 4, columns = 40, rounded} : tensor<1x40xf32>
  return
}

// Narrow types convert by casts; literals of narrow integers print as values, not codes.
func.func @narrow(%x: tensor<4xf32>) -> tensor<4xf8E5M2FNUZ> {
  // CHECK: graph.cast %x : tensor<4xf8E5M2FNUZ>
  %0 = graph.cast %x : tensor<4xf8E5M2FNUZ>
  // CHECK: graph.constant dense<[-8, 7]> : tensor<2xi4>
  %1 = graph.constant dense<[-8, 7]> : tensor<2xi4>
  // CHECK: graph.constant dense<[1.500000e+00, -6.000000e+00]> : tensor<2xf4E2M1FN>
  %2 = graph.constant dense<[1.5, -6.0]> : tensor<2xf4E2M1FN>
  return %0 : tensor<4xf8E5M2FNUZ>
}

// A bitcast is a view with another element type.
// CHECK-LABEL: func.func @bits
func.func @bits(%x: tensor<4xf32>) -> tensor<4xi32> {
  // CHECK: graph.bitcast %x : tensor<4xi32>
  %0 = graph.bitcast %x : tensor<4xi32>
  return %0 : tensor<4xi32>
}

// Bytes of the last axis become one word.
// CHECK-LABEL: func.func @words
func.func @words(%x: tensor<3x4xui8>) -> tensor<3xui32> {
  // CHECK: graph.bitcast %x : tensor<3xui32>
  %0 = graph.bitcast %x : tensor<3xui32>
  return %0 : tensor<3xui32>
}

// Decision trees are records of inner nodes; the relation common to all tests is an attribute.
// CHECK-LABEL: func.func @trees
func.func @trees(%x: tensor<8x5xf32>, %n: tensor<16xui32>, %r: tensor<2xi32>, %l: tensor<4x1xi32>, %w: tensor<4x1xf32>) -> tensor<8x3xf32> {
  // CHECK: graph.tree_ensemble %x, %n, %r, %l, %w {count = 3, depth = 2, common = 3, varying = 8, aggregate = max} : tensor<8x3xf32>
  %0 = graph.tree_ensemble %x, %n, %r, %l, %w {count = 3, depth = 2, common = 3, varying = 8, aggregate = max} : tensor<8x3xf32>
  return %0 : tensor<8x3xf32>
}
