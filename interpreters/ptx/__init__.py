"""PTX interpreter: kernels are translated to LLVM IR, and threads run on the CPU as coroutines."""
