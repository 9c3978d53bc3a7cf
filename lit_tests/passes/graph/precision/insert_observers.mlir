// RUN: tcopt %s -p 'insert-observers{keep=1 axes="all"}' | filecheck %s
// RUN: tcopt %s -p 'insert-observers{keep=1 statistics=mean,histogram axes="-1" bins=64}' | filecheck %s --check-prefix=CHANNEL
// RUN: not tcopt %s -p 'insert-observers{keep=1 axes="7"}' 2>&1 | filecheck %s --check-prefix=AXIS
// RUN: not tcopt %s -p 'insert-observers{keep=1 axes="0","1"}' 2>&1 | filecheck %s --check-prefix=COUNT
// RUN: not tcopt %s -p 'insert-observers{statistics=median}' 2>&1 | filecheck %s --check-prefix=STATISTIC

// Observing the second result adds its minimum and maximum; an index check stays the last result.
// CHECK:       module attributes {{.*}}"y", "r:minimum", "r:maximum", "refused"
// CHECK:       func.func @main({{.*}}) -> (tensor<2x3xf32>, tensor<f32>, tensor<f32>, tensor<1xi1>)
// CHECK:         %[[LOW:.*]] = graph.reduce %r {kind = min, axes = [0, 1]} : tensor<f32>
// CHECK:         %[[HIGH:.*]] = graph.reduce %r {kind = max, axes = [0, 1]} : tensor<f32>
// CHECK:         func.return %y, %[[LOW]], %[[HIGH]], %refused

// A mean for each index along an axis, and a histogram of all elements within given limits.
// CHANNEL:     %[[MEAN:.*]] = graph.reduce %r {kind = mean, axes = [0]} : tensor<3xf32>
// CHANNEL:     %[[LOW:.*]] = graph.reduce %r {kind = min, axes = [0, 1]} : tensor<f32>
// CHANNEL:     %[[HIGH:.*]] = graph.reduce %r {kind = max, axes = [0, 1]} : tensor<f32>
// CHANNEL:     %[[COUNTS:.*]] = graph.histogram %r, %[[LOW]], %[[HIGH]] {bins = 64} : tensor<64xi32>
// CHANNEL:     func.return %y, %[[MEAN]], %[[COUNTS]], %refused

// An axis outside the result's rank is rejected.
// AXIS: tensor<2x3xf32> has no axis 7

// Each observed result needs an axis.
// COUNT: 2 axes for 1 observed results

// An unknown statistic is reported by name.
// STATISTIC: there is no statistic 'median'
module attributes {graph.outputs = ["y", "r", "refused"], graph.checks = 1 : i64} {
  func.func @main(%x: tensor<2x3xf32>, %i: tensor<4xi64>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<1xi1>) {
    %r = graph.relu %x : tensor<2x3xf32>
    %y = graph.sigmoid %r : tensor<2x3xf32>
    %refused = graph.out_of_bounds %i {low = 0, high = 3} : tensor<1xi1>
    return %y, %r, %refused : tensor<2x3xf32>, tensor<2x3xf32>, tensor<1xi1>
  }
}
