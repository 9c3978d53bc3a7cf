"""RNN, GRU and LSTM against onnxruntime: directions, biases, lengths, layouts, activations."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import tcopt
from tcopt.support.errors import TcoptError

STEPS, BATCH, WIDTH, HIDDEN = 5, 2, 6, 8
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def layer(kind: str, *, constant: bool = True, **options: Any) -> ModelProto:
    """Return a model with one layer.

    Options other than ONNX's: `bias`, `initial`, `lengths` (their values), `peepholes`, and
    `outputs`, the names of the required outputs.
    """
    generator = np.random.default_rng(3)
    both = options.get("direction") == "bidirectional"
    directions, rows = 1 + both, GATES[kind] * HIDDEN
    outputs = options.pop("outputs", ["y", "h", "c"])
    states = ["y", "h", "c"] if kind == "LSTM" else ["y", "h"]

    def random(*shape: int) -> np.ndarray:
        return generator.uniform(-0.5, 0.5, shape).astype(np.float32)

    weights = {"w": random(directions, rows, WIDTH), "r": random(directions, rows, HIDDEN)}
    if options.pop("bias", True):
        weights["b"] = random(directions, 2 * rows)
    if (lengths := options.pop("lengths", None)) is not None:
        weights["lengths"] = np.array(lengths, np.int32)
    batch_first = bool(options.get("layout"))
    if options.pop("initial", False):
        state = (BATCH, directions, HIDDEN) if batch_first else (directions, BATCH, HIDDEN)
        weights["h0"] = random(*state)
        weights |= {"c0": random(*state)} if kind == "LSTM" else {}
    if options.pop("peepholes", False):
        weights["p"] = random(directions, 3 * HIDDEN)
    order = ["x", "w", "r", "b", "lengths", "h0", "c0", "p"][: 8 if kind == "LSTM" else 6]
    inputs = [name if name == "x" or name in weights else "" for name in order]
    node = helper.make_node(
        kind, inputs, [n if n in outputs else "" for n in states], hidden_size=HIDDEN, **options
    )
    shape = (BATCH, STEPS, WIDTH) if batch_first else (STEPS, BATCH, WIDTH)
    declared = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    if not constant:
        declared += [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
            for n, v in weights.items()
        ]
    graph = helper.make_graph(
        [node],
        "layer",
        declared,
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in states if n in outputs],
        [numpy_helper.from_array(v, n) for n, v in weights.items()] if constant else [],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def check(model: ModelProto, **more: np.ndarray) -> None:
    """Compare with onnxruntime; 1e-5 covers a few steps of f32 sums in another order."""
    compiled = tcopt.compile(model)
    generator = np.random.default_rng(4)
    feeds = {
        spec.name: more.get(spec.name, generator.uniform(-1, 1, spec.shape).astype(spec.dtype))
        for spec in compiled.inputs
    }
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    for ours, theirs in zip(compiled.run(feeds), session.run(None, feeds), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.nightly(every=4)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", GATES)
def test_directions(kind: str, direction: str):
    check(layer(kind, direction=direction, initial=True))


@pytest.mark.parametrize("kind", GATES)
def test_without_bias_and_initial_state(kind: str):
    check(layer(kind, bias=False))


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("kind", GATES)
def test_sequences_of_different_lengths(kind: str, direction: str):
    check(layer(kind, direction=direction, lengths=[3, STEPS]))


@pytest.mark.parametrize("outputs", [["y"], ["h"], ["y", "h"]])
def test_outputs_left_out(outputs: list[str]):
    check(layer("GRU", outputs=outputs))


def test_a_last_cell_state_alone():
    check(layer("LSTM", outputs=["c"]))


@pytest.mark.parametrize("linear", [0, 1])
def test_a_gru_that_resets_before_or_after_the_product(linear: int):
    check(layer("GRU", linear_before_reset=linear))


def test_an_lstm_with_peepholes():
    check(layer("LSTM", peepholes=True, initial=True))


def test_an_lstm_with_coupled_gates_and_clipping():
    check(layer("LSTM", input_forget=1, clip=0.3))


def test_weights_that_are_inputs():
    check(layer("LSTM", constant=False))


def test_named_activations_with_parameters():
    names = ["HardSigmoid", "LeakyRelu"]
    check(layer("GRU", activations=names, activation_alpha=[0.3, 0.05], activation_beta=[0.4]))


def test_lengths_that_are_an_input():
    model = layer("RNN", constant=False, lengths=[1, 1])
    check(model, lengths=np.array([2, 4], np.int32))


def test_batch_first_equals_the_transposed_layer():
    # onnxruntime has no batch-first layout, so the time-first layer is the reference.
    plain, turned = layer("LSTM", initial=True), layer("LSTM", initial=True, layout=1)
    x = np.random.default_rng(5).uniform(-1, 1, (STEPS, BATCH, WIDTH)).astype(np.float32)
    for model in (plain, turned):
        for name in ("h0", "c0"):
            value = np.linspace(-1, 1, BATCH * HIDDEN, dtype=np.float32).reshape(BATCH, HIDDEN)
            axis = 1 if model is turned else 0
            tensor = next(t for t in model.graph.initializer if t.name == name)
            tensor.CopyFrom(numpy_helper.from_array(np.expand_dims(value, axis), name))
    expected = tcopt.compile(plain).run({"x": x})
    results = tcopt.compile(turned).run({"x": x.transpose(1, 0, 2)})
    np.testing.assert_array_equal(results[0], expected[0].transpose(2, 0, 1, 3))
    for ours, theirs in zip(results[1:], expected[1:], strict=True):
        np.testing.assert_array_equal(ours, theirs.transpose(1, 0, 2))


def test_wrong_weights_are_named():
    model = layer("GRU")
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.zeros((1, 24, 7), "f4"), "r"))
    with pytest.raises(TcoptError, match=r"w \[1, 24, 6\] does not fit x"):
        tcopt.compile(model)


def test_an_unknown_activation_is_named():
    with pytest.raises(TcoptError, match="activation Wiggle is not supported"):
        tcopt.compile(layer("RNN", activations=["Wiggle"]))
