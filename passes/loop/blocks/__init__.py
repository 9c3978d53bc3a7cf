"""Lowering of blocks to plain loops: guards, tails and intrinsics."""
