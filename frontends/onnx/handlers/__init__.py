"""Handlers of ONNX operators, one family per file; see `context.registry`."""
