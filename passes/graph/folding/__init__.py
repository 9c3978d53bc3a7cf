"""Constant folding, folding of scales into weights, and simplification of shape operators."""
