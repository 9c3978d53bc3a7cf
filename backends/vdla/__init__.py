"""Encoding of VDLA programs as 128-bit instructions, and a simulator of the accelerator."""
