// RUN: tcopt %s | filecheck %s
// RUN: tcopt %s -p "fix-sizes{n=3}" | filecheck %s --check-prefix=FIXED
// RUN: tcopt %s -p lower-graph-to-te,lower-te-to-loop | filecheck %s --check-prefix=LOOP

// The trip count of a scan may be a size; `trip` has its upper bound.

func.func private @step(%h: tensor<1x8xf32>, %x: tensor<1x8xf32>) -> (tensor<1x8xf32>, tensor<1x8xf32>) {
  %s = graph.add %h, %x : tensor<1x8xf32>
  func.return %s, %s : tensor<1x8xf32>, tensor<1x8xf32>
}

// CHECK-LABEL: func.func @main
// CHECK: graph.scan @step(%h0, %xs) {trip = 5, states = 1, scanned = 1, reverse} sizes <n[0:5]>
// CHECK-SAME: -> (tensor<1x8xf32>, tensor<5x1x8xf32, #size.dims<n[0:5], 1, 8>>)
// FIXED-LABEL: func.func @main
// FIXED: graph.scan @step(%h0, %xs) {trip = 3, states = 1, scanned = 1, reverse} : (tensor<1x8xf32>, tensor<3x1x8xf32>)
// LOOP-LABEL: func.func @main
// LOOP-SAME: %n: index
// LOOP: scf.for %t = %{{.*}} to %n step
// LOOP: {size.trip = #size.dims<n[0:5]>}
func.func @main(%xs: tensor<5x1x8xf32, #size.dims<n[0:5], 1, 8>>, %h0: tensor<1x8xf32>) -> (tensor<1x8xf32>, tensor<5x1x8xf32, #size.dims<n[0:5], 1, 8>>) attributes {size.symbols = #size.dims<n[0:5]>} {
  %h, %ys = graph.scan @step(%h0, %xs) {trip = 5, states = 1, scanned = 1, reverse} sizes <n[0:5]> : (tensor<1x8xf32>, tensor<5x1x8xf32, #size.dims<n[0:5], 1, 8>>) -> (tensor<1x8xf32>, tensor<5x1x8xf32, #size.dims<n[0:5], 1, 8>>)
  func.return %h, %ys : tensor<1x8xf32>, tensor<5x1x8xf32, #size.dims<n[0:5], 1, 8>>
}
