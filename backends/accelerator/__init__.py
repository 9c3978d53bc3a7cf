"""Execution, timing and proofs of accelerator programs, for any accelerator."""
