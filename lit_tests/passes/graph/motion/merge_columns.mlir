// RUN: tcopt %s -p fold-constants,merge-columns,canonicalize --split-input-file | filecheck %s
// RUN: tcopt %s -p fold-constants,merge-columns --split-input-file --verify-each=exec 2>&1 >/dev/null | filecheck %s --check-prefix=EXEC
// EXEC: merge-columns: same values
// EXEC: merge-columns: same values
// EXEC-NOT: not run

// Queries and values are split into heads alike, so one product makes both, and parts are slices
// of contiguous memory. Keys are stored in another order.
// CHECK-LABEL: @heads
// CHECK:       %[[W:.*]] = graph.constant @{{.*}}.merged : tensor<32x64xf32>
// CHECK:       graph.matmul %x, %[[W]] : tensor<1x8x64xf32>
// CHECK:       graph.add
// CHECK-NEXT:  graph.reshape %{{.*}} : tensor<1x8x2x4x8xf32>
// CHECK-NEXT:  %[[ALL:.*]] = graph.transpose %{{.*}} {perm = [2, 0, 3, 1, 4]} : tensor<2x1x4x8x8xf32>
// CHECK-NEXT:  graph.slice %[[ALL]] {starts = [0, 0, 0, 0, 0]}
// CHECK:       graph.slice %[[ALL]] {starts = [1, 0, 0, 0, 0]}
// CHECK:       graph.matmul %x, %{{.*}} : tensor<1x8x32xf32>
// CHECK-NOT:   graph.matmul
func.func @heads(%x: tensor<1x8x32xf32>) -> (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) {
  %qi = graph.iota : tensor<1024xf32>
  %qs = graph.constant dense<0.01> : tensor<f32>
  %qf = graph.mul %qi, %qs : tensor<1024xf32>
  %q = graph.reshape %qf : tensor<32x32xf32>
  %ki = graph.iota : tensor<1024xf32>
  %ks = graph.constant dense<0.02> : tensor<f32>
  %kf = graph.mul %ki, %ks : tensor<1024xf32>
  %k = graph.reshape %kf : tensor<32x32xf32>
  %vi = graph.iota : tensor<1024xf32>
  %vs = graph.constant dense<0.03> : tensor<f32>
  %vf = graph.mul %vi, %vs : tensor<1024xf32>
  %v = graph.reshape %vf : tensor<32x32xf32>
  %pi = graph.iota : tensor<32xf32>
  %ps = graph.constant dense<0.04> : tensor<f32>
  %pf = graph.mul %pi, %ps : tensor<32xf32>
  %p = graph.reshape %pf : tensor<32xf32>
  %ri = graph.iota : tensor<32xf32>
  %rs = graph.constant dense<0.05> : tensor<f32>
  %rf = graph.mul %ri, %rs : tensor<32xf32>
  %r = graph.reshape %rf : tensor<32xf32>
  %0 = graph.matmul %x, %q : tensor<1x8x32xf32>
  %1 = graph.add %0, %p : tensor<1x8x32xf32>
  %2 = graph.reshape %1 : tensor<1x8x4x8xf32>
  %3 = graph.transpose %2 {perm = [0, 2, 1, 3]} : tensor<1x4x8x8xf32>
  %4 = graph.matmul %x, %k : tensor<1x8x32xf32>
  %5 = graph.reshape %4 : tensor<1x8x4x8xf32>
  %6 = graph.transpose %5 {perm = [0, 2, 3, 1]} : tensor<1x4x8x8xf32>
  %7 = graph.matmul %x, %v : tensor<1x8x32xf32>
  %9 = graph.add %7, %r : tensor<1x8x32xf32>
  %10 = graph.reshape %9 : tensor<1x8x4x8xf32>
  %11 = graph.transpose %10 {perm = [0, 2, 1, 3]} : tensor<1x4x8x8xf32>
  func.return %3, %6, %11 : tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>
}

// -----

// A gate and the values that it multiplies are followed by different ops: the products alone are one.
// Weights that another op reads stay where they are.
// CHECK-LABEL: @gated
// CHECK:       graph.matmul %x, %{{.*}} : tensor<8x32xf32>
// CHECK:       graph.transpose %{{.*}} {perm = [1, 0, 2]} : tensor<2x8x16xf32>
// CHECK:       graph.slice
// CHECK:       graph.sigmoid
// CHECK:       graph.matmul %x, %{{.*}} : tensor<8x16xf32>
func.func @gated(%x: tensor<8x32xf32>, %z: tensor<8x32xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>) {
  %vi = graph.iota : tensor<512xf32>
  %vs = graph.constant dense<0.06> : tensor<f32>
  %vf = graph.mul %vi, %vs : tensor<512xf32>
  %v = graph.reshape %vf : tensor<32x16xf32>
  %wi = graph.iota : tensor<512xf32>
  %ws = graph.constant dense<0.07> : tensor<f32>
  %wf = graph.mul %wi, %ws : tensor<512xf32>
  %w = graph.reshape %wf : tensor<32x16xf32>
  %ui = graph.iota : tensor<512xf32>
  %us = graph.constant dense<0.08> : tensor<f32>
  %uf = graph.mul %ui, %us : tensor<512xf32>
  %u = graph.reshape %uf : tensor<32x16xf32>
  %0 = graph.matmul %x, %v : tensor<8x16xf32>
  %1 = graph.sigmoid %0 : tensor<8x16xf32>
  %2 = graph.matmul %x, %w : tensor<8x16xf32>
  %3 = graph.mul %1, %2 : tensor<8x16xf32>
  %4 = graph.matmul %x, %u : tensor<8x16xf32>
  %5 = graph.matmul %z, %u : tensor<8x16xf32>
  func.return %3, %4, %5 : tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>
}
