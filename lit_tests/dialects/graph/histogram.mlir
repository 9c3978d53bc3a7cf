// RUN: tcopt %s | tcopt | filecheck %s
// RUN: tcopt %s -p lower-graph-to-te,lower-te-to-loop --verify-each=exec | filecheck %s --check-prefix=LOOP

// A histogram with equal bins over a range prints and parses.
// CHECK: graph.histogram %x, %low, %high {bins = 16} : tensor<16xi32>

// The operator gets a kernel of its own, whose counts match the operator.
// LOOP: loop.func @histogram
func.func @main(%x: tensor<5x7xf32>, %low: tensor<f32>, %high: tensor<f32>) -> tensor<16xi32> {
  %h = graph.histogram %x, %low, %high {bins = 16} : tensor<16xi32>
  return %h : tensor<16xi32>
}
