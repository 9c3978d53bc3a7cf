// RUN: tcopt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s

// A read without a default must stay in bounds.
// CHECK: index 0 ranges over [-1, 6], outside of [0, 7]; add a default with 'else' or correct the index
te.func @bounds(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = te.compute "shift" [%i = 8] : tensor<8xf32> {
    %1 = te.read %x[%i - 1] : tensor<8xf32>
    te.yield %1 : f32
  }
  te.return %0 : tensor<8xf32>
}

// -----

// A read has an index for each dimension.
// CHECK: 1 indices for a tensor of rank 2
te.func @rank(%x: tensor<8x8xf32>) -> tensor<8xf32> {
  %0 = te.compute "row" [%i = 8] : tensor<8xf32> {
    %1 = te.read %x[%i] : tensor<8x8xf32>
    te.yield %1 : f32
  }
  te.return %0 : tensor<8xf32>
}

// -----

// The result's shape is that of the axes.
// CHECK: stage "copy" has axes [4] but result shape [8]
te.func @shape(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = te.compute "copy" [%i = 4] : tensor<8xf32> {
    %1 = te.read %x[%i] : tensor<8xf32>
    te.yield %1 : f32
  }
  te.return %0 : tensor<8xf32>
}

// -----

// The body yields an element of the result.
// CHECK: the body yields f32, the result holds f64
te.func @element(%x: tensor<8xf32>) -> tensor<8xf64> {
  %0 = te.compute "copy" [%i = 8] : tensor<8xf64> {
    %1 = te.read %x[%i] : tensor<8xf32>
    te.yield %1 : f32
  }
  te.return %0 : tensor<8xf64>
}

// -----

// Stages are named apart, so that schedules can address them.
// CHECK: two stages are named "copy"
te.func @names(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = te.compute "copy" [%i = 8] : tensor<8xf32> {
    %1 = te.read %x[%i] : tensor<8xf32>
    te.yield %1 : f32
  }
  %1 = te.compute "copy" [%i = 8] : tensor<8xf32> {
    %2 = te.read %0[%i] : tensor<8xf32>
    te.yield %2 : f32
  }
  te.return %1 : tensor<8xf32>
}

// -----

// A function holds stages only.
// CHECK: te.func holds te.compute stages only, found 'arith.constant'
te.func @stray(%x: tensor<8xf32>) -> tensor<8xf32> {
  %c = arith.constant 1.0 : f32
  te.return %x : tensor<8xf32>
}

// -----

// What is returned has the types of the signature.
// CHECK: returned types differ from the function's result types
te.func @result(%x: tensor<8xf32>) -> tensor<4xf32> {
  te.return %x : tensor<8xf32>
}

// -----

// A combiner is one of a few words.
// CHECK: {{.*}}sum{{.*}}
te.func @combiner(%x: tensor<8xf32>) -> tensor<f32> {
  %0 = te.compute "mean" [] reduce [%k = 8] mean : tensor<f32> {
    %1 = te.read %x[%k] : tensor<8xf32>
    te.yield %1 : f32
  }
  te.return %0 : tensor<f32>
}

// -----

// Nothing is left over from a division by zero.
// CHECK: 'te.read': the access map has 'mod' by anything but a positive constant
te.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = te.compute "y" [%i = 8] : tensor<8xf32> {
    %1 = te.read %x[%i mod 0] : tensor<8xf32>
    te.yield %1 : f32
  }
  te.return %0 : tensor<8xf32>
}

// -----

// A number that stands in for elements outside is one of their type.
// CHECK: 1.5 is not a value of type i32
te.func @f(%x: tensor<8xi32>) -> tensor<8xi32> {
  %0 = te.compute "y" [%i = 8] : tensor<8xi32> {
    %1 = te.read %x[%i] else 1.5 : tensor<8xi32>
    te.yield %1 : i32
  }
  te.return %0 : tensor<8xi32>
}

// -----

// What is called exists.
// CHECK: 'te.call': there is no function @g
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = te.call @g(%x) : (tensor<8xf32>) -> tensor<8xf32>
  func.return %0 : tensor<8xf32>
}

// -----

// A stage that lacks its name is to blame, not the function that looks for it.
// CHECK: 'te.compute': property 'stage' expected in operation 'te.compute'
"te.func"() <{sym_name = "f", function_type = () -> tensor<f32>}> ({
  %0 = "te.compute"() <{extents = array<i64>, reduce_extents = array<i64>}> ({
    %1 = "arith.constant"() <{value = 0.0 : f32}> : () -> f32
    "te.yield"(%1) : (f32) -> ()
  }) : () -> tensor<f32>
  "te.return"(%0) : (tensor<f32>) -> ()
}) : () -> ()
