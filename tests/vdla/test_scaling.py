"""Per-channel scales on an ALU that multiplies: the CPU's integers, or at most a step apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import tcopt
from models.quantised_networks import QuantisedNetwork, random_network
from tcopt.passes.graph.placement.alu.step_fit import Integers, StepFit, Steps, fit_steps, steps_of
from tcopt.passes.graph.placement.alu.sum_fit import fit_sum
from tcopt.runtime.program import Program

BYTES = (-128, 127)


def scaling(seed: int, channels: int, most: int) -> tuple[Any, Steps, Any]:
    """A function of sums as in `graph.requantize`, its steps, and its slopes."""
    rng = np.random.default_rng(seed)
    scale = (2.0 ** rng.uniform(-9, -6, channels)).astype(np.float32)
    bias = rng.integers(-3000, 3000, channels)

    def function(x: Integers) -> Integers:
        value = np.rint((x + bias).astype(np.float32) * scale) + np.float32(3)
        return np.clip(value, *BYTES).astype(np.int64)

    ends = rng.integers(most // 2, most, (2, channels))
    return function, steps_of(function, -ends[0], ends[1], BYTES), scale.astype(np.float64)


def values(fit: StepFit, steps: Steps, function: Any) -> tuple[Integers, Integers]:
    """Evaluate both functions for all sums of all channels."""
    x = np.arange(steps.least.min(), steps.most.max() + 1)[:, None]
    x = np.clip(x, steps.least, steps.most)
    return np.clip(fit(x), *BYTES), function(x)


@pytest.mark.nightly(every=4)
@pytest.mark.parametrize("seed", range(8))
def test_what_fits_has_all_steps(seed: int) -> None:
    """A single channel often has an exact form, which then agrees for every sum."""
    function, steps, slope = scaling(seed, 1, 60_000)
    fit = fit_steps(steps, slope)
    if fit is None:
        pytest.skip("there is no such form")
    found, expected = values(fit, steps, function)
    np.testing.assert_array_equal(found, expected)


def test_most_single_channels_fit() -> None:
    """The test above is not always skipped."""
    assert sum(fit_steps(*scaling(seed, 1, 60_000)[1:]) is not None for seed in range(8)) >= 4


@pytest.mark.parametrize("most", [300, 60_000, 3_000_000])
def test_with_slack_nothing_is_more_than_a_step_apart(most: int) -> None:
    """Many channels, whose scales differ by up to a factor of eight."""
    function, steps, slope = scaling(1, 32 if most < 1_000_000 else 2, most)
    fit = fit_steps(steps, slope, slack=1)
    assert fit is not None
    found, expected = values(fit, steps, function)
    assert np.abs(found - expected).max() <= 1
    assert np.mean(found != expected) < 1e-4


def test_sums_of_two_bytes_are_those_of_floats() -> None:
    """The integer sum of two scaled bytes equals the rounded float sum, for every pair."""
    rng = np.random.default_rng(2)
    x, y = (each.reshape(-1) for each in np.meshgrid(*[np.arange(-128, 128)] * 2))
    fits = 0
    for _ in range(8):
        a, b, c = (rng.uniform(0.01, 0.1, 3)).astype(np.float32)
        real = (x.astype(np.float32) * a + y.astype(np.float32) * b) / c
        wanted = np.clip(np.rint(real), *BYTES).astype(np.int64)
        fit = fit_sum(x, y, wanted, [float(a / c), float(b / c)], BYTES)
        if fit is not None:
            fits += 1
            np.testing.assert_array_equal(np.clip(fit(x, y), *BYTES), wanted)
    assert fits >= 2


def run(source: onnx.ModelProto, accuracy: str, seed: int) -> tuple[list[Any], list[Any], Program]:
    """Return the results of both processors and of the CPU alone, and the program."""
    shape = [d.dim_value for d in source.graph.input[0].type.tensor_type.shape.dim]
    feeds = {"x": 2 * np.random.default_rng(seed).normal(size=shape).astype(np.float32)}
    expected = tcopt.compile(source, cache=False, workers=0).run(feeds)
    every = f"partition{{all-of-them=true accuracy={accuracy}}}"
    passes = {"instead-of:partition": every}
    model = tcopt.compile(source, "vdla:vta-mulh", cache=False, workers=0, passes=passes)
    assert isinstance(model.program, Program)
    return model.run(feeds), expected, model.program


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [5, 6, 8])
def test_random_networks_are_what_the_cpu_computes(seed: int) -> None:
    """Any scales and zero points, per channel or not: without an exact form the host computes
    it."""
    found, expected, program = run(random_network(seed, shifts=False), "default", seed)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert program.calls


@pytest.mark.nightly
def test_one_layer_is_at_most_a_step_apart() -> None:
    """A convolution with many channels, which has no exact form."""
    made = QuantisedNetwork(3, shifts=False)
    x = made.quantise("x", (1, 32, 12, 12), -4)
    rng = np.random.default_rng(3)
    weights = made.tensor(rng.integers(-127, 128, (64, 32, 3, 3), np.int8))
    scale = made.tensor((rng.random(64) * 0.004 + 0.001).astype(np.float32))
    zero = made.tensor(np.zeros(64, np.int8))
    factors = made.node("DequantizeLinear", [weights, scale, zero], axis=0)
    name = made.node("Conv", [made.real(x), factors], pads=[1] * 4)
    step = made.tensor(np.array(0.5, np.float32))
    point = made.tensor(np.array(0, np.int8))
    stored = made.node("QuantizeLinear", [name, step, point])
    made.node("DequantizeLinear", [stored, step, point], "y")
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)]
    results = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, 64, 12, 12))]
    graph = helper.make_graph(made.nodes, "layer", inputs, results, made.tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (found,), (expected,), program = run(model, "fast", 3)
    assert len(program.calls) == 1
    assert np.abs(found - expected).max() <= 0.5
    assert len(np.unique(expected)) > 50
    found, expected, _ = run(model, "default", 3)
    np.testing.assert_array_equal(found[0], expected[0])
