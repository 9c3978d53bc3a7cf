// RUN: tcopt %s --split-input-file -p tabulate-bytes,canonicalize | filecheck %s
// RUN: tcopt %s --split-input-file -p 'set-target{cpu=x86-64},tabulate-bytes' | filecheck %s --check-prefix=PLAIN

// A chain of operators from byte to byte, including quantisation, becomes one table. For x *
// sigmoid(x), 0 maps to the zero point.
// CHECK-LABEL: func.func @silu
// CHECK-NEXT:  %y = graph.lookup %q {table = [10, 11, 11, {{.*}}, 10]} : tensor<1x8x4x4xui8>
// CHECK-NEXT:  func.return %y
// CPUs without byte shuffles compute the operators.
// PLAIN-LABEL:  func.func @silu
// PLAIN:        graph.sigmoid
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", features = "+avx512vbmi", vector_bits = 512, registers = 32, l1 = 32768, l2 = 1048576>} {
func.func @silu(%q: tensor<1x8x4x4xi8>) -> tensor<1x8x4x4xui8> {
  %tenth = graph.constant dense<0.1> : tensor<f32>
  %none = graph.constant dense<0> : tensor<i8>
  %part = graph.constant dense<0.00390625> : tensor<f32>
  %low = graph.constant dense<-128> : tensor<i8>
  %ten = graph.constant dense<10> : tensor<ui8>
  %x = graph.dequantize %q, %tenth, %none : tensor<1x8x4x4xf32>
  %s = graph.sigmoid %x : tensor<1x8x4x4xf32>
  %a = graph.quantize %s, %part, %low : tensor<1x8x4x4xi8>
  %r = graph.dequantize %a, %part, %low : tensor<1x8x4x4xf32>
  %m = graph.mul %x, %r : tensor<1x8x4x4xf32>
  %y = graph.quantize %m, %tenth, %ten : tensor<1x8x4x4xui8>
  return %y : tensor<1x8x4x4xui8>
}
}

// -----

// The sum of two values has no table, but the byte before it has one, also with other users.
// CHECK-LABEL: func.func @two
// CHECK:       %a = graph.lookup %q {{.*}} : tensor<4xui8>
// CHECK:       %r = graph.dequantize %a
// CHECK:       %m = graph.add %r, %{{.*}} : tensor<4xf32>
// CHECK:       graph.quantize %m
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", features = "+avx512vbmi", vector_bits = 512, registers = 32, l1 = 32768, l2 = 1048576>} {
func.func @two(%q: tensor<4xui8>, %p: tensor<4xui8>) -> (tensor<4xui8>, tensor<4xui8>) {
  %scale = graph.constant dense<0.1> : tensor<f32>
  %z = graph.constant dense<3> : tensor<ui8>
  %x = graph.dequantize %q, %scale, %z : tensor<4xf32>
  %t = graph.tanh %x : tensor<4xf32>
  %a = graph.quantize %t, %scale, %z : tensor<4xui8>
  %r = graph.dequantize %a, %scale, %z : tensor<4xf32>
  %o = graph.dequantize %p, %scale, %z : tensor<4xf32>
  %m = graph.add %r, %o : tensor<4xf32>
  %y = graph.quantize %m, %scale, %z : tensor<4xui8>
  return %y, %a : tensor<4xui8>, tensor<4xui8>
}
}

// -----

// Integer clamps and rescaling are tabulated too; per-channel scales are not constant.
// CHECK-LABEL: func.func @others
// CHECK-NOT:   graph.lookup
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", features = "+avx512vbmi", vector_bits = 512, registers = 32, l1 = 32768, l2 = 1048576>} {
func.func @others(%q: tensor<1x2x4xui8>) -> (tensor<1x2x4xui8>, tensor<1x2x4xui8>) {
  %scale = graph.constant dense<0.1> : tensor<f32>
  %each = graph.constant dense<[[0.1], [0.2]]> : tensor<2x1xf32>
  %z = graph.constant dense<3> : tensor<ui8>
  %x = graph.dequantize %q, %scale, %z : tensor<1x2x4xf32>
  %l = graph.relu %x : tensor<1x2x4xf32>
  %half = graph.constant dense<0.5> : tensor<f32>
  %y = graph.quantize %l, %half, %z : tensor<1x2x4xui8>
  %t = graph.tanh %x : tensor<1x2x4xf32>
  %c = graph.quantize %t, %each, %z : tensor<1x2x4xui8>
  return %y, %c : tensor<1x2x4xui8>, tensor<1x2x4xui8>
}
}
