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
func.func @late(%count: memref<1xi64>) {
  %y = memref.alloc() : memref<4xf32, #size.dims<n[0:4]>>
  %n = size.define %count as <n[0:4]> : memref<1xi64>
  func.return
}

// -----

// CHECK: sizes are defined in the body of a function only
func.func @nested(%count: memref<1xi64>, %low: index, %high: index, %step: index) {
  scf.for %i = %low to %high step %step {
    %n = size.define %count as <n[0:4]> : memref<1xi64>
  }
  func.return
}

// -----

// CHECK: 'graph.slice': n[0:4] is neither an argument of the function nor defined before
func.func @before(%count: tensor<1xi64>, %x: tensor<4xf32>) {
  %y = graph.slice %x {starts = [0]} : tensor<4xf32, #size.dims<n[0:4]>>
  %n = size.define %count as <n[0:4]> : tensor<1xi64>
  func.return
}

// -----

// CHECK: 'graph.slice': n[0:3] is neither
func.func @other_range(%count: tensor<1xi64>, %x: tensor<4xf32>) {
  %n = size.define %count as <n[0:4]> : tensor<1xi64>
  %y = graph.slice %x {starts = [0]} : tensor<3xf32, #size.dims<n[0:3]>>
  func.return
}

// -----

// CHECK: 'graph.neg': n[0:4] is neither
func.func @undeclared(%x: tensor<4xf32, #size.dims<n[0:4]>>) {
  %y = graph.neg %x : tensor<4xf32, #size.dims<n[0:4]>>
  func.return
}

// -----

// CHECK: 'graph.sizes': n[0:4] is neither
func.func @property() {
  %y = graph.sizes {values = #size.dims<n[0:4]>} : tensor<1xi64>
  func.return
}

// -----

te.func @f(%x: tensor<4xf32, #size.dims<s0[0:4]>>, %s0: index)
    -> tensor<4xf32, #size.dims<s0[0:4]>>
    attributes {size.symbols = #size.dims<s0[0:4]>} {
  te.return %x : tensor<4xf32, #size.dims<s0[0:4]>>
}

// CHECK: 'te.call': m[0:4] is neither
func.func @call(%x: tensor<4xf32, #size.dims<m[0:4]>>) {
  %y = te.call @f(%x) sizes <m[0:4]>
    : (tensor<4xf32, #size.dims<m[0:4]>>) -> tensor<4xf32, #size.dims<m[0:4]>>
  func.return
}
