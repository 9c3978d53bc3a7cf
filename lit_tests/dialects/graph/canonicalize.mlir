// RUN: tcopt %s -p canonicalize | filecheck %s

// Identity operators are removed.
// CHECK-LABEL: func.func @neutral
// CHECK-NEXT: return %x : tensor<2x3xf32>
func.func @neutral(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %zero = graph.constant dense<0.0> : tensor<f32>
  %one = graph.constant dense<1.0> : tensor<3xf32>
  %0 = graph.add %x, %zero : tensor<2x3xf32>
  %1 = graph.mul %one, %0 : tensor<2x3xf32>
  %2 = graph.sub %1, %zero : tensor<2x3xf32>
  %3 = graph.div %2, %one : tensor<2x3xf32>
  %4 = graph.identity %3 : tensor<2x3xf32>
  %5 = graph.cast %4 : tensor<2x3xf32>
  %6 = graph.reshape %5 : tensor<2x3xf32>
  %7 = graph.transpose %6 {perm = [0, 1]} : tensor<2x3xf32>
  %8 = graph.slice %7 {starts = [0, 0]} : tensor<2x3xf32>
  %9 = graph.pad %8 {low = [0, 0], high = [0, 0]} : tensor<2x3xf32>
  %10 = graph.concat %9 {axis = 1} : tensor<2x3xf32>
  %11 = graph.clip %10 : tensor<2x3xf32>
  return %11 : tensor<2x3xf32>
}

// Adding a zero that broadcasts the other operand is not an identity.
// CHECK-LABEL: func.func @broadcasting_zero
// CHECK: graph.add
func.func @broadcasting_zero(%x: tensor<3xf32>) -> tensor<2x3xf32> {
  %zero = graph.constant dense<0.0> : tensor<2x3xf32>
  %0 = graph.add %x, %zero : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// Two transposes compose to one, or cancel.
// CHECK-LABEL: func.func @transposes
// CHECK-NEXT: %0 = graph.transpose %x {perm = [1, 2, 0]} : tensor<3x4x2xf32>
// CHECK-NEXT: return %0, %x
func.func @transposes(%x: tensor<2x3x4xf32>) -> (tensor<3x4x2xf32>, tensor<2x3x4xf32>) {
  %0 = graph.transpose %x {perm = [2, 0, 1]} : tensor<4x2x3xf32>
  %1 = graph.transpose %0 {perm = [2, 0, 1]} : tensor<3x4x2xf32>
  %2 = graph.transpose %1 {perm = [2, 0, 1]} : tensor<2x3x4xf32>
  return %1, %2 : tensor<3x4x2xf32>, tensor<2x3x4xf32>
}

// A transpose of unit axes is a reshape; consecutive reshapes merge.
// CHECK-LABEL: func.func @unit_axes
// CHECK-NEXT: graph.reshape %x : tensor<6xf32>
// CHECK-NEXT: return
func.func @unit_axes(%x: tensor<2x1x3xf32>) -> tensor<6xf32> {
  %0 = graph.transpose %x {perm = [1, 0, 2]} : tensor<1x2x3xf32>
  %1 = graph.reshape %0 : tensor<6xf32>
  return %1 : tensor<6xf32>
}

// Consecutive slices merge; a gather of evenly spaced constant indices is a slice.
// CHECK-LABEL: func.func @slices
// CHECK: graph.slice %x {starts = [3, 0], steps = [4, 1]} : tensor<2x4xf32>
// CHECK: graph.slice %x {starts = [1, 0], steps = [3, 1]} : tensor<2x4xf32>
func.func @slices(%x: tensor<9x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %0 = graph.slice %x {starts = [1, 0], steps = [2, 1]} : tensor<4x4xf32>
  %1 = graph.slice %0 {starts = [1, 0], steps = [2, 1]} : tensor<2x4xf32>
  %i = graph.constant dense<[1, 4]> : tensor<2xi64>
  %2 = graph.gather %x, %i : tensor<2x4xf32>
  return %1, %2 : tensor<2x4xf32>, tensor<2x4xf32>
}

// An index from the end of a size is a slice that starts at a size.
// CHECK-LABEL: func.func @last
// CHECK: graph.slice %x {starts = #size.dims<n[2:9] - 1, 0>} : tensor<1x4xf32>
// CHECK: graph.slice %x {starts = #size.dims<n[2:9] - 2, 0>} : tensor<2x4xf32>
// CHECK: graph.gather %x, %k : tensor<1x4xf32>
func.func @last(%x: tensor<9x4xf32, #size.dims<n[2:9], 4>>) -> (tensor<1x4xf32>, tensor<2x4xf32>, tensor<1x4xf32>) attributes {size.symbols = #size.dims<n[2:9]>} {
  %i = graph.constant dense<-1> : tensor<1xi64>
  %0 = graph.gather %x, %i : tensor<1x4xf32>
  %j = graph.constant dense<[-2, -1]> : tensor<2xi64>
  %1 = graph.gather %x, %j : tensor<2x4xf32>
  %k = graph.constant dense<-3> : tensor<1xi64>
  %2 = graph.gather %x, %k : tensor<1x4xf32>
  return %0, %1, %2 : tensor<1x4xf32>, tensor<2x4xf32>, tensor<1x4xf32>
}

// Operators without users are removed.
// CHECK-LABEL: func.func @dead
// CHECK-NEXT: return %x
func.func @dead(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = graph.constant @w : tensor<4xf32>
  %0 = graph.mul %x, %w : tensor<4xf32>
  %1 = graph.group kind = injective {
    %2 = graph.relu %0 : tensor<4xf32>
    graph.yield %2
  } : tensor<4xf32>
  return %x : tensor<4xf32>
}

// Inverse layout transforms cancel.
// CHECK-LABEL: func.func @layouts
// CHECK-NEXT: return %x
func.func @layouts(%x: tensor<1x32x4x4xf32>) -> tensor<1x32x4x4xf32> {
  %0 = graph.layout_transform %x {src = "NCHW", dst = "NCHW16c"} : tensor<1x2x4x4x16xf32>
  %1 = graph.layout_transform %0 {src = "NCHW16c", dst = "NCHW"} : tensor<1x32x4x4xf32>
  return %1 : tensor<1x32x4x4xf32>
}

// With a single pixel, blocked and plain channels are contiguous in the same order, so the
// transform is a reshape, unless it drops padding channels.
// CHECK-LABEL: func.func @pixel
// CHECK-NEXT: graph.reshape %x : tensor<1x32x1x1xf32>
// CHECK-NEXT: graph.layout_transform %x {src = "NCHW16c", dst = "NCHW"} : tensor<1x30x1x1xf32>
func.func @pixel(%x: tensor<1x2x1x1x16xf32>) -> (tensor<1x32x1x1xf32>, tensor<1x30x1x1xf32>) {
  %0 = graph.layout_transform %x {src = "NCHW16c", dst = "NCHW"} : tensor<1x32x1x1xf32>
  %1 = graph.layout_transform %x {src = "NCHW16c", dst = "NCHW"} : tensor<1x30x1x1xf32>
  return %0, %1 : tensor<1x32x1x1xf32>, tensor<1x30x1x1xf32>
}

// Taps of a dilated window that only ever read padding are removed: here all rows of taps but the
// middle one, and all columns but the first.
// CHECK-LABEL: func.func @dilated
// CHECK-NEXT: %[[W:.*]] = graph.slice %w {starts = [0, 0, 1, 1]} : tensor<8x4x1x2xf32>
// CHECK-NEXT: graph.conv %x, %[[W]] {pads = [0, 2, 0, 4], dilations = [1, 6]} : tensor<1x8x8x8xf32>
func.func @dilated(%x: tensor<1x4x8x8xf32>, %w: tensor<8x4x3x3xf32>) -> tensor<1x8x8x8xf32> {
  %0 = graph.conv %x, %w {pads = [9, 8, 9, 4], dilations = [9, 6]} : tensor<1x8x8x8xf32>
  return %0 : tensor<1x8x8x8xf32>
}

// If no tap reaches the data the result is zero. If the first remaining tap starts after the first
// element, the data is sliced.
// CHECK-LABEL: func.func @unseen
// CHECK-NEXT: %[[Z:.*]] = graph.constant dense<0.000000e+00> : tensor<1x8x8x4xf32>
// CHECK-NEXT: %[[X:.*]] = graph.slice %x {starts = [0, 0, 0, 2]} : tensor<1x4x8x1xf32>
// CHECK-NEXT: %[[W:.*]] = graph.slice %w {starts = [0, 0, 0, 1]} : tensor<8x4x2x1xf32>
// CHECK-NEXT: graph.conv %[[X]], %[[W]] {{.*}} : tensor<1x8x7x1xf32>
func.func @unseen(%x: tensor<1x4x8x4xf32>, %w: tensor<8x4x2x2xf32>) -> (tensor<1x8x8x4xf32>, tensor<1x8x7x1xf32>) {
  %0 = graph.conv %x, %w {pads = [9, 9, 9, 9], dilations = [18, 18]} : tensor<1x8x8x4xf32>
  %1 = graph.conv %x, %w {pads = [0, 2, 0, 0], dilations = [1, 4], strides = [1, 2]} : tensor<1x8x7x1xf32>
  return %0, %1 : tensor<1x8x8x4xf32>, tensor<1x8x7x1xf32>
}

// A concatenation of consecutive slices of one tensor is the tensor, or one slice of it.
// CHECK-LABEL: func.func @joined_again
// CHECK-NEXT:    %[[A:.*]] = graph.reshape %x : tensor<3x8xf32>
// CHECK-NEXT:    %[[B:.*]] = graph.slice %x {starts = [1, 0, 0]} : tensor<2x1x8xf32>
// CHECK-NEXT:    %[[C:.*]] = graph.reshape %[[B]] : tensor<2x8xf32>
// CHECK-NEXT:    return %[[A]], %[[C]]
func.func @joined_again(%x: tensor<3x1x8xf32>) -> (tensor<3x8xf32>, tensor<2x8xf32>) {
  %0 = graph.slice %x {starts = [0, 0, 0]} : tensor<1x1x8xf32>
  %1 = graph.slice %x {starts = [1, 0, 0]} : tensor<1x1x8xf32>
  %2 = graph.slice %x {starts = [2, 0, 0]} : tensor<1x1x8xf32>
  %3 = graph.reshape %0 : tensor<1x8xf32>
  %4 = graph.reshape %1 : tensor<1x8xf32>
  %5 = graph.reshape %2 : tensor<1x8xf32>
  %6 = graph.concat %3, %4, %5 {axis = 0} : tensor<3x8xf32>
  %7 = graph.concat %4, %5 {axis = 0} : tensor<2x8xf32>
  return %6, %7 : tensor<3x8xf32>, tensor<2x8xf32>
}

// Concatenations of slices out of order, of several tensors, with gaps, or along an inner axis
// stay.
// CHECK-LABEL: func.func @joined_anew
// CHECK-COUNT-4: graph.concat
func.func @joined_anew(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>)
    -> (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>, tensor<4x8xf32>) {
  %0 = graph.slice %x {starts = [0, 0]} : tensor<1x8xf32>
  %1 = graph.slice %x {starts = [1, 0]} : tensor<1x8xf32>
  %2 = graph.slice %y {starts = [1, 0]} : tensor<1x8xf32>
  %3 = graph.slice %x {starts = [2, 0]} : tensor<1x8xf32>
  %4 = graph.slice %x {starts = [0, 0]} : tensor<4x4xf32>
  %5 = graph.slice %x {starts = [0, 4]} : tensor<4x4xf32>
  %6 = graph.concat %1, %0 {axis = 0} : tensor<2x8xf32>
  %7 = graph.concat %0, %2 {axis = 0} : tensor<2x8xf32>
  %8 = graph.concat %0, %3 {axis = 0} : tensor<2x8xf32>
  %9 = graph.concat %4, %5 {axis = 1} : tensor<4x8xf32>
  return %6, %7, %8, %9 : tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>, tensor<4x8xf32>
}
