"""DynamicQuantizeLSTM, as onnxruntime's quantiser writes it, against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, helper, numpy_helper

from models.checks import run_imported
from models.network import Network
from models.quantized import quantized
from tcopt.frontends.onnx import import_model
from tcopt.support.errors import ImportModelError, UnsupportedError

_STEPS, _BATCH, _WIDTH, _HIDDEN = 4, 2, 6, 8


def _layer(direction: str = "forward", **options) -> ModelProto:
    net = Network("layer", seed=4)
    x = net.input("x", [_STEPS, _BATCH, _WIDTH])
    directions = 1 + (direction == "bidirectional")
    weights = [net.normal([directions, 4 * _HIDDEN, n], 0.3) for n in (_WIDTH, _HIDDEN)]
    bias = net.normal([directions, 8 * _HIDDEN], 0.3)
    y = net.add("LSTM", x, *weights, bias, hidden_size=_HIDDEN, direction=direction)
    model = net.model(**{y: [_STEPS, directions, _BATCH, _HIDDEN]})
    return quantized(model, "dynamic", reduce_range=True, **options)


def _reference(model: ModelProto) -> np.ndarray:
    """Single-threaded: several threads split the batch, and each uses the range of its part."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, _FEEDS)[0]


_FEEDS = {"x": np.random.default_rng(2).uniform(-1, 1, (_STEPS, _BATCH, _WIDTH)).astype(np.float32)}


@pytest.mark.parametrize("by_channel", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_results(direction: str, by_channel: bool) -> None:
    """The rounded values are the same; products of scales round differently, as in floats."""
    model = _layer(direction, per_channel=by_channel)
    assert "DynamicQuantizeLSTM" in [node.op_type for node in model.graph.node]
    (ours,) = run_imported(model, _FEEDS)
    np.testing.assert_allclose(ours, _reference(model), rtol=1e-5, atol=1e-6)


def _scales(model: ModelProto) -> int:
    (node,) = model.graph.node
    return next(i for i, w in enumerate(model.graph.initializer) if w.name == node.input[8])


def test_scales_that_do_not_fit_are_named() -> None:
    model = _layer()
    place = _scales(model)
    name = model.graph.initializer[place].name
    wrong = numpy_helper.from_array(np.ones(3, np.float32), name)
    model.graph.initializer[place].CopyFrom(wrong)
    with pytest.raises(ImportModelError, match=r"\[3\] does not fit weights \[1, 6, 32\]"):
        import_model(model)


def test_weights_computed_by_the_model_are_not_supported() -> None:
    model = _layer()
    place = _scales(model)
    given = helper.make_tensor_value_info(model.graph.initializer[place].name, 1, [1])
    del model.graph.initializer[place]
    model.graph.input.append(given)
    with pytest.raises(UnsupportedError, match="weights computed by the model"):
        import_model(model)
