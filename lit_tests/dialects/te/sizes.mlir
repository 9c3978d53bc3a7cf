// RUN: tcopt %s | tcopt | filecheck %s
// RUN: tcopt %s --print-op-generic | tcopt | filecheck %s

// Axes may have sizes as extents. The last arguments of a function are the values of its sizes.
// CHECK-LABEL: te.func @softmax(%x: tensor<8x16xf32, #size.dims<s0[1:8], s1[1:16]>>, %s0: index, %s1: index)
// CHECK-SAME:    attributes {size.symbols = #size.dims<s0[1:8], s1[1:16]>}
// CHECK-NEXT:    te.compute "sum" [%i = s0[1:8]] reduce [%k = s1[1:16]] sum : tensor<8xf32, #size.dims<s0[1:8]>> {
// CHECK-NEXT:      te.read %x[%i, %k] : tensor<8x16xf32, #size.dims<s0[1:8], s1[1:16]>>
// CHECK:         te.compute "y" [%i = s0[1:8], %j = s1[1:16]] : tensor<8x16xf32, #size.dims<s0[1:8], s1[1:16]>> {
te.func @softmax(%x: tensor<8x16xf32, #size.dims<s0[1:8], s1[1:16]>>, %s0: index, %s1: index)
    -> tensor<8x16xf32, #size.dims<s0[1:8], s1[1:16]>>
    attributes {size.symbols = #size.dims<s0[1:8], s1[1:16]>} {
  %sum = te.compute "sum" [%i = s0[1:8]] reduce [%k = s1[1:16]] sum : tensor<8xf32, #size.dims<s0[1:8]>> {
    %0 = te.read %x[%i, %k] : tensor<8x16xf32, #size.dims<s0[1:8], s1[1:16]>>
    te.yield %0 : f32
  }
  %y = te.compute "y" [%i = s0[1:8], %j = s1[1:16]] : tensor<8x16xf32, #size.dims<s0[1:8], s1[1:16]>> {
    %0 = te.read %x[%i, %j] : tensor<8x16xf32, #size.dims<s0[1:8], s1[1:16]>>
    %1 = te.read %sum[%i] : tensor<8xf32, #size.dims<s0[1:8]>>
    %2 = arith.divf %0, %1 : f32
    te.yield %2 : f32
  }
  te.return %y : tensor<8x16xf32, #size.dims<s0[1:8], s1[1:16]>>
}

// Indices may use a size; the ends of axes cancel with it.
// CHECK-LABEL: te.func @reverse
// CHECK:         te.read %x[%s0 - 1 + %i * -1] : tensor<8xf32, #size.dims<s0[1:8]>>
te.func @reverse(%x: tensor<8xf32, #size.dims<s0[1:8]>>, %s0: index) -> tensor<8xf32, #size.dims<s0[1:8]>>
    attributes {size.symbols = #size.dims<s0[1:8]>} {
  %y = te.compute "y" [%i = s0[1:8]] : tensor<8xf32, #size.dims<s0[1:8]>> {
    %0 = te.read %x[%s0 - 1 - %i] : tensor<8xf32, #size.dims<s0[1:8]>>
    te.yield %0 : f32
  }
  te.return %y : tensor<8xf32, #size.dims<s0[1:8]>>
}

// The windows of a strided convolution.
// CHECK-LABEL: te.func @windows
// CHECK:         te.compute "y" [%i = (s0[3:64] + 1) floordiv 2 - 1] reduce [%k = 3] sum
te.func @windows(%x: tensor<64xf32, #size.dims<s0[3:64]>>, %s0: index)
    -> tensor<31xf32, #size.dims<(s0[3:64] - 1) floordiv 2>>
    attributes {size.symbols = #size.dims<s0[3:64]>} {
  %y = te.compute "y" [%i = (s0[3:64] - 3) floordiv 2 + 1] reduce [%k = 3] sum : tensor<31xf32, #size.dims<(s0[3:64] - 1) floordiv 2>> {
    %0 = te.read %x[%i * 2 + %k] : tensor<64xf32, #size.dims<s0[3:64]>>
    te.yield %0 : f32
  }
  te.return %y : tensor<31xf32, #size.dims<(s0[3:64] - 1) floordiv 2>>
}

// An index computed from data is limited to the last element.
// CHECK-LABEL: te.func @gather
te.func @gather(%x: tensor<8xf32, #size.dims<s0[1:8]>>, %rows: tensor<4xi64>, %s0: index) -> tensor<4xf32>
    attributes {size.symbols = #size.dims<s0[1:8]>} {
  %y = te.compute "y" [%i = 4] : tensor<4xf32> {
    %row = te.read %rows[%i] : tensor<4xi64>
    %0 = arith.index_cast %row : i64 to index
    %1 = arith.constant 0 : index
    %2 = arith.maxsi %0, %1 : index
    %3 = te.index [%s0 - 1]
    %4 = arith.minsi %2, %3 : index
    %5 = te.read %x[%4] : tensor<8xf32, #size.dims<s0[1:8]>>
    te.yield %5 : f32
  }
  te.return %y : tensor<4xf32>
}
