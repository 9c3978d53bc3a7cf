// RUN: tcopt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s

// A read without a default must be in bounds.
// CHECK: index 0 ranges over [-1, 6], outside of [0, 7]; add a default with 'else' or correct the index
te.func @bounds(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = te.compute "shift" [%i = 8] : tensor<8xf32> {
    %1 = te.read %x[%i - 1] : tensor<8xf32>
    te.yield %1 : f32
  }
  te.return %0 : tensor<8xf32>
}

// -----

// A read needs an index for each dimension.
// CHECK: 1 indices for a tensor of rank 2
te.func @rank(%x: tensor<8x8xf32>) -> tensor<8xf32> {
  %0 = te.compute "row" [%i = 8] : tensor<8xf32> {
    %1 = te.read %x[%i] : tensor<8x8xf32>
    te.yield %1 : f32
  }
  te.return %0 : tensor<8xf32>
}

// -----

// The shape of the result must match the axes.
// CHECK: stage "copy" has axes [4] but result shape [8]
te.func @shape(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = te.compute "copy" [%i = 4] : tensor<8xf32> {
    %1 = te.read %x[%i] : tensor<8xf32>
    te.yield %1 : f32
  }
  te.return %0 : tensor<8xf32>
}

// -----

// The body must yield the result's element type.
// CHECK: the body yields f32, the result holds f64
te.func @element(%x: tensor<8xf32>) -> tensor<8xf64> {
  %0 = te.compute "copy" [%i = 8] : tensor<8xf64> {
    %1 = te.read %x[%i] : tensor<8xf32>
    te.yield %1 : f32
  }
  te.return %0 : tensor<8xf64>
}

// -----

// Stage names must be unique, so that schedules can refer to them.
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

// A function contains only stages.
// CHECK: te.func holds te.compute stages only, found 'arith.constant'
te.func @stray(%x: tensor<8xf32>) -> tensor<8xf32> {
  %c = arith.constant 1.0 : f32
  te.return %x : tensor<8xf32>
}

// -----

// Returned values must have the types of the signature.
// CHECK: returned types differ from the function's result types
te.func @result(%x: tensor<8xf32>) -> tensor<4xf32> {
  te.return %x : tensor<8xf32>
}

// -----

// The combiner must be a known keyword.
// CHECK: {{.*}}sum{{.*}}
te.func @combiner(%x: tensor<8xf32>) -> tensor<f32> {
  %0 = te.compute "mean" [] reduce [%k = 8] mean : tensor<f32> {
    %1 = te.read %x[%k] : tensor<8xf32>
    te.yield %1 : f32
  }
  te.return %0 : tensor<f32>
}

// -----

// The modulus must be a positive constant.
// CHECK: 'te.read': the access map has 'mod' by anything but a positive constant
te.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = te.compute "y" [%i = 8] : tensor<8xf32> {
    %1 = te.read %x[%i mod 0] : tensor<8xf32>
    te.yield %1 : f32
  }
  te.return %0 : tensor<8xf32>
}

// -----

// The default must have the tensor's element type.
// CHECK: 1.5 is not a value of type i32
te.func @f(%x: tensor<8xi32>) -> tensor<8xi32> {
  %0 = te.compute "y" [%i = 8] : tensor<8xi32> {
    %1 = te.read %x[%i] else 1.5 : tensor<8xi32>
    te.yield %1 : i32
  }
  te.return %0 : tensor<8xi32>
}

// -----

// A called function must exist.
// CHECK: 'te.call': there is no function @g
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = te.call @g(%x) : (tensor<8xf32>) -> tensor<8xf32>
  func.return %0 : tensor<8xf32>
}

// -----

// The error for a stage without a name is reported at the stage, not at the function.
// CHECK: 'te.compute': property 'stage' expected in operation 'te.compute'
"te.func"() <{sym_name = "f", function_type = () -> tensor<f32>}> ({
  %0 = "te.compute"() <{extents = array<i64>, reduce_extents = array<i64>}> ({
    %1 = "arith.constant"() <{value = 0.0 : f32}> : () -> f32
    "te.yield"(%1) : (f32) -> ()
  }) : () -> tensor<f32>
  "te.return"(%0) : (tensor<f32>) -> ()
}) : () -> ()
