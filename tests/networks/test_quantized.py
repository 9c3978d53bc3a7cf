"""Networks quantised to 8 bits run on integers and match their definition."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from onnx import ModelProto
from xdsl.dialects.builtin import ModuleOp, i16, i32

import tcopt
from models import convolutional
from models.checks import run_imported, run_reference
from models.light_models import random_inputs
from models.network import Network
from models.quantized import output_step, quantized
from tcopt.compiler import lower, pipeline
from tcopt.dialects.graph.contraction.base import ContractionOp
from tcopt.dialects.graph.core.types import element_type
from tcopt.dialects.graph.packed.blocked_conv import BlockedConvOp
from tcopt.dialects.loop import IntrinOp
from tcopt.frontends.onnx import import_model
from tcopt.passes.graph.packing.panels import grouped_form
from tcopt.runtime.device.opencl import opencl_device
from tcopt.support.errors import UnsupportedError


def residual() -> ModelProto:
    """A small residual block with a projection; the quantiser folds its batch norms."""
    return convolutional.residual_net(16, 8)


def mixed() -> ModelProto:
    """Float computations between integer layers."""
    net = Network("mixed", seed=3)
    x = net.input("image", [1, 4, 9, 9])
    y = net.add("Sigmoid", net.conv(x, 4, 8))
    z = net.conv(y, 8, 8, groups=8)
    both = net.add("Concat", net.add("LeakyRelu", z, alpha=0.1), y, axis=1)
    pooled = net.add("AveragePool", both, kernel_shape=[2, 2], strides=[2, 2])
    rows = net.add("Reshape", pooled, net.ints(1, -1))
    return net.model(**{net.gemm(rows, 256, 6): [1, 6]})


KINDS: dict[str, Callable[[ModelProto], ModelProto]] = {
    "QDQ": lambda model: quantized(model, "QDQ"),
    "QDQ_by_channel": lambda model: quantized(model, "QDQ", per_channel=True),
    "QDQ_signed": lambda model: quantized(model, "QDQ", signed=True),
    "QOperator": lambda model: quantized(model, "QOperator"),
}


def steps_apart(model: ModelProto, target: str) -> tuple[float, float]:
    """Return the distance of the results from the definition's and from onnxruntime's, in steps."""
    feeds = random_inputs(model, 7)
    (ours,) = tcopt.compile(model, target).run(feeds)
    (exact,), (theirs,) = run_imported(model, feeds), run_reference(model, feeds)
    assert ours.dtype == theirs.dtype
    step = output_step(model)
    return tuple(float(np.abs(ours - other).max()) / step for other in (exact, theirs))


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize(
    ("network", "kind"),
    [(residual, "QDQ_by_channel"), (residual, "QOperator"), (mixed, "QDQ_signed")],
)
def test_results(network: Callable[[], ModelProto], kind: str) -> None:
    """Products of scales round differently from products of scaled values, rarely by a step."""
    exact, theirs = steps_apart(KINDS[kind](network()), "cpu")
    assert exact <= 1.01
    assert theirs <= 1.01


@pytest.mark.nightly
def test_dynamic_results() -> None:
    """Sums are exact, but scales are computed at run time: a value at a tie may round differently,
    by a step of 1/255 of the range."""
    model = quantized(mixed(), "dynamic")
    feeds = random_inputs(model, 7)
    (ours,) = tcopt.compile(model).run(feeds)
    (theirs,) = run_reference(model, feeds)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=np.ptp(theirs) / 255)


def _has_device() -> bool:
    try:
        opencl_device()
    except UnsupportedError:
        return False
    return True


@pytest.mark.nightly
@pytest.mark.skipif(not _has_device(), reason="no OpenCL device")
def test_results_on_a_device() -> None:
    model = KINDS["QDQ_by_channel"](convolutional.residual_net(12, 5))
    exact, theirs = steps_apart(model, "opencl")
    assert exact <= 1.01
    assert theirs <= 1.01


def _lowered(model: ModelProto, until: str) -> ModuleOp:
    module = import_model(model)
    phases = pipeline("cpu:haswell")
    lower(module, phases[: [phase.name for phase in phases].index(until) + 1])
    return module


@pytest.mark.parametrize("kind", KINDS)
def test_contractions_are_of_integers(kind: str) -> None:
    """All contractions use integers, with weights in pairs and channels in blocks; no floats are
    stored between layers."""
    module = _lowered(KINDS[kind](residual()), "graph")
    products = [op for op in module.walk() if isinstance(op, ContractionOp)]
    assert len(products) == 7
    for op in products:
        assert [element_type(v) for v in (*op.operands, *op.results)] == [i16, i16, i32]
        assert grouped_form(op, 2) is None
    assert sum(isinstance(op, BlockedConvOp) for op in products) == 6


def test_products_become_dot_products() -> None:
    """The contraction rules use dot products of pairs of 16-bit integers."""
    module = _lowered(KINDS["QDQ"](residual()), "schedule")
    dots = [op for op in module.walk() if isinstance(op, IntrinOp)]
    assert [op.intrin.data for op in dots] == ["s16_dot"] * 7


@pytest.mark.parametrize("channels", [4, 40])
def test_a_bias_stays_one_of_integers_however_few_it_has(channels: int) -> None:
    """Import folds few values at once, but a dequantised bias is added to integer sums later."""
    net = Network("bias")
    number = {name: net.weight(np.float32(2.0**-n)) for n, name in enumerate("xwb", 4)}
    zero, none = net.weight(np.int8(0)), net.weight(np.int32(0))
    x = net.add("QuantizeLinear", net.input("x", [1, 8, 6, 6]), number["x"], zero)
    x = net.add("DequantizeLinear", x, number["x"], zero)
    weights = net.weight(np.ones((channels, 8, 1, 1), np.int8))
    w = net.add("DequantizeLinear", weights, number["w"], zero)
    bias = net.weight(np.arange(channels, dtype=np.int32))
    b = net.add("DequantizeLinear", bias, number["b"], none)
    y = net.add("Conv", x, w, b)
    text = str(import_model(net.model(**{y: [1, channels, 6, 6]})))
    assert text.count("graph.dequantize") == 3
