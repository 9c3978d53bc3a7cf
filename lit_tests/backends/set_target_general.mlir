// RUN: tcopt %s -p 'set-target{target="cpu:haswell"}' | filecheck %s --check-prefix=HASWELL
// RUN: tcopt %s -p 'set-target{target="opencl:mali"}' | filecheck %s --check-prefix=MALI
// RUN: tcopt %s -p 'set-target{target=sm_80}' | filecheck %s --check-prefix=CUDA
// RUN: tcopt %s -p 'set-target{target="#target.cpu<triple = \"x86_64-linux\", vector_bits = 256, registers = 16, l1 = 1, l2 = 2, fma_units = 3>"}' | filecheck %s --check-prefix=TEXT
// RUN: not tcopt %s -p 'set-target{target="#target.cpu<triple = \"x86_64-linux\">"}' 2>&1 | filecheck %s --check-prefix=FIELDS
// RUN: not tcopt %s -p 'set-target{target="cpu:haswel"}' 2>&1 | filecheck %s --check-prefix=MACHINE
// RUN: not tcopt %s -p 'set-target{target=cpv}' 2>&1 | filecheck %s --check-prefix=KIND
// RUN: not tcopt %s -p 'set-target{target=cpu gpu=mali}' 2>&1 | filecheck %s --check-prefix=TWO

// A target is named by a kind and a machine, by a machine alone, or by its text.
// TEXT: #target.cpu<triple = "x86_64-linux", cpu = "generic", {{.*}}vector_bits = 256, {{.*}}fma_units = 3>
// HASWELL: #target.cpu<{{.*}}cpu = "haswell"
// MALI: #target.gpu<api = "opencl", arch = "mali"
// CUDA: #target.gpu<api = "cuda", arch = "sm_80"
builtin.module {}

// The error for an unknown name lists the known names.
// MACHINE: target cpu has no machine 'haswel'; known machines: x86-64, haswell
// KIND: there is no target 'cpv'; did you mean 'cpu'?
// TWO: a module has one target; give one option to set-target
// FIELDS: does not parse: missing field
