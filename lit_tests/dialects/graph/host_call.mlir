// RUN: tcopt %s --verify-diagnostics --split-input-file | filecheck %s

// A host call names its function; settings are printed only if there are any.
// CHECK-LABEL: func.func @calls
func.func @calls(%x: tensor<4xi64>) -> (tensor<4xi64>, tensor<4xi1>) {
  // CHECK: graph.host_call %x, %x {function = "string_concat"} : tensor<4xi64>
  %0 = graph.host_call %x, %x {function = "string_concat"} : tensor<4xi64>
  // CHECK: graph.host_call %0 {function = "regex_full_match", settings = {pattern = "a.*b"}} : tensor<4xi1>
  %1 = graph.host_call %0 {function = "regex_full_match", settings = {pattern = "a.*b"}} : tensor<4xi1>
  return %0, %1 : tensor<4xi64>, tensor<4xi1>
}

// -----

// The named function must be registered.
// CHECK: there is no host function 'none'
func.func @unknown(%x: tensor<4xi64>) -> tensor<4xi64> {
  %0 = graph.host_call %x {function = "none"} : tensor<4xi64>
  return %0 : tensor<4xi64>
}

// -----

// The number of operands must match the function.
// CHECK: string_concat takes 2 tensors and returns 1
func.func @count(%x: tensor<4xi64>) -> tensor<4xi64> {
  %0 = graph.host_call %x {function = "string_concat"} : tensor<4xi64>
  return %0 : tensor<4xi64>
}

// -----

// Settings must be numbers, strings or lists of these.
// CHECK: i32 is not a valid setting of a host function
func.func @settings(%x: tensor<4xi64>) -> tensor<4xi64> {
  %0 = graph.host_call %x {function = "string_case", settings = {case = i32}} : tensor<4xi64>
  return %0 : tensor<4xi64>
}
