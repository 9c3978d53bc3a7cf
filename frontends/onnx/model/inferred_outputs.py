"""The types of outputs that a model does not declare."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import ModelProto, ValueInfoProto


def typed_outputs(model: ModelProto) -> Sequence[ValueInfoProto]:
    """The outputs of a model, those without a type as ONNX infers them, if it can."""
    outputs = model.graph.output
    if all(info.type.WhichOneof("value") is not None for info in outputs):
        return outputs
    try:
        inferred = onnx.shape_inference.infer_shapes(model).graph.output
    # A model that cannot be inferred, or that is too large for it, may be compiled all the same.
    except Exception:
        return outputs
    known = {info.name: info for info in inferred}
    return [known.get(info.name, info) for info in outputs]
