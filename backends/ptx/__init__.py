"""PTX from kernel-level IR, through LLVM IR and its NVPTX code generator."""
