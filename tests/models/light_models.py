"""The nine light models of the onnx package, with seeded random weights."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import ModelProto

from tcopt.frontends.onnx import example_models, find_example_model, randomize_weights

LIGHT_MODELS = example_models()


def light_model(name: str, seed: int = 0) -> ModelProto:
    """Return a light model by name (`light_resnet50`), with weights drawn from `seed`."""
    return randomize_weights(onnx.load(find_example_model(name)), seed)


def random_inputs(model: ModelProto, seed: int = 0) -> dict[str, np.ndarray]:
    """Return seeded inputs: normal floats, ones for masks, small integers for token ids."""
    rng = np.random.default_rng(seed)
    weights = {tensor.name for tensor in model.graph.initializer}
    feeds: dict[str, np.ndarray] = {}
    for value in model.graph.input:
        if value.name in weights:
            continue
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            feeds[value.name] = rng.standard_normal(shape).astype(np.float32)
        elif "mask" in value.name:
            mask = np.ones(shape, np.int64)
            mask[..., -2:] = 0
            feeds[value.name] = mask
        else:
            feeds[value.name] = rng.integers(0, 100, shape, dtype=np.int64)
    return feeds
