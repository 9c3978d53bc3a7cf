"""Layers of 1 and 2 bits by counts of bits: as ONNX's interpreter computes them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tcopt
from bit_models import Layer
from tcopt.support.remarks import collect_remarks

ALWAYS = {"before:bit-serial": "bit-serial{method=popcount}"}
CPU = "cpu:znver4"

LAYERS = {
    "two_by_one": Layer(),
    "one_by_one": Layer(data="UINT2", numbers=(0, 1), outputs=16, shape=(1, 32, 4, 4)),
    "ternary": Layer(numbers=(-1, 0, 1)),
    "two_by_two": Layer(numbers=(-2, -1, 0, 1)),
    "four_by_one": Layer(data="UINT4"),
    "signed_data": Layer(data="INT2"),
    "four_signed_bits": Layer(data="INT4", shape=(1, 32, 4, 4)),
    "odd_weights": Layer(weights="INT4", numbers=(-3, -1, 1, 3)),
    "even_weights": Layer(weights="INT4", numbers=(-6, 0, 2)),
    "no_weights": Layer(numbers=(0,)),
    "spare_channels": Layer(shape=(1, 20, 6, 5), outputs=20),
    "three_blocks": Layer(shape=(1, 48, 6, 5), outputs=40),
    "zero_in_pads": Layer(zero=1),
    "zero_without_pads": Layer(zero=2, kernel=2, pad=0),
    "stride": Layer(shape=(1, 64, 9, 11), stride=2),
    "dilation": Layer(dilation=2, pad=2),
    "batch": Layer(shape=(3, 32, 5, 4)),
    "groups": Layer(shape=(1, 128, 5, 4), outputs=64, groups=2),
    "one_dimension": Layer(shape=(2, 64, 19)),
    "three_dimensions": Layer(shape=(1, 64, 3, 4, 5)),
    "requantised": Layer(requantised=True),
    "product": Layer(shape=(5, 64), kernel=0),
    "product_of_batches": Layer(shape=(2, 3, 50), kernel=0, outputs=33),
    "gemm": Layer(shape=(7, 100), kernel=0, gemm=True, outputs=48),
    "vector": Layer(shape=(1, 128), kernel=0, zero=1),
}


def compiled(layer: Layer) -> tuple[tcopt.Model, list[str]]:
    with collect_remarks() as remarks:
        model = tcopt.compile(layer.model(), passes=ALWAYS, cache=False)
    return model, [str(each) for each in remarks if "bit-serial" in str(each)]


def check(layer: Layer, model: tcopt.Model) -> None:
    x = layer.inputs()
    (y,) = model.run({"x": x})
    # Sums of integers are exact, and scaled and rounded to f32 once; numpy rounds each product.
    np.testing.assert_allclose(y, layer.expected(x), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str) -> None:
    model, remarks = compiled(LAYERS[name])
    assert any("done" in each for each in remarks), remarks
    check(LAYERS[name], model)


@settings(max_examples=6)
@given(
    channels=st.integers(1, 70),
    outputs=st.integers(1, 40),
    kernel=st.integers(1, 3),
    size=st.tuples(st.integers(3, 6), st.integers(3, 6)),
    data=st.sampled_from(["UINT2", "INT2", "UINT4"]),
    numbers=st.sampled_from([(-1, 1), (0, 1), (-1, 0, 1), (-2, 1)]),
)
def test_any_size(
    channels: int,
    outputs: int,
    kernel: int,
    size: tuple[int, int],
    data: str,
    numbers: tuple[int, ...],
) -> None:
    shape = (1, channels, *size)
    layer = Layer(shape, outputs, kernel, pad=kernel // 2, data=data, numbers=numbers)
    model, _ = compiled(layer)
    check(layer, model)


def test_integers_are_exact() -> None:
    """Sums beyond what f32 holds exactly: the model rounds once, as integers do."""
    layer = Layer(shape=(1, 512, 3, 3), data="UINT4", weights="INT4", numbers=(-8, 7), kernel=3)
    model, remarks = compiled(layer)
    assert any("done" in each for each in remarks), remarks
    check(layer, model)


def test_the_estimate_chooses() -> None:
    """A CPU that counts the bits of a vector's words does so, one with two dot products of bytes
    in a cycle and bytes' bits only multiplies."""
    for cpu, counts in ((CPU, True), ("cpu:neoverse-v1", False)):
        with collect_remarks() as remarks:
            tcopt.compile(Layer().model(), target=cpu, cache=False)
        done = [str(each) for each in remarks if "done: bit-serial" in str(each)]
        assert bool(done) == counts
