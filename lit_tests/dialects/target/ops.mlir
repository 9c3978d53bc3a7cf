// RUN: tcopt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// A CPU target prints the fields that differ from the defaults.
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", features = "+avx2,+fma", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144>} {}
// CHECK: tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "generic", features = "+avx2,+fma", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144, l3 = 0, cores = 1>

// -----

// A core that starts other than two multiply-adds per cycle declares its number.
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "znver4", vector_bits = 512, registers = 32, l1 = 32768, l2 = 1048576, fma_units = 1>} {}
// CHECK: cpu = "znver4", features = "", vector_bits = 512, registers = 32, l1 = 32768, l2 = 1048576, l3 = 0, cores = 1, fma_units = 1>

// -----

// The number of multiply-adds per cycle must be at least 1.
module attributes {tcopt.target = #target.cpu<triple = "x86_64-linux", vector_bits = 128, registers = 16, l1 = 1, l2 = 2, fma_units = 0>} {}
// CHECK: fma_units = 0 should be at least 1

// -----

// Vector widths must be powers of two.
module attributes {tcopt.target = #target.cpu<triple = "x86_64-linux", vector_bits = 100, registers = 16, l1 = 1, l2 = 2>} {}
// CHECK: vector_bits = 100 should be a power of two of at least 32

// -----

// Cache sizes must not decrease from level to level.
module attributes {tcopt.target = #target.cpu<triple = "x86_64-linux", vector_bits = 128, registers = 16, l1 = 1024, l2 = 512>} {}
// CHECK: cache sizes should grow from l1 to l3

// -----

// Features must start with `+` or `-`.
module attributes {tcopt.target = #target.cpu<triple = "x86_64-linux", features = "avx2", vector_bits = 128, registers = 16, l1 = 1, l2 = 2>} {}
// CHECK: feature "avx2" should start with + or -

// -----

// Fields without a safe default are required.
module attributes {tcopt.target = #target.cpu<triple = "x86_64-linux", vector_bits = 128, l1 = 1>} {}
// CHECK: missing field registers, l2

// -----

// An unknown field is reported by name.
module attributes {tcopt.target = #target.cpu<triple = "x86_64-linux", vectorbits = 128>} {}
// CHECK: unknown field vectorbits, expected one of triple, cpu

// -----

// A GPU target describes the limits of thread blocks; omitted fields have defaults.
module attributes {tcopt.target = #target.gpu<api = "opencl", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128>} {}
// CHECK: tcopt.target = #target.gpu<api = "opencl", arch = "generic", features = "", warp = 32, max_threads = 256, registers = 128, shared = 32768, vector_bits = 128, cores = 1, multiply_adds = 64, memory_rate = 8>

// -----

// There are two device APIs.
module attributes {tcopt.target = #target.gpu<api = "metal", warp = 32, max_threads = 256, registers = 128, shared = 0, vector_bits = 128>} {}
// CHECK: api "metal" should be one of cuda, opencl

// -----

// The block size must be a multiple of the warp size.
module attributes {tcopt.target = #target.gpu<api = "cuda", warp = 32, max_threads = 100, registers = 128, shared = 0, vector_bits = 128>} {}
// CHECK: max_threads = 100 should be whole warps of 32
