// RUN: tcopt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s

// Words must be 64-bit integers.
// CHECK: words must be i64
func.func @words(%r: tensor<2x6xi32>, %c: tensor<4x3xi32>, %w: tensor<4xi64>, %n: tensor<4xi32>) {
  %0 = graph.count_ngrams %r, %c, %w, %n {width = 3, depth = 2, distances = 2} : tensor<2x3xf32>
  return
}

// -----

// Every node needs a range of children.
// CHECK: are not rows and a trie
func.func @nodes(%r: tensor<2x6xi64>, %c: tensor<3x3xi32>, %w: tensor<4xi64>, %n: tensor<4xi32>) {
  %0 = graph.count_ngrams %r, %c, %w, %n {width = 3, depth = 2, distances = 2} : tensor<2x3xf32>
  return
}

// -----

// Skip distances between words must be at least 1.
// CHECK: distances must be at least 1, got 0
func.func @apart(%r: tensor<2x6xi64>, %c: tensor<4x3xi32>, %w: tensor<4xi64>, %n: tensor<4xi32>) {
  %0 = graph.count_ngrams %r, %c, %w, %n {width = 3, depth = 2, distances = 0} : tensor<2x3xf32>
  return
}
