// RUN: tcopt %s -p fuse-ops | filecheck %s
// RUN: tcopt %s -p 'fuse-ops{max-ops=2}' | filecheck %s --check-prefix=SMALL
// RUN: tcopt %s -p fuse-ops --remarks -o %t 2>&1 | filecheck %s --check-prefix=PLAN

// The plan shows which operators of each function are grouped.
// PLAN: done: fuse-ops: graph.relu ({{.*}}): fused graph.conv, graph.add, graph.relu

// A convolution fuses with the elementwise operators after it.
// CHECK-LABEL: func.func @epilogue
// CHECK-NEXT: %[[Y:.*]] = graph.group kind = complex_out_fusable {
// CHECK-NEXT:   %[[C:.*]] = graph.conv %x, %w : tensor<1x8x4x4xf32>
// CHECK-NEXT:   %[[A:.*]] = graph.add %[[C]], %b : tensor<1x8x4x4xf32>
// CHECK-NEXT:   %[[R:.*]] = graph.relu %[[A]] : tensor<1x8x4x4xf32>
// CHECK-NEXT:   graph.yield %[[R]] : tensor<1x8x4x4xf32>
// CHECK-NEXT: } : tensor<1x8x4x4xf32>
// CHECK-NEXT: return %[[Y]]
// SMALL-LABEL: func.func @epilogue
// SMALL:       graph.conv
// SMALL-NEXT:  graph.add
// SMALL-NEXT:  graph.yield
// SMALL:       kind = injective
// SMALL-NEXT:  graph.relu
func.func @epilogue(%x: tensor<1x4x4x4xf32>, %w: tensor<8x4x1x1xf32>, %b: tensor<8x1x1xf32>) -> tensor<1x8x4x4xf32> {
  %0 = graph.conv %x, %w : tensor<1x8x4x4xf32>
  %1 = graph.add %0, %b : tensor<1x8x4x4xf32>
  %2 = graph.relu %1 : tensor<1x8x4x4xf32>
  return %2 : tensor<1x8x4x4xf32>
}

// A diamond between the convolution and the multiplication fuses as a whole.
// CHECK-LABEL: func.func @diamond
// CHECK-NEXT: graph.group kind = complex_out_fusable
// CHECK-NEXT:   graph.conv
// CHECK-NEXT:   graph.sigmoid
// CHECK-NEXT:   graph.mul
// CHECK-NEXT:   graph.yield
func.func @diamond(%x: tensor<1x4x4x4xf32>, %w: tensor<8x4x1x1xf32>) -> tensor<1x8x4x4xf32> {
  %0 = graph.conv %x, %w : tensor<1x8x4x4xf32>
  %1 = graph.sigmoid %0 : tensor<1x8x4x4xf32>
  %2 = graph.mul %0, %1 : tensor<1x8x4x4xf32>
  return %2 : tensor<1x8x4x4xf32>
}

// A result with other users ends the group.
// CHECK-LABEL: func.func @escaping
// CHECK-NEXT: %[[C:.*]] = graph.group kind = complex_out_fusable
// CHECK-NEXT:   graph.conv
// CHECK-NEXT:   graph.yield
// CHECK:      graph.group kind = injective
// CHECK-NEXT:   graph.relu %[[C]]
func.func @escaping(%x: tensor<1x4x4x4xf32>, %w: tensor<8x4x1x1xf32>) -> (tensor<1x8x4x4xf32>, tensor<1x8x4x4xf32>) {
  %0 = graph.conv %x, %w : tensor<1x8x4x4xf32>
  %1 = graph.relu %0 : tensor<1x8x4x4xf32>
  return %0, %1 : tensor<1x8x4x4xf32>, tensor<1x8x4x4xf32>
}

// The add of two branches joins the later convolution.
// CHECK-LABEL: func.func @residual
// CHECK-NEXT: %[[S:.*]] = graph.group kind = complex_out_fusable
// CHECK-NEXT:   graph.conv %x, %w1
// CHECK-NEXT:   graph.yield
// CHECK:      graph.group kind = complex_out_fusable
// CHECK-NEXT:   %[[C:.*]] = graph.conv %x, %w2
// CHECK-NEXT:   %[[A:.*]] = graph.add %[[C]], %[[S]]
// CHECK-NEXT:   graph.relu %[[A]]
func.func @residual(%x: tensor<1x4x4x4xf32>, %w1: tensor<8x4x1x1xf32>, %w2: tensor<8x4x1x1xf32>) -> tensor<1x8x4x4xf32> {
  %0 = graph.conv %x, %w1 : tensor<1x8x4x4xf32>
  %1 = graph.conv %x, %w2 : tensor<1x8x4x4xf32>
  %2 = graph.add %1, %0 : tensor<1x8x4x4xf32>
  %3 = graph.relu %2 : tensor<1x8x4x4xf32>
  return %3 : tensor<1x8x4x4xf32>
}

// An operator that enlarges the result does not join a convolution.
// CHECK-LABEL: func.func @larger
// CHECK:      graph.group kind = complex_out_fusable
// CHECK-NEXT:   graph.conv
// CHECK-NEXT:   graph.yield
// CHECK:      graph.group kind = injective
// CHECK-NEXT:   graph.add
func.func @larger(%x: tensor<1x4x1x1xf32>, %w: tensor<8x4x1x1xf32>, %b: tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32> {
  %0 = graph.conv %x, %w : tensor<1x8x1x1xf32>
  %1 = graph.add %0, %b : tensor<1x8x4x4xf32>
  return %1 : tensor<1x8x4x4xf32>
}

// A reduction fuses with the injective operators before and after it.
// CHECK-LABEL: func.func @reduction
// CHECK-NEXT: graph.group kind = reduction
// CHECK-NEXT:   graph.mul
// CHECK-NEXT:   graph.exp
// CHECK-NEXT:   graph.reduce
// CHECK-NEXT:   graph.log
// CHECK-NEXT:   graph.yield
func.func @reduction(%x: tensor<4x8xf32>, %s: tensor<8xf32>) -> tensor<4xf32> {
  %0 = graph.mul %x, %s : tensor<4x8xf32>
  %1 = graph.exp %0 : tensor<4x8xf32>
  %2 = graph.reduce %1 {kind = sum, axes = [1]} : tensor<4xf32>
  %3 = graph.log %2 : tensor<4xf32>
  return %3 : tensor<4xf32>
}

// A normalization written as small operators is one group: both reductions are along the same rows.
// CHECK-LABEL: func.func @normalization
// CHECK-NEXT: graph.group kind = reduction
// CHECK-NEXT:   graph.reduce
// CHECK-NEXT:   graph.sub
// CHECK-NEXT:   graph.mul
// CHECK-NEXT:   graph.reduce
// CHECK-NEXT:   graph.rsqrt
// CHECK-NEXT:   graph.mul
// CHECK-NEXT:   graph.yield
// CHECK-NEXT: } : tensor<64x8xf32>
// CHECK-NEXT: return
func.func @normalization(%x: tensor<64x8xf32>) -> tensor<64x8xf32> {
  %0 = graph.reduce %x {kind = mean, axes = [1], keepdims} : tensor<64x1xf32>
  %1 = graph.sub %x, %0 : tensor<64x8xf32>
  %2 = graph.mul %1, %1 : tensor<64x8xf32>
  %3 = graph.reduce %2 {kind = mean, axes = [1], keepdims} : tensor<64x1xf32>
  %4 = graph.rsqrt %3 : tensor<64x1xf32>
  %5 = graph.mul %1, %4 : tensor<64x8xf32>
  return %5 : tensor<64x8xf32>
}

// With few rows, or along different axes, the operators after a reduction form their own group.
// CHECK-LABEL: func.func @few_rows
// CHECK-NEXT: %[[M:.*]] = graph.group kind = reduction
// CHECK-NEXT:   graph.reduce
// CHECK-NEXT:   graph.yield
// CHECK:      %[[S:.*]] = graph.group kind = injective
// CHECK-NEXT:   graph.sub %x, %[[M]]
// CHECK:      graph.group kind = reduction
// CHECK-NEXT:   graph.reduce %[[S]]
func.func @few_rows(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>) {
  %0 = graph.reduce %x {kind = max, axes = [1], keepdims} : tensor<4x1xf32>
  %1 = graph.sub %x, %0 : tensor<4x8xf32>
  %2 = graph.reduce %1 {kind = sum, axes = [0]} : tensor<8xf32>
  return %1, %2 : tensor<4x8xf32>, tensor<8xf32>
}

// Injective operators fuse even if they change the shape.
// CHECK-LABEL: func.func @injective
// CHECK-NEXT: graph.group kind = injective
// CHECK-NEXT:   graph.transpose
// CHECK-NEXT:   graph.add
// CHECK-NEXT:   graph.slice
// CHECK-NEXT:   graph.yield
func.func @injective(%x: tensor<4x8xf32>, %y: tensor<4xf32>) -> tensor<2x4xf32> {
  %0 = graph.transpose %x {perm = [1, 0]} : tensor<8x4xf32>
  %1 = graph.add %0, %y : tensor<8x4xf32>
  %2 = graph.slice %1 {starts = [3, 0]} : tensor<2x4xf32>
  return %2 : tensor<2x4xf32>
}

// Parts of a concatenation that are contiguous in the result are computed in place. Others, and
// parts that would start inside a cache line, are copied by a kernel.
// CHECK-LABEL: func.func @concat
// CHECK:      %[[A:.*]] = graph.group kind = injective {
// CHECK-NEXT:   graph.relu %x
// CHECK:      graph.concat %[[A]], %y {axis = 1} : tensor<1x8x4xf32>
// CHECK-NEXT: graph.group kind = injective {
// CHECK-NEXT:   graph.relu %x
// CHECK-NEXT:   graph.concat %{{.*}}, %y {axis = 2}
// CHECK:      graph.group kind = injective {
// CHECK-NEXT:   graph.relu %z
// CHECK-NEXT:   graph.concat %{{.*}}, %z {axis = 0}
func.func @concat(%x: tensor<1x4x4xf32>, %y: tensor<1x4x4xf32>, %z: tensor<3xf32>) -> (tensor<1x8x4xf32>, tensor<1x4x8xf32>, tensor<6xf32>) {
  %a = graph.relu %x : tensor<1x4x4xf32>
  %0 = graph.concat %a, %y {axis = 1} : tensor<1x8x4xf32>
  %b = graph.relu %x : tensor<1x4x4xf32>
  %1 = graph.concat %b, %y {axis = 2} : tensor<1x4x8xf32>
  %c = graph.relu %z : tensor<3xf32>
  %2 = graph.concat %c, %z {axis = 0} : tensor<6xf32>
  return %0, %1, %2 : tensor<1x8x4xf32>, tensor<1x4x8xf32>, tensor<6xf32>
}

// Strided elements are gathered before a convolution that reads them repeatedly.
// CHECK-LABEL: func.func @apart
// CHECK-NEXT: %[[S:.*]] = graph.group kind = injective {
// CHECK-NEXT:   graph.slice
// CHECK-NEXT:   graph.yield
// CHECK:      graph.conv %[[S]], %w
func.func @apart(%x: tensor<1x4x6x6xf32>, %w: tensor<8x4x1x1xf32>) -> tensor<1x8x3x3xf32> {
  %s = graph.slice %x {starts = [0, 0, 0, 0], steps = [1, 1, 2, 2]} : tensor<1x4x3x3xf32>
  %c = graph.conv %s, %w : tensor<1x8x3x3xf32>
  return %c : tensor<1x8x3x3xf32>
}

// A border fuses into the producer of its interior, never into its user; slices fuse into their
// only user.
// CHECK-LABEL: func.func @border
// CHECK-NEXT: %[[P:.*]] = graph.group kind = complex_out_fusable {
// CHECK-NEXT:   graph.blocked_conv %x, %w
// CHECK-NEXT:   graph.relu
// CHECK-NEXT:   graph.pad
// CHECK-NEXT:   graph.yield
// CHECK-NEXT: } : tensor<1x1x8x8x4xf32>
// CHECK-NEXT: graph.group kind = complex_out_fusable {
// CHECK-NEXT:   graph.blocked_conv %[[P]], %v
// CHECK-NEXT:   graph.slice %[[P]]
// CHECK-NEXT:   graph.add
// CHECK-NEXT:   graph.yield
func.func @border(%x: tensor<1x1x6x6x4xf32>, %w: tensor<1x1x1x1x4x4xf32>, %v: tensor<1x1x3x3x4x4xf32>) -> tensor<1x1x6x6x4xf32> {
  %c = graph.blocked_conv %x, %w : tensor<1x1x6x6x4xf32>
  %r = graph.relu %c : tensor<1x1x6x6x4xf32>
  %p = graph.pad %r {low = [0, 0, 1, 1, 0], high = [0, 0, 1, 1, 0]} : tensor<1x1x8x8x4xf32>
  %d = graph.blocked_conv %p, %v : tensor<1x1x6x6x4xf32>
  %s = graph.slice %p {starts = [0, 0, 1, 1, 0]} : tensor<1x1x6x6x4xf32>
  %y = graph.add %d, %s : tensor<1x1x6x6x4xf32>
  return %y : tensor<1x1x6x6x4xf32>
}

// Constants and views stay outside groups.
// CHECK-LABEL: func.func @outside
// CHECK-NEXT: %[[W:.*]] = graph.constant @w : tensor<8x4xf32>
// CHECK-NEXT: %[[V:.*]] = graph.reshape %x : tensor<2x4xf32>
// CHECK-NEXT: %[[Y:.*]] = graph.group kind = complex_out_fusable
// CHECK-NEXT:   graph.matmul %[[V]], %[[W]] {transpose_b}
// CHECK:      graph.reshape %[[Y]] : tensor<16xf32>
func.func @outside(%x: tensor<8xf32>) -> tensor<16xf32> {
  %w = graph.constant @w : tensor<8x4xf32>
  %0 = graph.reshape %x : tensor<2x4xf32>
  %1 = graph.matmul %0, %w {transpose_b} : tensor<2x8xf32>
  %2 = graph.reshape %1 : tensor<16xf32>
  return %2 : tensor<16xf32>
}

// An operator that only widens a side operand of a convolution joins its group; one that narrows it
// does not.
// CHECK-LABEL: func.func @widened
// CHECK:       graph.group kind = injective
// CHECK-NEXT:    graph.quantize
// CHECK-NEXT:    graph.yield
// CHECK:       graph.group kind = complex_out_fusable
// CHECK-NEXT:    graph.conv
// CHECK-NEXT:    graph.dequantize
// CHECK-NEXT:    graph.add
// CHECK-NEXT:    graph.yield
func.func @widened(%x: tensor<1x4x4x4xf32>, %w: tensor<8x4x1x1xf32>, %b: tensor<1x8x4x4xf32>, %s: tensor<f32>, %z: tensor<ui8>) -> tensor<1x8x4x4xf32> {
  %q = graph.quantize %b, %s, %z : tensor<1x8x4x4xui8>
  %c = graph.conv %x, %w : tensor<1x8x4x4xf32>
  %d = graph.dequantize %q, %s, %z : tensor<1x8x4x4xf32>
  %y = graph.add %c, %d : tensor<1x8x4x4xf32>
  return %y : tensor<1x8x4x4xf32>
}

// A contiguous slice that cannot be fused, because it has several users or feeds a contraction, is
// a view. A slice that is a result is a kernel.
// CHECK-LABEL: func.func @subviews
// CHECK-NEXT: %[[Q:.*]] = graph.slice %x {starts = [0, 0, 0]} : tensor<1x8x16xf32>
// CHECK-NEXT: %[[K:.*]] = graph.slice %x {starts = [1, 0, 0]} : tensor<1x8x16xf32>
// CHECK-NEXT: %[[S:.*]] = graph.group kind = complex_out_fusable {
// CHECK-NEXT:   graph.matmul %[[Q]], %[[K]]
// CHECK:      graph.group kind = injective {
// CHECK-NEXT:   graph.slice %x {starts = [2, 0, 0]}
// CHECK-NEXT:   graph.relu
// CHECK-NEXT:   graph.yield
// CHECK:      graph.group kind = injective {
// CHECK-NEXT:   graph.slice %x {starts = [1, 0, 0]} : tensor<2x8x16xf32>
// CHECK-NEXT:   graph.yield
func.func @subviews(%x: tensor<3x8x16xf32>) -> (tensor<1x8x8xf32>, tensor<1x8x16xf32>, tensor<2x8x16xf32>) {
  %q = graph.slice %x {starts = [0, 0, 0]} : tensor<1x8x16xf32>
  %k = graph.slice %x {starts = [1, 0, 0]} : tensor<1x8x16xf32>
  %s = graph.matmul %q, %k {transpose_b} : tensor<1x8x8xf32>
  %v = graph.slice %x {starts = [2, 0, 0]} : tensor<1x8x16xf32>
  %r = graph.relu %v : tensor<1x8x16xf32>
  %t = graph.slice %x {starts = [1, 0, 0]} : tensor<2x8x16xf32>
  return %s, %r, %t : tensor<1x8x8xf32>, tensor<1x8x16xf32>, tensor<2x8x16xf32>
}

// Slices that start inside a cache line or are not contiguous are read in place.
// CHECK-LABEL: func.func @no_subviews
// CHECK-NEXT: graph.group kind = complex_out_fusable {
// CHECK-NEXT:   graph.slice %x {starts = [4, 0]}
// CHECK-NEXT:   graph.slice %x {starts = [1, 0]}
// CHECK-NEXT:   graph.matmul
// CHECK:      graph.group kind = complex_out_fusable {
// CHECK-NEXT:   graph.slice %x {starts = [1, 0]} : tensor<2x12xf32>
// CHECK-NEXT:   graph.matmul
// CHECK-NEXT:   graph.add
func.func @no_subviews(%x: tensor<8x12xf32>) -> tensor<2x2xf32> {
  %a = graph.slice %x {starts = [1, 0]} : tensor<2x12xf32>
  %b = graph.slice %x {starts = [4, 0]} : tensor<2x8xf32>
  %c = graph.slice %x {starts = [1, 0]} : tensor<2x8xf32>
  %s = graph.matmul %c, %b {transpose_b} : tensor<2x2xf32>
  %t = graph.matmul %a, %a {transpose_b} : tensor<2x2xf32>
  %y = graph.add %s, %t : tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// -----

// A convolution that is read by an existing group is not fused further.
// CHECK-LABEL: func.func @read_by_group
// CHECK:         %[[C:.*]] = graph.group kind = complex_out_fusable {
// CHECK-NEXT:      graph.conv
// CHECK-NEXT:      graph.yield
// CHECK:         graph.group kind = complex_out_fusable {
// CHECK-NEXT:      graph.conv %[[C]]
func.func @read_by_group(%x: tensor<1x16x8x8xf32>, %w: tensor<16x16x1x1xf32>) -> tensor<1x16x8x8xf32> {
  %0 = graph.conv %x, %w : tensor<1x16x8x8xf32>
  %1 = graph.group kind = complex_out_fusable {
    %2 = graph.conv %0, %w : tensor<1x16x8x8xf32>
    graph.yield %2 : tensor<1x16x8x8xf32>
  } attributes {place = "vdla"} : tensor<1x16x8x8xf32>
  return %1 : tensor<1x16x8x8xf32>
}
