// RUN: tcopt %s -p hoist-slices | filecheck %s
// RUN: tcopt %s -p hoist-slices --remarks -o %t 2>&1 | filecheck %s --check-prefix=PLAN

// The plan shows which ops are computed on slices, and the part of each result that is used.
// PLAN:      done: hoist-slices: graph.layer_norm ({{.*}}): [1, 8] of [6, 8] is used
// PLAN-NEXT: done: hoist-slices: graph.relu ({{.*}}): [1, 8] of [6, 8] is used
// PLAN-NEXT: done: hoist-slices: graph.matmul ({{.*}}): [1, 4] of [6, 4] is used

// A slice of rows moves before the product and its producers, up to the input.
// CHECK-LABEL: func.func @rows
// CHECK-NEXT:    [[X:%.*]] = graph.slice %x {starts = [2, 0]} : tensor<1x8xf32>
// CHECK-NEXT:    [[N:%.*]] = graph.layer_norm [[X]], %g {axis = 1} : tensor<1x8xf32>
// CHECK-NEXT:    [[R:%.*]] = graph.relu [[N]] : tensor<1x8xf32>
// CHECK-NEXT:    [[Y:%.*]] = graph.matmul [[R]], %w : tensor<1x4xf32>
// CHECK-NEXT:    return [[Y]]
func.func @rows(%x: tensor<6x8xf32>, %g: tensor<8xf32>, %w: tensor<8x4xf32>) -> tensor<1x4xf32> {
  %n = graph.layer_norm %x, %g {axis = 1} : tensor<6x8xf32>
  %r = graph.relu %n : tensor<6x8xf32>
  %y = graph.matmul %r, %w : tensor<6x4xf32>
  %s = graph.slice %y {starts = [2, 0]} : tensor<1x4xf32>
  return %s : tensor<1x4xf32>
}

// Attention for one query reads all keys; the slice stops where all rows are used.
// CHECK-LABEL: func.func @query
// CHECK-NEXT:    [[N:%.*]] = graph.softmax %x {axis = 2} : tensor<2x6x8xf32>
// CHECK-NEXT:    [[Q:%.*]] = graph.slice [[N]] {starts = [0, 0, 0]} : tensor<2x1x8xf32>
// CHECK-NEXT:    [[S:%.*]] = graph.matmul [[Q]], [[N]] {transpose_b} : tensor<2x1x6xf32>
// CHECK-NEXT:    [[A:%.*]] = graph.matmul [[S]], [[N]] : tensor<2x1x8xf32>
// CHECK-NEXT:    [[Y:%.*]] = graph.add [[Q]], [[A]] : tensor<2x1x8xf32>
// CHECK-NEXT:    return [[Y]]
func.func @query(%x: tensor<2x6x8xf32>) -> tensor<2x1x8xf32> {
  %n = graph.softmax %x {axis = 2} : tensor<2x6x8xf32>
  %s = graph.matmul %n, %n {transpose_b} : tensor<2x6x6xf32>
  %a = graph.matmul %s, %n : tensor<2x6x8xf32>
  %y = graph.add %n, %a : tensor<2x6x8xf32>
  %0 = graph.slice %y {starts = [0, 0, 0]} : tensor<2x1x8xf32>
  return %0 : tensor<2x1x8xf32>
}

// Two nearby slices become slices of their common hull.
// CHECK-LABEL: func.func @two
// CHECK-NEXT:    [[X:%.*]] = graph.slice %x {starts = [1, 0]} : tensor<3x4xf32>
// CHECK-NEXT:    [[Y:%.*]] = graph.softmax [[X]] {axis = 1} : tensor<3x4xf32>
// CHECK-NEXT:    graph.slice [[Y]] {starts = [0, 0]} : tensor<1x4xf32>
// CHECK-NEXT:    graph.slice [[Y]] {starts = [1, 0]} : tensor<2x4xf32>
func.func @two(%x: tensor<8x4xf32>) -> (tensor<1x4xf32>, tensor<2x4xf32>) {
  %y = graph.softmax %x {axis = 1} : tensor<8x4xf32>
  %0 = graph.slice %y {starts = [1, 0]} : tensor<1x4xf32>
  %1 = graph.slice %y {starts = [2, 0]} : tensor<2x4xf32>
  return %0, %1 : tensor<1x4xf32>, tensor<2x4xf32>
}

// Slices do not move before elementwise ops alone, if they take most of the value, or along a
// reduced or windowed axis; a value that is also used as a whole is computed once.
// CHECK-LABEL: func.func @elementwise
// CHECK:         graph.relu %x : tensor<8x4xf32>
// CHECK-LABEL: func.func @large
// CHECK:         graph.softmax %x {axis = 1} : tensor<8x4xf32>
// CHECK-LABEL: func.func @along
// CHECK:         graph.softmax %x {axis = 1} : tensor<8x4xf32>
// CHECK-LABEL: func.func @window
// CHECK:         graph.conv %x, %w {{.*}} : tensor<1x2x4x4xf32>
// CHECK-LABEL: func.func @used
// CHECK:         graph.softmax %x {axis = 1} : tensor<8x4xf32>
func.func @elementwise(%x: tensor<8x4xf32>) -> tensor<1x4xf32> {
  %y = graph.relu %x : tensor<8x4xf32>
  %0 = graph.slice %y {starts = [0, 0]} : tensor<1x4xf32>
  return %0 : tensor<1x4xf32>
}
func.func @large(%x: tensor<8x4xf32>) -> tensor<7x4xf32> {
  %y = graph.softmax %x {axis = 1} : tensor<8x4xf32>
  %0 = graph.slice %y {starts = [1, 0]} : tensor<7x4xf32>
  return %0 : tensor<7x4xf32>
}
func.func @along(%x: tensor<8x4xf32>) -> tensor<8x1xf32> {
  %y = graph.softmax %x {axis = 1} : tensor<8x4xf32>
  %0 = graph.slice %y {starts = [0, 0]} : tensor<8x1xf32>
  return %0 : tensor<8x1xf32>
}
func.func @window(%x: tensor<1x1x4x4xf32>, %w: tensor<2x1x3x3xf32>) -> tensor<1x2x1x4xf32> {
  %y = graph.conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x2x4x4xf32>
  %0 = graph.slice %y {starts = [0, 0, 0, 0]} : tensor<1x2x1x4xf32>
  return %0 : tensor<1x2x1x4xf32>
}
func.func @used(%x: tensor<8x4xf32>) -> (tensor<1x4xf32>, tensor<8x4xf32>) {
  %y = graph.softmax %x {axis = 1} : tensor<8x4xf32>
  %0 = graph.slice %y {starts = [0, 0]} : tensor<1x4xf32>
  return %0, %y : tensor<1x4xf32>, tensor<8x4xf32>
}

// The last row of a size moves before the product; a reshape whose indices are not affine in sizes ends the motion.
// CHECK-LABEL: func.func @last
// CHECK-NEXT:    [[A:%.*]] = graph.reshape %x : tensor<2x9x4xf32, #size.dims<2, n[1:9], 4>>
// CHECK-NEXT:    [[L:%.*]] = graph.slice [[A]] {starts = #size.dims<0, n[1:9] - 1, 0>} : tensor<2x1x4xf32>
// CHECK-NEXT:    [[Y:%.*]] = graph.matmul [[L]], %w : tensor<2x1x5xf32>
// CHECK-NEXT:    return [[Y]]
func.func @last(%x: tensor<18x4xf32, #size.dims<2 * n[1:9], 4>>, %w: tensor<4x5xf32>) -> tensor<2x1x5xf32> attributes {size.symbols = #size.dims<n[1:9]>} {
  %a = graph.reshape %x : tensor<2x9x4xf32, #size.dims<2, n[1:9], 4>>
  %y = graph.matmul %a, %w : tensor<2x9x5xf32, #size.dims<2, n[1:9], 5>>
  %s = graph.slice %y {starts = #size.dims<0, n[1:9] - 1, 0>} : tensor<2x1x5xf32>
  return %s : tensor<2x1x5xf32>
}
