// RUN: tcopt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s

// The declared result type must equal the inferred one.
// CHECK: result has type tensor<1x8x5x5xf32>, but operands and attributes give tensor<1x8x6x6xf32>
func.func @shape(%x: tensor<1x4x8x8xf32>, %w: tensor<8x4x3x3xf32>) {
  %0 = graph.conv %x, %w : tensor<1x8x5x5xf32>
  return
}

// -----

// Kernel and data must agree in the number of channels.
// CHECK: weights take 3 channels in each of 1 groups, data has 4
func.func @channels(%x: tensor<1x4x8x8xf32>, %w: tensor<8x3x3x3xf32>) {
  %0 = graph.conv %x, %w : tensor<1x8x6x6xf32>
  return
}

// -----

// Pads need two entries for each spatial dimension.
// CHECK: pads has 2 entries, expected 4
func.func @pads(%x: tensor<1x4x8x8xf32>, %w: tensor<8x4x3x3xf32>) {
  %0 = graph.conv %x, %w {pads = [1, 1]} : tensor<1x8x6x6xf32>
  return
}

// -----

// Shapes that do not broadcast by numpy's rules are rejected.
// CHECK: shapes 2x3 and 2 do not broadcast
func.func @broadcast(%x: tensor<2x3xf32>, %y: tensor<2xf32>) {
  %0 = graph.add %x, %y : tensor<2x3xf32>
  return
}

// -----

// There are no implicit conversions.
// CHECK: operands differ in element type: f32, f64
func.func @elements(%x: tensor<2xf32>, %y: tensor<2xf64>) {
  %0 = graph.add %x, %y : tensor<2xf32>
  return
}

// -----

// Transcendental functions need float operands.
// CHECK: expects floating-point elements, got i32
func.func @domain(%x: tensor<2xi32>) {
  %0 = graph.exp %x : tensor<2xi32>
  return
}

// -----

// A window over blocked channels must not extend past the adjacent blocks.
// CHECK: expects blocks of at least 3 channels
func.func @reach(%x: tensor<1x4x3x3x2xf32>) {
  %0 = graph.lrn %x {size = 7, blocked} : tensor<1x4x3x3x2xf32>
  return
}

// -----

// A reshape must keep the number of elements.
// CHECK: tensor<2x3xf32> and tensor<5xf32> differ in number of elements
func.func @reshape(%x: tensor<2x3xf32>) {
  %0 = graph.reshape %x : tensor<5xf32>
  return
}

// -----

// A slice must stay inside its operand.
// CHECK: 3 elements from 2 by 1 exceed axis 0 of tensor<4xf32>
func.func @slice(%x: tensor<4xf32>) {
  %0 = graph.slice %x {starts = [2]} : tensor<3xf32>
  return
}

// -----

// The padded row must be a multiple of the unit.
// CHECK: counts along the last axis are not multiples of unit 3
func.func @pad(%x: tensor<2x6xf32>) {
  %0 = graph.pad %x {low = [0, 4], high = [0, 0], mode = edge, unit = 3} : tensor<2x10xf32>
  return
}

// -----

// Shapes must be static at this level.
// CHECK: tensor<?xf32> has a dynamic dimension
func.func @dynamic(%x: tensor<?xf32>) {
  %0 = graph.relu %x : tensor<?xf32>
  return
}

// -----

// The error for an unknown keyword lists the valid ones.
// CHECK: Expected `max`, `average`, or `lp`.
func.func @keyword(%x: tensor<1x1x4x4xf32>) {
  %0 = graph.pool %x {kind = median, kernel = [2, 2]} : tensor<1x1x3x3xf32>
  return
}

// -----

// Values must be defined before use.
// CHECK: value is used before its definition
func.func @order(%x: tensor<4xf32>) {
  %0 = graph.relu %1 : tensor<4xf32>
  %1 = graph.relu %x : tensor<4xf32>
  return
}

// -----

// A group must yield its declared types.
// CHECK: results and yielded values differ in type
func.func @group(%x: tensor<4xf32>) {
  %y = graph.group kind = injective {
    %0 = graph.relu %x : tensor<4xf32>
    graph.yield %0
  } : tensor<5xf32>
  return
}

// -----

// A literal must have the declared type; a weight may have any.
// CHECK: needs a weight name or a literal, and not both
"builtin.module"() ({
  %0 = "graph.constant"() : () -> tensor<f32>
}) : () -> ()

// -----

// A scan must name a function of the module.
// CHECK: there is no function @nowhere
func.func @no_step(%h: tensor<4xf32>, %xs: tensor<3x4xf32>) {
  %0 = graph.scan @nowhere(%h, %xs) {trip = 3, states = 1, scanned = 1} : (tensor<4xf32>, tensor<3x4xf32>) -> tensor<4xf32>
  return
}

// -----

// A scanned operand must have one slice for each step.
// CHECK: tensor<2x4xf32> does not hold 3 slices
func.func private @step(%h: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
func.func @too_few(%h: tensor<4xf32>, %xs: tensor<2x4xf32>) {
  %0 = graph.scan @step(%h, %xs) {trip = 3, states = 1, scanned = 1} : (tensor<4xf32>, tensor<2x4xf32>) -> tensor<4xf32>
  return
}

// -----

// The step function's argument must have the slice type of the scanned operand.
// CHECK: @whole has type
func.func private @whole(%h: tensor<4xf32>, %x: tensor<3x4xf32>) -> tensor<4xf32> {
  func.return %h : tensor<4xf32>
}
func.func @signature(%h: tensor<4xf32>, %xs: tensor<3x4xf32>) {
  %0 = graph.scan @whole(%h, %xs) {trip = 3, states = 1, scanned = 1} : (tensor<4xf32>, tensor<3x4xf32>) -> tensor<4xf32>
  return
}

// -----

// Top-k cannot select more elements than a row has.
// CHECK: cannot take 10 elements of each row of tensor<4x9xf32>
func.func @top_k(%x: tensor<4x9xf32>) {
  %0, %1 = graph.top_k %x {k = 10} : tensor<4x10xf32>, tensor<4x10xi64>
  return
}

// -----

// Updates must have the shape of their indices.
// CHECK: indices tensor<2x9xi64> and updates tensor<2x8xf32> do not fit tensor<4x9xf32>
func.func @scatter(%x: tensor<4x9xf32>, %i: tensor<2x9xi64>, %u: tensor<2x8xf32>) {
  %0 = graph.scatter_elements %x, %i, %u : tensor<4x9xf32>
  return
}

// -----

// A bitcast needs element types of equal width, unless it joins the last axis.
// CHECK: f32 and i64 differ in width
func.func @bits(%x: tensor<4xf32>) {
  %0 = graph.bitcast %x : tensor<4xi64>
  return
}

// -----

// A cast to an exponent-only type is rejected: the importer computes the exponent and casts bits.
// CHECK: cannot cast to an exponent type: compute the exponent and bitcast it
func.func @exponents(%x: tensor<4xf32>) {
  %0 = graph.cast %x : tensor<4xf8E8M0FNU>
  return
}

// -----

// The operand of nonzero must be a vector of i1.
// CHECK: takes a vector of conditions, not tensor<4xf32>
func.func @places(%x: tensor<4xf32>) {
  %0, %1 = graph.nonzero %x : tensor<4xi64>, tensor<1xi64>
  return
}

// -----

// Non-maximum suppression cannot select more boxes than there are.
// CHECK: limit 10 is outside [0, 9], the number of boxes
func.func @boxes(%b: tensor<1x9x4xf32>, %s: tensor<1x2x9xf32>,
                 %n: tensor<1xi64>, %t: tensor<1xf32>) {
  %0, %1 = graph.non_max_suppression %b, %s, %n, %t, %t {limit = 10} : tensor<20x3xi64>, tensor<1xi64>
  return
}

// -----

// Tree nodes with f64 thresholds need records of five words.
// CHECK: are not trees with 3 targets
func.func @trees(%x: tensor<8x5xf64>, %n: tensor<16xui32>, %r: tensor<2xi32>, %l: tensor<4x1xi32>, %w: tensor<4x1xf64>) {
  %0 = graph.tree_ensemble %x, %n, %r, %l, %w {count = 3, depth = 2, common = 3, varying = 0} : tensor<8x3xf64>
  return
}

// -----

// Tree features must be f32 or f64.
// CHECK: x must be f32 or f64
func.func @trees(%x: tensor<8x5xf16>, %n: tensor<16xui32>, %r: tensor<2xi32>, %l: tensor<4x1xi32>, %w: tensor<4x1xf32>) {
  %0 = graph.tree_ensemble %x, %n, %r, %l, %w {count = 3, depth = 2, common = 3, varying = 0} : tensor<8x3xf32>
  return
}

// -----

// A relation is either common to all tests or varies among them, not both.
// CHECK: common = 3 and varying = 2 are not disjoint sets of relations
func.func @trees(%x: tensor<8x5xf32>, %n: tensor<16xui32>, %r: tensor<2xi32>, %l: tensor<4x1xi32>, %w: tensor<4x1xf32>) {
  %0 = graph.tree_ensemble %x, %n, %r, %l, %w {count = 3, depth = 2, common = 3, varying = 2} : tensor<8x3xf32>
  return
}

// -----

// sum_taps needs a multiple of the number of taps as channels.
// CHECK: 12 channels do not hold 9 taps
func.func @taps(%x: tensor<1x12x5x5xf32>) {
  %0 = graph.sum_taps %x {kernel = [3, 3]} : tensor<1x1x3x3xf32>
  return
}

// -----

// The channels of each group must be a multiple of the taps too.
// CHECK: 12 channels do not hold 4 taps in 2 groups
func.func @taps(%x: tensor<1x12x5x5xf32>) {
  %0 = graph.sum_taps %x {kernel = [2, 2], groups = 2} : tensor<1x3x4x4xf32>
  return
}

// -----

// The kernel needs an extent for each spatial dimension.
// CHECK: a kernel of rank 1 does not fit data of rank 4
func.func @taps(%x: tensor<1x12x5x5xf32>) {
  %0 = graph.sum_taps %x {kernel = [3]} : tensor<1x4x3x5xf32>
  return
}

// -----

// sum_taps is for floats only; exact integer products are accumulated directly.
// CHECK: expected floats, got i32
func.func @taps(%x: tensor<1x12x5x5xi32>) {
  %0 = graph.sum_taps %x {kernel = [2, 2]} : tensor<1x3x4x4xi32>
  return
}

// -----

// The panels must hold all rows and columns of the matrix.
// CHECK: does not hold 65 rows, 40 columns
func.func @panels(%x: tensor<1x65xf32>, %q: tensor<2x2x4x32xui32>, %s: tensor<2x2x32xf32>) {
  %0 = graph.blockwise_matmul %x, %q, %s {bits = 4, columns = 40} : tensor<1x40xf32>
  return
}

// -----

// Each block of a column has a scale.
// CHECK: tensor<2x2x16xf32> is not one value per block and column
func.func @scales(%x: tensor<1x64xf32>, %q: tensor<2x2x4x32xui32>, %s: tensor<2x2x16xf32>) {
  %0 = graph.blockwise_matmul %x, %q, %s {bits = 4, columns = 40} : tensor<1x40xf32>
  return
}

// -----

// Codes are words.
// CHECK: codes must be ui32 [panels, blocks, words, 32]
func.func @words(%x: tensor<1x64xf32>, %q: tensor<2x2x16x32xui8>, %s: tensor<2x2x32xf32>) {
  %0 = graph.blockwise_matmul %x, %q, %s {bits = 4, columns = 40} : tensor<1x40xf32>
  return
}
