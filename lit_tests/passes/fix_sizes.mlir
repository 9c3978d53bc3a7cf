// RUN: tcopt %s -p 'fix-sizes{n=5}' | filecheck %s
// RUN: tcopt %s -p 'fix-sizes{n=5 m=4}' | filecheck %s --check-prefix=BOTH
// RUN: not tcopt %s -p 'fix-sizes{n=9}' 2>&1 | filecheck %s --check-prefix=RANGE
// RUN: not tcopt %s -p 'fix-sizes{k=9}' 2>&1 | filecheck %s --check-prefix=NAME

// RANGE: size 'n' is n[1:8], it cannot be 9
// NAME: the module has no size 'k'; its sizes are n, m

// Functions are specialised for the sizes of each call; sizes without a number stay.
// CHECK:      te.func @reverse(%x: tensor<10xf32>) -> tensor<10xf32> {
// CHECK-NEXT:   %y = te.compute "y" [%i = 10] : tensor<10xf32> {
// CHECK-NEXT:     te.read %x[%i * -1 + 9] : tensor<10xf32>
// CHECK-NEXT:     arith.constant 10 : index
// CHECK:      te.func @reverse_1(%x: tensor<5xf32>) -> tensor<5xf32> {
// CHECK-NEXT:   %y = te.compute "y" [%i = 5] : tensor<5xf32> {
// CHECK:      te.func @sums(%x: tensor<16x5xf32, #size.dims<s0[1:16], 5>>, %s0: index)
// CHECK-SAME:   attributes {size.symbols = #size.dims<s0[1:16]>}
// CHECK-NEXT:   te.compute "y" [%i = s0[1:16]] reduce [%k = 5] sum
// CHECK:      func.func @main(%x: tensor<10xf32>, %z: tensor<5xf32>, %t: tensor<16x5xf32, #size.dims<m[1:16], 5>>)
// CHECK-SAME:   attributes {size.symbols = #size.dims<m[1:16]>}
// CHECK-NEXT:   te.call @reverse(%x) : (tensor<10xf32>) -> tensor<10xf32>
// CHECK-NEXT:   te.call @reverse_1(%z) : (tensor<5xf32>) -> tensor<5xf32>
// CHECK-NEXT:   te.call @sums(%t) sizes <m[1:16]> : (tensor<16x5xf32, #size.dims<m[1:16], 5>>) -> tensor<16xf32, #size.dims<m[1:16]>>

// BOTH: te.func @sums(%x: tensor<4x5xf32>) -> tensor<4xf32> {
// BOTH-NOT: size.
te.func @reverse(%x: tensor<16xf32, #size.dims<s0[1:16]>>, %s0: index) -> tensor<16xf32, #size.dims<s0[1:16]>>
    attributes {size.symbols = #size.dims<s0[1:16]>} {
  %y = te.compute "y" [%i = s0[1:16]] : tensor<16xf32, #size.dims<s0[1:16]>> {
    %0 = te.read %x[%s0 - 1 - %i] : tensor<16xf32, #size.dims<s0[1:16]>>
    %1 = arith.index_cast %s0 : index to i32
    %2 = arith.sitofp %1 : i32 to f32
    %3 = arith.divf %0, %2 : f32
    te.yield %3 : f32
  }
  te.return %y : tensor<16xf32, #size.dims<s0[1:16]>>
}
te.func @sums(%x: tensor<16x8xf32, #size.dims<s0[1:16], s1[1:8]>>, %s0: index, %s1: index)
    -> tensor<16xf32, #size.dims<s0[1:16]>> attributes {size.symbols = #size.dims<s0[1:16], s1[1:8]>} {
  %y = te.compute "y" [%i = s0[1:16]] reduce [%k = s1[1:8]] sum : tensor<16xf32, #size.dims<s0[1:16]>> {
    %0 = te.read %x[%i, %k] : tensor<16x8xf32, #size.dims<s0[1:16], s1[1:8]>>
    te.yield %0 : f32
  }
  te.return %y : tensor<16xf32, #size.dims<s0[1:16]>>
}
func.func @main(%x: tensor<16xf32, #size.dims<2 * n[1:8]>>, %z: tensor<8xf32, #size.dims<n[1:8]>>,
    %t: tensor<16x8xf32, #size.dims<m[1:16], n[1:8]>>)
    -> (tensor<16xf32, #size.dims<2 * n[1:8]>>, tensor<8xf32, #size.dims<n[1:8]>>)
    attributes {size.symbols = #size.dims<n[1:8], m[1:16]>} {
  %y = te.call @reverse(%x) sizes <2 * n[1:8]>
    : (tensor<16xf32, #size.dims<2 * n[1:8]>>) -> tensor<16xf32, #size.dims<2 * n[1:8]>>
  %0 = te.call @reverse(%z) sizes <n[1:8]>
    : (tensor<8xf32, #size.dims<n[1:8]>>) -> tensor<8xf32, #size.dims<n[1:8]>>
  %1 = te.call @sums(%t) sizes <m[1:16], n[1:8]>
    : (tensor<16x8xf32, #size.dims<m[1:16], n[1:8]>>) -> tensor<16xf32, #size.dims<m[1:16]>>
  func.return %y, %0 : tensor<16xf32, #size.dims<2 * n[1:8]>>, tensor<8xf32, #size.dims<n[1:8]>>
}
