// RUN: tcopt %s | tcopt | filecheck %s
// RUN: tcopt %s -p lower-graph-to-te,lower-te-to-loop --verify-each=exec | filecheck %s --check-prefix=LOOP

// Counts of equal parts of a range print and parse.
// CHECK: graph.histogram %x, %low, %high {bins = 16} : tensor<16xi32>

// It is a kernel of its own, which counts what the operator says.
// LOOP: loop.func @histogram
func.func @main(%x: tensor<5x7xf32>, %low: tensor<f32>, %high: tensor<f32>) -> tensor<16xi32> {
  %h = graph.histogram %x, %low, %high {bins = 16} : tensor<16xi32>
  return %h : tensor<16xi32>
}
