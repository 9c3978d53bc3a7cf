// RUN: tcopt %s --verify-diagnostics --split-input-file | filecheck %s

// CHECK: defines one size, not #size.dims<2 * n[0:4]>
func.func @expression(%count: tensor<1xi64>) {
  %n = size.define %count as <2 * n[0:4]> : tensor<1xi64>
  func.return
}

// -----

// CHECK: the size is one integer, not a tensor<2xi64>
func.func @two(%count: tensor<2xi64>) {
  %n = size.define %count as <n[0:4]> : tensor<2xi64>
  func.return
}

// -----

// CHECK: the size is one integer, not a tensor<1xf32>
func.func @float(%count: tensor<1xf32>) {
  %n = size.define %count as <n[0:4]> : tensor<1xf32>
  func.return
}

// -----

// CHECK: 'n' is an argument of the function
func.func @argument(%count: tensor<1xi64>, %x: tensor<4xf32, #size.dims<n[1:4]>>)
    attributes {size.symbols = #size.dims<n[1:4]>} {
  %n = size.define %count as <n[1:4]> : tensor<1xi64>
  func.return
}

// -----

// CHECK: 'n' is defined twice
func.func @twice(%count: tensor<1xi64>) {
  %n = size.define %count as <n[0:4]> : tensor<1xi64>
  %m = size.define %count as <n[0:4]> : tensor<1xi64>
  func.return
}

// -----

// CHECK: 'n' is defined after an op that has it
func.func @late(%count: tensor<1xi64>, %x: tensor<4xf32>) {
  %y = graph.slice %x {starts = [0]} : tensor<4xf32, #size.dims<n[0:4]>>
  %n = size.define %count as <n[0:4]> : tensor<1xi64>
  func.return
}
