// RUN: tcopt %s -p lower-te-to-loop | filecheck %s

// A host call becomes a call of a declared function that carries its settings; equal calls share
// the declaration.
// CHECK: graph.strings = ["", "a"]
// CHECK: func.func private @tcopt_host_call(memref<4xi64>, memref<4xi64>, memref<4xi64>) -> () attributes {tcopt.host_call = {function = "string_concat", settings = {}}}
// CHECK: func.func @main
// CHECK: loop.call @tcopt_host_call(%x, %x, %[[A:.*]]) : memref<4xi64>, memref<4xi64>, memref<4xi64>
// CHECK: loop.call @tcopt_host_call(%[[A]], %x, %{{.*}}) : memref<4xi64>, memref<4xi64>, memref<4xi64>
builtin.module attributes {graph.strings = ["", "a"]} {
  func.func @main(%x: tensor<4xi64>) -> tensor<4xi64> {
    %0 = graph.host_call %x, %x {function = "string_concat"} : tensor<4xi64>
    %1 = graph.host_call %0, %x {function = "string_concat"} : tensor<4xi64>
    return %1 : tensor<4xi64>
  }
}
