"""Bufferization: lowering of tensor expressions to loop nests over buffers."""
