// RUN: tcopt %s --verify-diagnostics --split-input-file | filecheck %s

// An index check names the valid range of its operand and returns one condition.
// CHECK-LABEL: func.func @check
func.func @check(%x: tensor<4x3xi64>) -> tensor<1xi1> {
  // CHECK: graph.out_of_bounds %x {low = -100, high = 99} : tensor<1xi1>
  %0 = graph.out_of_bounds %x {low = -100, high = 99} : tensor<1xi1>
  return %0 : tensor<1xi1>
}

// -----

// Float indices are rejected.
// CHECK: takes integers, not tensor<4xf32>
func.func @floats(%x: tensor<4xf32>) -> tensor<1xi1> {
  %0 = graph.out_of_bounds %x {low = 0, high = 3} : tensor<1xi1>
  return %0 : tensor<1xi1>
}

// -----

// The operand must not be empty.
// CHECK: tensor<0xi64> has no elements
func.func @empty(%x: tensor<0xi64>) -> tensor<1xi1> {
  %0 = graph.out_of_bounds %x {low = 0, high = 3} : tensor<1xi1>
  return %0 : tensor<1xi1>
}
