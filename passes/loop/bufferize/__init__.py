"""Tensor expressions as loop nests over buffers."""
