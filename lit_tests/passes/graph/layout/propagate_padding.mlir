// RUN: tcopt %s -p propagate-padding | filecheck %s
// RUN: tcopt %s -p propagate-padding --remarks -o %t 2>&1 | filecheck %s --check-prefix=PLAN

// The plan shows which values get borders and who reads the interior; the border of a concatenation
// is one of its parts.
// PLAN: done: propagate-padding: graph.relu ({{.*}}): border [0, 0, 1, 1, 0], [0, 0, 1, 1, 0]
// PLAN: done: propagate-padding: graph.concat ({{.*}}): border [0, 0, 1, 1, 0], [0, 0, 1, 1, 0]
// PLAN: done: propagate-padding: graph.relu ({{.*}}): border [0, 0, 1, 1, 0], [0, 0, 1, 1, 0] of 7

// The input of a padded convolution gets a border from its producer; an addition and a 1x1
// convolution read only the interior.
// CHECK-LABEL: func.func @residual
// CHECK-NEXT: %r = graph.relu %x : tensor<1x1x6x6x4xf32>
// CHECK-NEXT: %[[P:.*]] = graph.pad %r {low = [0, 0, 1, 1, 0], high = [0, 0, 1, 1, 0]} : tensor<1x1x8x8x4xf32>
// CHECK-NEXT: %c = graph.blocked_conv %[[P]], %w : tensor<1x1x6x6x4xf32>
// CHECK-NEXT: %d = graph.blocked_conv %[[P]], %v {pads = [-1, -1, -1, -1]} : tensor<1x1x6x6x4xf32>
// CHECK-NEXT: %[[S:.*]] = graph.slice %[[P]] {starts = [0, 0, 1, 1, 0]} : tensor<1x1x6x6x4xf32>
// CHECK-NEXT: graph.add %c, %[[S]]
func.func @residual(%x: tensor<1x1x6x6x4xf32>, %w: tensor<1x1x3x3x4x4xf32>, %v: tensor<1x1x1x1x4x4xf32>) -> (tensor<1x1x6x6x4xf32>, tensor<1x1x6x6x4xf32>) {
  %r = graph.relu %x : tensor<1x1x6x6x4xf32>
  %c = graph.blocked_conv %r, %w {pads = [1, 1, 1, 1]} : tensor<1x1x6x6x4xf32>
  %d = graph.blocked_conv %r, %v : tensor<1x1x6x6x4xf32>
  %s = graph.add %c, %r : tensor<1x1x6x6x4xf32>
  return %s, %d : tensor<1x1x6x6x4xf32>, tensor<1x1x6x6x4xf32>
}

// The widest border on each side serves all users; padding that no window reaches is dropped.
// CHECK-LABEL: func.func @widest
// CHECK:      %[[P:.*]] = graph.pad %r {low = [0, 0, 2, 1, 0], high = [0, 0, 2, 0, 0]}
// CHECK-NEXT: graph.blocked_conv %[[P]], %w {strides = [2, 2], pads = [-1, 0, -2, 0]} : tensor<1x1x3x3x4xf32>
// CHECK-NEXT: graph.blocked_conv %[[P]], %v {pads = [0, -1, 0, 0]} : tensor<1x1x6x6x4xf32>
func.func @widest(%x: tensor<1x1x6x6x4xf32>, %w: tensor<1x1x3x3x4x4xf32>, %v: tensor<1x1x5x1x4x4xf32>) -> (tensor<1x1x3x3x4xf32>, tensor<1x1x6x6x4xf32>) {
  %r = graph.relu %x : tensor<1x1x6x6x4xf32>
  %c = graph.blocked_conv %r, %w {strides = [2, 2], pads = [1, 1, 1, 1]} : tensor<1x1x3x3x4xf32>
  %d = graph.blocked_conv %r, %v {pads = [2, 0, 2, 0]} : tensor<1x1x6x6x4xf32>
  return %c, %d : tensor<1x1x3x3x4xf32>, tensor<1x1x6x6x4xf32>
}

// Zero padding never changes the maximum of non-negative elements; for other elements the pooling
// keeps its own pads.
// CHECK-LABEL: func.func @max_pool
// CHECK:      %[[P:.*]] = graph.pad %r
// CHECK-NEXT: graph.pool %[[P]] {kind = max, kernel = [3, 3, 1], strides = [2, 2, 1]} : tensor<1x1x3x3x4xf32>
// CHECK-NEXT: %t = graph.tanh %x
// CHECK-NEXT: graph.pool %t {kind = max, kernel = [3, 3, 1], strides = [2, 2, 1], pads = [1, 1, 0, 1, 1, 0]}
func.func @max_pool(%x: tensor<1x1x6x6x4xf32>) -> (tensor<1x1x3x3x4xf32>, tensor<1x1x3x3x4xf32>) {
  %r = graph.relu %x : tensor<1x1x6x6x4xf32>
  %p = graph.pool %r {kind = max, kernel = [3, 3, 1], strides = [2, 2, 1], pads = [1, 1, 0, 1, 1, 0]} : tensor<1x1x3x3x4xf32>
  %t = graph.tanh %x : tensor<1x1x6x6x4xf32>
  %q = graph.pool %t {kind = max, kernel = [3, 3, 1], strides = [2, 2, 1], pads = [1, 1, 0, 1, 1, 0]} : tensor<1x1x3x3x4xf32>
  return %p, %q : tensor<1x1x3x3x4xf32>, tensor<1x1x3x3x4xf32>
}

// An average pooling reads the border only if it counts pads; otherwise it reads the interior.
// CHECK-LABEL: func.func @average_pool
// CHECK:      %[[P:.*]] = graph.pad %r
// CHECK:      graph.pool %[[P]] {kind = average, kernel = [3, 3, 1], count_include_pad} : tensor<1x1x6x6x4xf32>
// CHECK-NEXT: graph.pool %[[P]] {kind = average, kernel = [2, 2, 1], strides = [2, 2, 1], pads = [-1, -1, 0, -1, -1, 0]} : tensor<1x1x3x3x4xf32>
// CHECK-NEXT: %[[S:.*]] = graph.slice %[[P]]
// CHECK-NEXT: graph.pool %[[S]] {kind = average, kernel = [3, 3, 1], pads = [1, 1, 0, 1, 1, 0]}
func.func @average_pool(%x: tensor<1x1x6x6x4xf32>, %w: tensor<1x1x3x3x4x4xf32>) -> (tensor<1x1x6x6x4xf32>, tensor<1x1x6x6x4xf32>, tensor<1x1x3x3x4xf32>, tensor<1x1x6x6x4xf32>) {
  %r = graph.tanh %x : tensor<1x1x6x6x4xf32>
  %c = graph.blocked_conv %r, %w {pads = [1, 1, 1, 1]} : tensor<1x1x6x6x4xf32>
  %p = graph.pool %r {kind = average, kernel = [3, 3, 1], pads = [1, 1, 0, 1, 1, 0], count_include_pad} : tensor<1x1x6x6x4xf32>
  %q = graph.pool %r {kind = average, kernel = [2, 2, 1], strides = [2, 2, 1]} : tensor<1x1x3x3x4xf32>
  %s = graph.pool %r {kind = average, kernel = [3, 3, 1], pads = [1, 1, 0, 1, 1, 0]} : tensor<1x1x6x6x4xf32>
  return %c, %p, %q, %s : tensor<1x1x6x6x4xf32>, tensor<1x1x6x6x4xf32>, tensor<1x1x3x3x4xf32>, tensor<1x1x6x6x4xf32>
}

// A pooling needs no padded copy, so no border is added for it alone, and a 1x1 convolution still
// reads contiguous elements.
// CHECK-LABEL: func.func @pointwise
// CHECK-NOT: graph.pad
// CHECK: return
func.func @pointwise(%x: tensor<1x1x6x6x4xf32>, %w: tensor<1x1x1x1x4x4xf32>) -> (tensor<1x1x6x6x4xf32>, tensor<1x1x6x6x4xf32>) {
  %r = graph.relu %x : tensor<1x1x6x6x4xf32>
  %c = graph.blocked_conv %r, %w : tensor<1x1x6x6x4xf32>
  %p = graph.pool %r {kind = max, kernel = [3, 3, 1], pads = [1, 1, 0, 1, 1, 0]} : tensor<1x1x6x6x4xf32>
  return %c, %p : tensor<1x1x6x6x4xf32>, tensor<1x1x6x6x4xf32>
}

// Each part of a concatenation gets the border; a part that occurs twice gets it once.
// CHECK-LABEL: func.func @concat
// CHECK:      %a = graph.relu %x
// CHECK-NEXT: %[[A:.*]] = graph.pad %a
// CHECK-NEXT: %b = graph.relu %y
// CHECK-NEXT: %[[B:.*]] = graph.pad %b
// CHECK-NEXT: %[[C:.*]] = graph.concat %[[A]], %[[B]], %[[A]] {axis = 1} : tensor<1x3x8x8x4xf32>
// CHECK-NEXT: graph.blocked_conv %[[C]], %w : tensor<1x1x6x6x4xf32>
func.func @concat(%x: tensor<1x1x6x6x4xf32>, %y: tensor<1x1x6x6x4xf32>, %w: tensor<1x3x3x3x4x4xf32>) -> tensor<1x1x6x6x4xf32> {
  %a = graph.relu %x : tensor<1x1x6x6x4xf32>
  %b = graph.relu %y : tensor<1x1x6x6x4xf32>
  %j = graph.concat %a, %b, %a {axis = 1} : tensor<1x3x6x6x4xf32>
  %c = graph.blocked_conv %j, %w {pads = [1, 1, 1, 1]} : tensor<1x1x6x6x4xf32>
  return %c : tensor<1x1x6x6x4xf32>
}

// Arguments and results of the function, and values that are viewed under another shape, get no
// border.
// CHECK-LABEL: func.func @outside
// CHECK-NOT: graph.pad
// CHECK: return
func.func @outside(%x: tensor<1x1x6x6x4xf32>, %w: tensor<1x1x3x3x4x4xf32>) -> (tensor<1x1x6x6x4xf32>, tensor<1x144xf32>) {
  %a = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x1x6x6x4xf32>
  %b = graph.blocked_conv %a, %w {pads = [1, 1, 1, 1]} : tensor<1x1x6x6x4xf32>
  %c = graph.reshape %a : tensor<1x144xf32>
  return %b, %c : tensor<1x1x6x6x4xf32>, tensor<1x144xf32>
}

// A quantised border holds the zero point; a pooling with other pads reads a slice.
// CHECK-LABEL: func.func @number
// CHECK:      %[[N:.*]] = graph.constant dense<7> : tensor<ui8>
// CHECK-NEXT: %[[R:.*]] = graph.pad %{{.*}}, %[[N]] {low = [0, 0, 1, 1, 0], high = [0, 0, 1, 1, 0]} : tensor<1x1x8x8x4xui8>
// CHECK-NEXT: %c = graph.blocked_conv %[[R]], %w {result_element = i32} : tensor<1x1x6x6x4xi32>
// CHECK-NEXT: %d = graph.blocked_conv %[[R]], %v {pads = [-1, -1, -1, -1], result_element = i32} : tensor<1x1x6x6x4xi32>
// CHECK-NEXT: %[[S:.*]] = graph.slice %[[R]] {starts = [0, 0, 1, 1, 0]}
// CHECK-NEXT: %p = graph.pool %[[S]] {kind = max
func.func @number(%x: tensor<1x1x6x6x4xui8>, %w: tensor<1x1x3x3x4x4xi8>, %v: tensor<1x1x1x1x4x4xi8>) -> (tensor<1x1x6x6x4xi32>, tensor<1x1x6x6x4xi32>, tensor<1x1x6x6x4xui8>) {
  %r = graph.relu %x : tensor<1x1x6x6x4xui8>
  %c = graph.blocked_conv %r, %w {pads = [1, 1, 1, 1], pad_value = 7, result_element = i32} : tensor<1x1x6x6x4xi32>
  %d = graph.blocked_conv %r, %v {result_element = i32} : tensor<1x1x6x6x4xi32>
  %p = graph.pool %r {kind = max, kernel = [3, 3, 1], pads = [1, 1, 0, 1, 1, 0]} : tensor<1x1x6x6x4xui8>
  return %c, %d, %p : tensor<1x1x6x6x4xi32>, tensor<1x1x6x6x4xi32>, tensor<1x1x6x6x4xui8>
}

// Rows that taps skip get no border; the convolution tests for them itself.
// CHECK-LABEL: func.func @skipped
// CHECK:      %[[P:.*]] = graph.pad %r {low = [0, 0, 0, 4, 0], high = [0, 0, 0, 4, 0]} : tensor<1x2x6x14x4xf32>
// CHECK-NEXT: graph.blocked_conv %[[P]], %w {pads = [4, 0, 4, 0], dilations = [4, 4], skips = [0]} : tensor<1x2x6x6x4xf32>
func.func @skipped(%x: tensor<1x2x6x6x4xf32>, %w: tensor<2x2x3x3x4x4xf32>) -> tensor<1x2x6x6x4xf32> {
  %r = graph.relu %x : tensor<1x2x6x6x4xf32>
  %y = graph.blocked_conv %r, %w {pads = [4, 4, 4, 4], dilations = [4, 4], skips = [0]} : tensor<1x2x6x6x4xf32>
  return %y : tensor<1x2x6x6x4xf32>
}
