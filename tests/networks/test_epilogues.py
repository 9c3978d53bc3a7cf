"""Epilogues of convolutions and products keep their special rule, and match onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import tcopt
from models.checks import run_reference
from models.light_models import random_inputs
from models.network import Network
from tcopt.support.remarks import collect_remarks

# Largest error relative to the largest result, including F(4x4): see docs/accuracy.md.
TOLERANCE = 1e-5

Epilogue = Callable[[Network, str, str], str]


def silu(net: Network, x: str, _: str) -> str:
    return net.add("Mul", x, net.add("Sigmoid", x))


def silu_of_a_sum(net: Network, x: str, other: str) -> str:
    return silu(net, net.add("Add", x, other), other)


def silu_and_sum(net: Network, x: str, other: str) -> str:
    return net.add("Add", silu(net, x, other), other)


def gelu(net: Network, x: str, _: str) -> str:
    part = net.add("Erf", net.add("Div", x, net.scalar(2**0.5)))
    half = net.add("Mul", x, net.add("Add", part, net.scalar(1)))
    return net.add("Mul", half, net.scalar(0.5))


def gelu_by_tanh(net: Network, x: str, _: str) -> str:
    cube = net.add("Mul", net.add("Mul", x, x), x)
    inner = net.add("Add", x, net.add("Mul", cube, net.scalar(0.044715)))
    part = net.add("Tanh", net.add("Mul", inner, net.scalar(0.7978846)))
    half = net.add("Mul", x, net.scalar(0.5))
    return net.add("Mul", half, net.add("Add", part, net.scalar(1)))


def mish(net: Network, x: str, _: str) -> str:
    return net.add("Mul", x, net.add("Tanh", net.add("Softplus", x)))


def hard_swish(net: Network, x: str, _: str) -> str:
    low, high = (net.scalar(value) for value in (0, 6))
    gate = net.add("Clip", net.add("Add", x, net.scalar(3)), low, high)
    return net.add("Div", net.add("Mul", x, gate), net.scalar(6))


def diamond(net: Network, x: str, other: str) -> str:
    """A function's value on two paths, and the sum in addition."""
    value = net.add("Exp", net.add("Neg", net.add("Abs", x)))
    ratio = net.add("Div", value, net.add("Add", value, net.scalar(1)))
    return net.add("Mul", net.add("Mul", ratio, x), net.add("Sigmoid", other))


EPILOGUES = (silu, gelu_by_tanh, silu_of_a_sum, silu_and_sum, gelu, mish, hard_swish, diamond)


class Form(NamedTuple):
    """A contraction: the node, its operands, and its rule."""

    node: str
    data: tuple[int, ...]
    weights: tuple[int, ...]
    result: tuple[int, ...]
    rule: str
    attributes: dict[str, Any] = {}
    epilogues: Sequence[Epilogue] = EPILOGUES[:2]


SAME = {"pads": [1] * 4}
HALF = {"pads": [1] * 4, "strides": [2, 2]}
WINOGRAD = "cpu-winograd"

FORMS = {
    "3x3": Form(
        "Conv", (1, 48, 18, 19), (64, 48, 3, 3), (1, 64, 18, 19), WINOGRAD, SAME, EPILOGUES
    ),
    "2x2": Form("Conv", (1, 64, 17, 17), (64, 64, 2, 2), (1, 64, 16, 16), WINOGRAD),
    "5x5": Form(
        "Conv", (1, 64, 16, 15), (64, 64, 5, 5), (1, 64, 16, 15), WINOGRAD, {"pads": [2] * 4}
    ),
    "strided": Form("Conv", (1, 64, 32, 30), (64, 64, 4, 4), (1, 64, 16, 15), WINOGRAD, HALF),
    "groups": Form(
        "Conv", (1, 96, 18, 18), (96, 48, 3, 3), (1, 96, 18, 18), WINOGRAD, {**SAME, "group": 2}
    ),
    "transposed": Form(
        "ConvTranspose", (1, 64, 16, 15), (64, 64, 4, 4), (1, 64, 32, 30), WINOGRAD, HALF
    ),
    "1x1": Form("Conv", (1, 48, 16, 15), (64, 48, 1, 1), (1, 64, 16, 15), "cpu-contraction"),
    "depthwise": Form(
        "Conv",
        (1, 32, 16, 15),
        (32, 1, 3, 3),
        (1, 32, 16, 15),
        "cpu-contraction",
        {**SAME, "group": 32},
    ),
    "product": Form("MatMul", (24, 48), (48, 80), (24, 80), "cpu-matmul", {}, EPILOGUES),
}


@pytest.mark.nightly(daily=["groups"])
@pytest.mark.parametrize("name", FORMS)
def test_the_special_rule_keeps_what_an_epilogue_follows(name):
    form = FORMS[name]
    net = Network(name, seed=3)
    x, other = net.input("x", form.data), net.input("other", form.result)
    outputs = {}
    for epilogue in form.epilogues:
        w = net.normal(form.weights, np.prod(form.weights[1:]) ** -0.5)
        y = net.add(form.node, x, w, **form.attributes)
        outputs[epilogue(net, y, other)] = form.result
    model = net.model(**outputs)
    with collect_remarks() as remarks:
        made = tcopt.compile(model, "cpu:haswell", cache=False)
    rules = {r.by for r in remarks if r.message.startswith("scheduled")}
    assert form.rule in rules and rules <= {form.rule, "cpu-injective"}
    feeds = random_inputs(model, 0)
    for ours, theirs in zip(made.run(feeds), run_reference(model, feeds), strict=True):
        assert np.abs(ours - theirs).max() <= TOLERANCE * np.abs(theirs).max()
