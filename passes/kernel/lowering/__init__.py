"""Lowering of loop functions to kernels."""
