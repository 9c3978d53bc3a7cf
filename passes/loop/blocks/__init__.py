"""Blocks as plain loops: guards, tails and intrinsics."""
