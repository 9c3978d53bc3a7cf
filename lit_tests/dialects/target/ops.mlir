// RUN: tcopt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// A module names the CPU that its code is for; unnamed fields have defaults.
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", features = "+avx2,+fma", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144>} {}
// CHECK: tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "generic", features = "+avx2,+fma", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, l3 = 0, cores = 1>

// -----

// Cores that begin other than two multiply-adds in a cycle say so.
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "znver4", vector_bits = 512, registers = 32, l1 = 32768, l2 = 1048576, fma_units = 1>} {}
// CHECK: cpu = "znver4", features = "", vector_bits = 512, registers = 32, l1 = 32768, l2 = 1048576, l3 = 0, cores = 1, fma_units = 1>

// -----

// There is one at least.
module attributes {tcopt.target = #target.cpu<triple = "x86_64-linux", vector_bits = 128, registers = 16, l1 = 1, l2 = 2, fma_units = 0>} {}
// CHECK: fma_units = 0 should be at least 1

// -----

// Vector widths are powers of two.
module attributes {tcopt.target = #target.cpu<triple = "x86_64-linux", vector_bits = 100, registers = 16, l1 = 1, l2 = 2>} {}
// CHECK: vector_bits = 100 should be a power of two of at least 32

// -----

// Caches grow outwards.
module attributes {tcopt.target = #target.cpu<triple = "x86_64-linux", vector_bits = 128, registers = 16, l1 = 1024, l2 = 512>} {}
// CHECK: cache sizes should grow from l1 to l3

// -----

// Features are switched on or off.
module attributes {tcopt.target = #target.cpu<triple = "x86_64-linux", features = "avx2", vector_bits = 128, registers = 16, l1 = 1, l2 = 2>} {}
// CHECK: feature "avx2" should start with + or -

// -----

// Sizes without a safe default must be said.
module attributes {tcopt.target = #target.cpu<triple = "x86_64-linux", vector_bits = 128, l1 = 1>} {}
// CHECK: missing field registers, l2

// -----

// Misspelt fields are named.
module attributes {tcopt.target = #target.cpu<triple = "x86_64-linux", vectorbits = 128>} {}
// CHECK: unknown field vectorbits, expected one of triple, cpu

// -----

// A GPU is described by what blocks of threads need; unnamed fields have defaults.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {}
// CHECK: tcopt.target = #target.gpu<api = "opencl", arch = "generic", features = "", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128, cores = 1, multiply_adds = 64, memory_rate = 8>

// -----

// There are two ways to reach a device.
module attributes {tcopt.target = #target.gpu<api = "metal", warp = 32, max_threads = 256, registers = 128, shared = 0, vector_bits = 128>} {}
// CHECK: api "metal" should be one of cuda, opencl

// -----

// Blocks are made of whole warps.
module attributes {tcopt.target = #target.gpu<api = "cuda", warp = 32, max_threads = 100, registers = 128, shared = 0, vector_bits = 128>} {}
// CHECK: max_threads = 100 should be whole warps of 32
