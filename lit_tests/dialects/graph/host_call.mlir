// RUN: tcopt %s --verify-diagnostics --split-input-file | filecheck %s

// A call names its function; the settings are printed where there are some.
// CHECK-LABEL: func.func @calls
func.func @calls(%x: tensor<4xi64>) -> (tensor<4xi64>, tensor<4xi1>) {
  // CHECK: graph.host_call %x, %x {function = "string_concat"} : tensor<4xi64>
  %0 = graph.host_call %x, %x {function = "string_concat"} : tensor<4xi64>
  // CHECK: graph.host_call %0 {function = "regex_full_match", settings = {pattern = "a.*b"}} : tensor<4xi1>
  %1 = graph.host_call %0 {function = "regex_full_match", settings = {pattern = "a.*b"}} : tensor<4xi1>
  return %0, %1 : tensor<4xi64>, tensor<4xi1>
}

// -----

// There has to be a function of that name.
// CHECK: there is no host function 'none'
func.func @unknown(%x: tensor<4xi64>) -> tensor<4xi64> {
  %0 = graph.host_call %x {function = "none"} : tensor<4xi64>
  return %0 : tensor<4xi64>
}

// -----

// A function takes as many tensors as it says.
// CHECK: string_concat takes 2 tensors and returns 1
func.func @count(%x: tensor<4xi64>) -> tensor<4xi64> {
  %0 = graph.host_call %x {function = "string_concat"} : tensor<4xi64>
  return %0 : tensor<4xi64>
}

// -----

// Settings are numbers, strings and lists of them.
// CHECK: i32 is not a valid setting of a host function
func.func @settings(%x: tensor<4xi64>) -> tensor<4xi64> {
  %0 = graph.host_call %x {function = "string_case", settings = {case = i32}} : tensor<4xi64>
  return %0 : tensor<4xi64>
}
