// RUN: tcopt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s

// A read must be in bounds for every value of the size, not only for its upper bound.
// CHECK: index 0 ranges over [0, 7], outside of [0, s0 - 1]; add a default with 'else' or correct the index
te.func @bound(%x: tensor<8xf32, #size.dims<s0[1:8]>>, %s0: index) -> tensor<8xf32>
    attributes {size.symbols = #size.dims<s0[1:8]>} {
  %0 = te.compute "y" [%i = 8] : tensor<8xf32> {
    %1 = te.read %x[%i] : tensor<8xf32, #size.dims<s0[1:8]>>
    te.yield %1 : f32
  }
  te.return %0 : tensor<8xf32>
}

// -----

// CHECK: index 0 ranges over [1, s0], outside of [0, s0 - 1]
te.func @shifted(%x: tensor<8xf32, #size.dims<s0[1:8]>>, %s0: index) -> tensor<8xf32, #size.dims<s0[1:8]>>
    attributes {size.symbols = #size.dims<s0[1:8]>} {
  %0 = te.compute "y" [%i = s0[1:8]] : tensor<8xf32, #size.dims<s0[1:8]>> {
    %1 = te.read %x[%i + 1] : tensor<8xf32, #size.dims<s0[1:8]>>
    te.yield %1 : f32
  }
  te.return %0 : tensor<8xf32, #size.dims<s0[1:8]>>
}

// -----

// An index computed from data must be limited by the size.
// CHECK: index 0 is computed from data and ranges over [0, 7]; limit it to [0, s0 - 1]
te.func @computed(%x: tensor<8xf32, #size.dims<s0[1:8]>>, %rows: tensor<4xi64>, %s0: index) -> tensor<4xf32>
    attributes {size.symbols = #size.dims<s0[1:8]>} {
  %0 = te.compute "y" [%i = 4] : tensor<4xf32> {
    %row = te.read %rows[%i] : tensor<4xi64>
    %1 = arith.index_cast %row : i64 to index
    %2 = arith.constant 0 : index
    %3 = arith.maxsi %1, %2 : index
    %4 = arith.constant 7 : index
    %5 = arith.minsi %3, %4 : index
    %6 = te.read %x[%5] : tensor<8xf32, #size.dims<s0[1:8]>>
    te.yield %6 : f32
  }
  te.return %0 : tensor<4xf32>
}

// -----

// A function has an argument for each of its sizes.
// CHECK: the last 1 arguments must be the sizes, as index
te.func @missing(%x: tensor<8xf32, #size.dims<s0[1:8]>>) -> tensor<8xf32, #size.dims<s0[1:8]>>
    attributes {size.symbols = #size.dims<s0[1:8]>} {
  te.return %x : tensor<8xf32, #size.dims<s0[1:8]>>
}

// -----

// An axis has a size of the function, with the same range.
// CHECK: an axis has the extent s0, but 's0' with this range is not a size of the function
te.func @range(%x: tensor<8xf32, #size.dims<s0[1:8]>>, %s0: index) -> tensor<8xf32, #size.dims<s0[1:8]>>
    attributes {size.symbols = #size.dims<s0[1:8]>} {
  %0 = te.compute "y" [%i = s0[1:9]] : tensor<9xf32, #size.dims<s0[1:9]>> {
    %1 = te.read %x[0] : tensor<8xf32, #size.dims<s0[1:8]>>
    te.yield %1 : f32
  }
  te.return %x : tensor<8xf32, #size.dims<s0[1:8]>>
}

// -----

// The result has the extents of the axes.
// CHECK: stage "y" has axes [s0] but result shape [8]
te.func @shape(%x: tensor<8xf32, #size.dims<s0[1:8]>>, %s0: index) -> tensor<8xf32>
    attributes {size.symbols = #size.dims<s0[1:8]>} {
  %0 = te.compute "y" [%i = s0[1:8]] : tensor<8xf32> {
    %1 = te.read %x[%i] : tensor<8xf32, #size.dims<s0[1:8]>>
    te.yield %1 : f32
  }
  te.return %0 : tensor<8xf32>
}
