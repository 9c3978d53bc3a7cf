// RUN: tcopt %s --verify-diagnostics --split-input-file | filecheck %s

// A value read from data may be anything, so it must be limited before it is an index.
// CHECK: index 0 is computed from data and may be any number; limit it to [0, 7], or add a default with 'else'
te.func @any(%x: tensor<8xf32>, %rows: tensor<4xi64>) -> tensor<4xf32> {
  %0 = te.compute "gather" [%i = 4] : tensor<4xf32> {
    %row = te.read %rows[%i] : tensor<4xi64>
    %at = arith.index_cast %row : i64 to index
    %e = te.read %x[%at] : tensor<8xf32>
    te.yield %e : f32
  }
  te.return %0 : tensor<4xf32>
}

// -----

// A lower or upper bound alone is not enough.
// CHECK: index 0 is computed from data and may be any number
te.func @above(%x: tensor<8xf32>, %rows: tensor<4xi64>) -> tensor<4xf32> {
  %0 = te.compute "gather" [%i = 4] : tensor<4xf32> {
    %row = te.read %rows[%i] : tensor<4xi64>
    %last = arith.constant 7 : i64
    %near = arith.minsi %row, %last : i64
    %at = arith.index_cast %near : i64 to index
    %e = te.read %x[%at] : tensor<8xf32>
    te.yield %e : f32
  }
  te.return %0 : tensor<4xf32>
}

// -----

// An upper bound that is too high by one is rejected.
// CHECK: index 0 is computed from data and ranges over [0, 8]; limit it to [0, 7]
te.func @close(%x: tensor<8xf32>, %rows: tensor<4xi64>) -> tensor<4xf32> {
  %0 = te.compute "gather" [%i = 4] : tensor<4xf32> {
    %row = te.read %rows[%i] : tensor<4xi64>
    %first = arith.constant 0 : i64
    %last = arith.constant 8 : i64
    %least = arith.maxsi %row, %first : i64
    %near = arith.minsi %least, %last : i64
    %at = arith.index_cast %near : i64 to index
    %e = te.read %x[%at] : tensor<8xf32>
    te.yield %e : f32
  }
  te.return %0 : tensor<4xf32>
}

// -----

// maximumf propagates nan, so a clamped float that may be nan has no known range as an integer.
// CHECK: index 0 is computed from data and ranges over [-2147483648, 2147483647]
te.func @nan(%x: tensor<8xf32>, %places: tensor<4xf32>) -> tensor<4xf32> {
  %0 = te.compute "sample" [%i = 4] : tensor<4xf32> {
    %place = te.read %places[%i] : tensor<4xf32>
    %first = arith.constant 0.0 : f32
    %last = arith.constant 7.0 : f32
    %least = arith.maximumf %place, %first : f32
    %near = arith.minimumf %least, %last : f32
    %number = arith.fptosi %near : f32 to i32
    %at = arith.index_cast %number : i32 to index
    %e = te.read %x[%at] : tensor<8xf32>
    te.yield %e : f32
  }
  te.return %0 : tensor<4xf32>
}

// -----

// Ordered comparisons exclude nan. Selects under combined conditions, remainders, narrow types,
// Booleans and defaults bound an index too.
// CHECK-LABEL: te.func @limited
te.func @limited(%x: tensor<8xf32>, %y: tensor<256xf32>, %places: tensor<4xf32>, %rows: tensor<4xi64>, %codes: tensor<4xi8>, %bits: tensor<4xi1>) -> tensor<4xf32> {
  %0 = te.compute "sample" [%i = 4] : tensor<4xf32> {
    %place = te.read %places[%i] : tensor<4xf32>
    %low = arith.constant 0.0 : f32
    %high = arith.constant 7.0 : f32
    %positive = arith.cmpf ogt, %place, %low : f32
    %least = arith.select %positive, %place, %low : f32
    %near = arith.minimumf %least, %high : f32
    %number = arith.fptosi %near : f32 to i32
    %a = arith.index_cast %number : i32 to index
    %0 = te.read %x[%a] : tensor<8xf32>
    %row = te.read %rows[%i] : tensor<4xi64>
    %zero = arith.constant 0 : i64
    %eight = arith.constant 8 : i64
    %above = arith.cmpi sge, %row, %zero : i64
    %below = arith.cmpi slt, %row, %eight : i64
    %inside = arith.andi %above, %below : i1
    %chosen = arith.select %inside, %row, %zero : i64
    %b = arith.index_cast %chosen : i64 to index
    %1 = te.read %x[%b] : tensor<8xf32>
    %rest = arith.remui %row, %eight : i64
    %c = arith.index_cast %rest : i64 to index
    %2 = te.read %x[%c] : tensor<8xf32>
    %code = te.read %codes[%i] : tensor<4xi8>
    %d = arith.index_castui %code : i8 to index
    %3 = te.read %y[%d] : tensor<256xf32>
    %bit = te.read %bits[%i] : tensor<4xi1>
    %wide = arith.extui %bit : i1 to i64
    %e = arith.index_cast %wide : i64 to index
    %4 = te.read %x[%e * 4 + %i] : tensor<8xf32>
    %f = arith.index_cast %row : i64 to index
    %5 = te.read %x[%f] else 0.0 : tensor<8xf32>
    %s0 = arith.addf %0, %1 : f32
    %s1 = arith.addf %s0, %2 : f32
    %s2 = arith.addf %s1, %3 : f32
    %s3 = arith.addf %s2, %4 : f32
    %s4 = arith.addf %s3, %5 : f32
    te.yield %s4 : f32
  }
  te.return %0 : tensor<4xf32>
}
