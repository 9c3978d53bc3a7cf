// RUN: tcopt %s -p 'set-target{cpu=haswell}' | filecheck %s --check-prefix=HASWELL
// RUN: tcopt %s -p 'set-target{cpu=cortex-a72}' | filecheck %s --check-prefix=ARM
// RUN: tcopt %s -p 'set-target{cpu=haswell},set-target{cpu=x86-64}' | filecheck %s --check-prefix=LAST
// RUN: tcopt %s -p set-target | filecheck %s --check-prefix=HOST
// RUN: tcopt %s -p 'set-target{gpu=opencl}' | filecheck %s --check-prefix=GPU
// RUN: not tcopt %s -p 'set-target{cpu=z80}' 2>&1 | filecheck %s --check-prefix=BAD
// RUN: not tcopt %s -p 'set-target{gpu=voodoo}' 2>&1 | filecheck %s --check-prefix=NO-GPU

// The module carries the target that rules and code generation use; the last set-target wins.
// HASWELL: tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", features = "+avx2,+fma{{.*}}", vector_bits = 256, registers = 16
// ARM: tcopt.target = #target.cpu<triple = "aarch64-unknown-linux-gnu", cpu = "cortex-a72", features = "+neon{{.*}}", vector_bits = 128, registers = 32
// LAST: cpu = "x86-64"
// LAST-NOT: haswell
// HOST: tcopt.target = #target.cpu<triple = "
// GPU: tcopt.target = #target.gpu<api = "opencl", arch = "generic"
// NO-GPU: unknown GPU target 'voodoo'; known targets: {{.*}}opencl
// BAD: unknown CPU target 'z80'; known targets: host, x86-64, haswell
builtin.module {
}
