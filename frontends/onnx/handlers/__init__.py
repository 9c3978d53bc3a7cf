"""Handlers of ONNX operators, one operator family per file; see
`tcopt.frontends.onnx.context.registry`.
"""
