// RUN: tcopt %s -p export-to-mlir --split-input-file | filecheck %s

// The target is exported as a string, so that MLIR does not need its dialect.
// CHECK: builtin.module attributes {tcopt.target = "#target.cpu<triple = \22x86_64-unknown-linux-gnu\22
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", features = "+avx2", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, l3 = 0, cores = 4>} {
}

// -----

// Calls of ops with the same name, attributes and types share a declaration.
// CHECK-LABEL: func.func @dots
// CHECK-NEXT:    %0 = func.call @simd.dot(%c, %a, %b) : (vector<8xf32>, vector<8x2xbf16>, vector<8x2xbf16>) -> vector<8xf32>
// CHECK-NEXT:    %1 = func.call @simd.dot(%0, %b, %a)
// CHECK-NEXT:    %2 = func.call @simd.dot_1(%i, %u, %u) : (i32, vector<4xi8>, vector<4xi8>) -> i32
// CHECK-NEXT:    %3 = func.call @simd.dot_2(%2, %u, %u) : (i32, vector<4xi8>, vector<4xi8>) -> i32
// CHECK:       func.func private @simd.dot(vector<8xf32>, vector<8x2xbf16>, vector<8x2xbf16>) -> vector<8xf32> attributes {tcopt.external = {tcopt.op = "simd.dot"}}
// CHECK:       func.func private @simd.dot_1(i32, vector<4xi8>, vector<4xi8>) -> i32 attributes {tcopt.external = {tcopt.op = "simd.dot", lhs_unsigned}}
// CHECK:       func.func private @simd.dot_2(i32, vector<4xi8>, vector<4xi8>) -> i32 attributes {tcopt.external = {tcopt.op = "simd.dot"}}
func.func @dots(%c: vector<8xf32>, %a: vector<8x2xbf16>, %b: vector<8x2xbf16>, %i: i32, %u: vector<4xi8>) {
  %0 = simd.dot %c, %a, %b : vector<8x2xbf16> into vector<8xf32>
  %1 = simd.dot %0, %b, %a : vector<8x2xbf16> into vector<8xf32>
  %2 = simd.dot %i, %u, %u {lhs_unsigned} : vector<4xi8> into i32
  %3 = simd.dot %2, %u, %u : vector<4xi8> into i32
  return
}

// -----

// Other ops of the kernel level, with tables, side effects and memory.
// CHECK-LABEL: func.func @others
// CHECK:         func.call @simd.table_sum(
// CHECK:         func.call @profile.clock() : () -> i64
// CHECK:         func.call @loop.slice(%m, %c0) : (memref<4x8xf32>, index) -> memref<8xf32>
// CHECK:       func.func private @simd.table_sum(i32, vector<64xi8>, vector<64xi8>, i8, i8) -> i32 attributes {tcopt.external = {tcopt.op = "simd.table_sum", {{.*}}bits = 5 : i64
func.func @others(%one: i32, %t: vector<64xi8>, %j: i8, %m: memref<4x8xf32>) {
  %0 = simd.table_sum %one tables(%t, %t) at(%j, %j) {planes = 1, bits = 5} : vector<64xi8>, vector<64xi8> at i8, i8 into i32
  %1 = profile.clock : i64
  %c0 = arith.constant 0 : index
  %2 = loop.slice %m[%c0] : memref<4x8xf32>
  return
}
