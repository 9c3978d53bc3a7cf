"""Passes over the kernel level: func, scf, memref, arith, math and vector."""
