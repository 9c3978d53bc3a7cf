// RUN: tcopt %s | filecheck %s
// RUN: tcopt %s | tcopt | filecheck %s

// Extents are printed in canonical form, each symbol with its range.
// CHECK-LABEL: func.func private @types
// CHECK-SAME: tensor<512x768xf32, #size.dims<n[1:512], 768>>
// CHECK-SAME: tensor<513x1024xf32, #size.dims<n[1:512] + 1, 2 * n[1:512]>>
// CHECK-SAME: memref<9x64xf32, #size.dims<(h[3:20] + 1) floordiv 2 - 1, m[16:64:16]>>
// CHECK-SAME: memref<4x64xf32, #size.dims<n[1:512] mod 4 + 1, min(n[1:512], 64)>>
func.func private @types(
  tensor<512x768xf32, #size.dims<n[1:512], 768>>,
  tensor<513x1024xf32, #size.dims<1 + n[1:512], n[1:512] * 2>>,
  memref<9x64xf32, #size.dims<(h[3:20] - 3) floordiv 2 + 1, m[16:64:16]>>,
  memref<4x64xf32, #size.dims<n[1:512] mod 4 + 1, min(n[1:512], 64)>>)

// Names that are not identifiers are quoted; the words of operators are names too.
// CHECK-LABEL: func.func private @names
// CHECK-SAME: tensor<10x8xf32, #size.dims<"größe"[1:9] + 1, mod[1:8]>>
// CHECK-SAME: tensor<4x8xf32, #size.dims<mod[1:8] floordiv 2, min(floordiv[1:9], min[1:8])>>
func.func private @names(
  tensor<10x8xf32, #size.dims<"größe"[1:9] + 1, "mod"[1:8]>>,
  tensor<4x8xf32, #size.dims<mod[1:8] floordiv 2, min(min[1:8], floordiv[1:9])>>)

te.func @double(%x: tensor<8x4xf32, #size.dims<s0[1:8], 4>>, %s0: index)
    -> tensor<8x4xf32, #size.dims<s0[1:8], 4>>
    attributes {size.symbols = #size.dims<s0[1:8]>} {
  te.return %x : tensor<8x4xf32, #size.dims<s0[1:8], 4>>
}

// A call states the value of each size of the function.
// CHECK-LABEL: func.func @main
// CHECK: te.call @double(%x) sizes <2 * n[3:4]> : (tensor<8x4xf32, #size.dims<2 * n[3:4], 4>>)
func.func @main(%x: tensor<8x4xf32, #size.dims<2 * n[3:4], 4>>)
    -> tensor<8x4xf32, #size.dims<2 * n[3:4], 4>>
    attributes {size.symbols = #size.dims<n[3:4]>} {
  %y = te.call @double(%x) sizes <2 * n[3:4]>
    : (tensor<8x4xf32, #size.dims<2 * n[3:4], 4>>) -> tensor<8x4xf32, #size.dims<2 * n[3:4], 4>>
  func.return %y : tensor<8x4xf32, #size.dims<2 * n[3:4], 4>>
}
