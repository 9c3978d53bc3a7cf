// RUN: tcopt %s --parsing-diagnostics --verify-diagnostics --split-input-file | filecheck %s

// A symbol needs a range.
// CHECK: with the range of a size, as in n[1:512]
func.func private @f(tensor<8xf32, #size.dims<n>>)

// -----

// A range is not empty.
// CHECK: size 'n' cannot have the range 8..1
func.func private @f(tensor<8xf32, #size.dims<n[8:1]>>)

// -----

// A call gives each size.
te.func @f(%x: tensor<8xf32, #size.dims<s0[1:8]>>, %s0: index)
    -> tensor<8xf32, #size.dims<s0[1:8]>> attributes {size.symbols = #size.dims<s0[1:8]>} {
  te.return %x : tensor<8xf32, #size.dims<s0[1:8]>>
}
func.func @main(%x: tensor<8xf32, #size.dims<n[1:8]>>) {
  // CHECK: @f has 1 sizes, but 0 are given
  %y = te.call @f(%x)
    : (tensor<8xf32, #size.dims<n[1:8]>>) -> tensor<8xf32, #size.dims<n[1:8]>>
  func.return
}

// -----

// A size is in the range of the function's.
te.func @f(%x: tensor<8xf32, #size.dims<s0[1:8]>>, %s0: index)
    -> tensor<8xf32, #size.dims<s0[1:8]>> attributes {size.symbols = #size.dims<s0[1:8]>} {
  te.return %x : tensor<8xf32, #size.dims<s0[1:8]>>
}
func.func @main(%x: tensor<9xf32, #size.dims<n[1:9]>>) {
  // CHECK: size 's0' of @f has to be in s0[1:8], but n is in 1..9
  %y = te.call @f(%x) sizes <n[1:9]>
    : (tensor<9xf32, #size.dims<n[1:9]>>) -> tensor<9xf32, #size.dims<n[1:9]>>
  func.return
}

// -----

// The types are the function's with the given sizes.
te.func @f(%x: tensor<8xf32, #size.dims<s0[1:8]>>, %s0: index)
    -> tensor<8xf32, #size.dims<s0[1:8]>> attributes {size.symbols = #size.dims<s0[1:8]>} {
  te.return %x : tensor<8xf32, #size.dims<s0[1:8]>>
}
func.func @main(%x: tensor<8xf32, #size.dims<n[1:8]>>, %m: tensor<8xf32, #size.dims<m[1:8]>>) {
  // CHECK: @f has type (tensor<8xf32, #size.dims<m[1:8]>>) -> tensor<8xf32, #size.dims<m[1:8]>>, but is called with
  %y = te.call @f(%x) sizes <m[1:8]>
    : (tensor<8xf32, #size.dims<n[1:8]>>) -> tensor<8xf32, #size.dims<n[1:8]>>
  func.return
}
