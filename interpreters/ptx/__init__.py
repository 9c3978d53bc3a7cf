"""Executes PTX on the CPU: each kernel is translated to LLVM IR, whose threads are coroutines."""
