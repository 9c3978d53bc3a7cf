// RUN: tcopt %s -p 'set-target{cpu=haswell},fuse-ops' | filecheck %s
// RUN: tcopt %s -p fuse-ops | filecheck %s --check-prefix=UNKNOWN
// RUN: tcopt %s -p 'set-target{target=opencl},fuse-ops' | filecheck %s --check-prefix=OPENCL

// Attention is one group if its scores do not fit L2. Targets without a rule for it, and modules
// without a target, have a group for each product.
// CHECK-LABEL: func.func @attention
// CHECK-NEXT: %[[Y:.*]] = graph.group kind = complex_out_fusable {
// CHECK-NEXT:   graph.matmul
// CHECK-NEXT:   graph.add
// CHECK-NEXT:   graph.softmax
// CHECK-NEXT:   graph.matmul
// CHECK-NEXT:   graph.transpose
// CHECK-NEXT:   graph.yield
// CHECK:      return %[[Y]]
// UNKNOWN-LABEL: func.func @attention
// UNKNOWN:      kind = complex_out_fusable
// UNKNOWN:      kind = reduction
// UNKNOWN:      kind = complex_out_fusable
// OPENCL-LABEL: func.func @attention
// OPENCL:       kind = complex_out_fusable
// OPENCL:       kind = reduction
// OPENCL:       kind = complex_out_fusable
func.func @attention(%q: tensor<12x128x64xf32>, %k: tensor<12x64x128xf32>, %v: tensor<12x128x64xf32>, %m: tensor<128xf32>) -> tensor<128x12x64xf32> {
  %0 = graph.matmul %q, %k : tensor<12x128x128xf32>
  %1 = graph.add %0, %m : tensor<12x128x128xf32>
  %2 = graph.softmax %1 {axis = 2} : tensor<12x128x128xf32>
  %3 = graph.matmul %2, %v : tensor<12x128x64xf32>
  %4 = graph.transpose %3 {perm = [1, 0, 2]} : tensor<128x12x64xf32>
  return %4 : tensor<128x12x64xf32>
}

// Scores that fit L2 are left to separate kernels.
// CHECK-LABEL: func.func @few_scores
// CHECK:       kind = reduction
func.func @few_scores(%q: tensor<16x64xf32>, %k: tensor<64x32xf32>, %v: tensor<32x64xf32>) -> tensor<16x64xf32> {
  %0 = graph.matmul %q, %k : tensor<16x32xf32>
  %1 = graph.softmax %0 {axis = 1} : tensor<16x32xf32>
  %2 = graph.matmul %1, %v : tensor<16x64xf32>
  return %2 : tensor<16x64xf32>
}

// The normalisation runs over rows, so a row of the result needs all of them.
// CHECK-LABEL: func.func @over_rows
// CHECK:       kind = reduction
func.func @over_rows(%q: tensor<12x128x64xf32>, %k: tensor<12x64x128xf32>, %v: tensor<12x128x64xf32>) -> tensor<12x128x64xf32> {
  %0 = graph.matmul %q, %k : tensor<12x128x128xf32>
  %1 = graph.softmax %0 {axis = 1} : tensor<12x128x128xf32>
  %2 = graph.matmul %1, %v : tensor<12x128x64xf32>
  return %2 : tensor<12x128x64xf32>
}

// The weights are a result as well, so they are in memory anyway.
// CHECK-LABEL: func.func @weights_returned
// CHECK:       kind = reduction
func.func @weights_returned(%q: tensor<12x128x64xf32>, %k: tensor<12x64x128xf32>, %v: tensor<12x128x64xf32>) -> (tensor<12x128x128xf32>, tensor<12x128x64xf32>) {
  %0 = graph.matmul %q, %k : tensor<12x128x128xf32>
  %1 = graph.softmax %0 {axis = 2} : tensor<12x128x128xf32>
  %2 = graph.matmul %1, %v : tensor<12x128x64xf32>
  return %1, %2 : tensor<12x128x128xf32>, tensor<12x128x64xf32>
}

// A softmax of small operators is treated like the operator.
// CHECK-LABEL: func.func @small_ops
// CHECK-NEXT: graph.group kind = complex_out_fusable {
// CHECK-NEXT:   graph.matmul
// CHECK-NOT:    kind = reduction
// CHECK:        graph.matmul
// CHECK:      return
func.func @small_ops(%q: tensor<12x128x64xf32>, %k: tensor<12x64x128xf32>, %v: tensor<12x128x64xf32>) -> tensor<12x128x64xf32> {
  %0 = graph.matmul %q, %k : tensor<12x128x128xf32>
  %1 = graph.reduce %0 {kind = max, axes = [2], keepdims} : tensor<12x128x1xf32>
  %2 = graph.sub %0, %1 : tensor<12x128x128xf32>
  %3 = graph.exp %2 : tensor<12x128x128xf32>
  %4 = graph.reduce %3 {kind = sum, axes = [2], keepdims} : tensor<12x128x1xf32>
  %w = graph.div %3, %4 : tensor<12x128x128xf32>
  %6 = graph.matmul %w, %v : tensor<12x128x64xf32>
  return %6 : tensor<12x128x64xf32>
}
