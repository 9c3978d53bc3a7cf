"""Inference of the types of undeclared outputs."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import ModelProto, ValueInfoProto


def typed_outputs(model: ModelProto) -> Sequence[ValueInfoProto]:
    """Return the outputs of a model; undeclared types are inferred by ONNX if possible."""
    outputs = model.graph.output
    if all(info.type.WhichOneof("value") is not None for info in outputs):
        return outputs
    try:
        inferred = onnx.shape_inference.infer_shapes(model).graph.output
    # Models whose types cannot be inferred, or that are too large for it, may still be compiled.
    except Exception:
        return outputs
    known = {info.name: info for info in inferred}
    return [known.get(info.name, info) for info in outputs]
