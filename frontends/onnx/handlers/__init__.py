"""ONNX operators, one family a file; found by `tcopt.frontends.onnx.context.registry`."""
