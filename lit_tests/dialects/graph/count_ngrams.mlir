// RUN: tcopt %s | tcopt | filecheck %s
// RUN: tcopt %s -p lower-graph-to-te,lower-te-to-loop --verify-each=exec | filecheck %s --check-prefix=LOOP

// N-gram counts over a trie print and parse.
// CHECK: graph.count_ngrams %rows, %children, %words, %columns {width = 3, depth = 2, distances = 2} : tensor<2x3xf32>

// The operator gets a kernel of its own. The root has children for words 4 and 7, and 7 follows 4.
// LOOP: loop.func @count_ngrams
func.func @main(%rows: tensor<2x6xi64>) -> tensor<2x3xf32> {
  %children = graph.constant dense<[[1, 3, 2], [3, 4, 1], [4, 4, 0], [4, 4, 0]]> : tensor<4x3xi32>
  %words = graph.constant dense<[0, 4, 7, 7]> : tensor<4xi64>
  %columns = graph.constant dense<[-1, 0, 2, 1]> : tensor<4xi32>
  %y = graph.count_ngrams %rows, %children, %words, %columns {width = 3, depth = 2, distances = 2} : tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}
