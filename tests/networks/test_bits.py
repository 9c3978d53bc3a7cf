"""Layers of 1 and 2 bits by popcount and by tables, against ONNX's reference evaluator."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tcopt
from models.bit_models import Layer
from running.examples import examples
from tcopt.backends.llvm.machine.host import default_target
from tcopt.dialects.intrinsics.table_sums import lookup_of
from tcopt.support.remarks import collect_remarks

ALWAYS = {
    method: {"before:bit-serial": f"bit-serial{{method={method}}}"}
    for method in ("popcount", "lookup")
}
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

IN_TABLES = {
    **{
        name: LAYERS[name]
        for name in (
            "two_by_one",
            "two_by_two",
            "four_signed_bits",
            "odd_weights",
            "even_weights",
            "no_weights",
            "spare_channels",
            "zero_in_pads",
            "requantised",
            "one_dimension",
            "product_of_batches",
        )
    },
    "bytes_by_signs": Layer(data="UINT8", zero=3, shape=(1, 40, 6, 5)),
    "signed_bytes": Layer(data="INT8", zero=-7, numbers=(-2, -1, 0, 1), outputs=70),
    "bytes_by_four_bits": Layer((2, 50), kernel=0, data="INT8", weights="INT4", numbers=(-8, 3, 7)),
    "bytes_by_three_bits": Layer((3, 97), kernel=0, data="UINT8", weights="UINT4", numbers=(0, 5)),
    "gemm_of_bytes": Layer((1, 200), kernel=0, data="UINT8", zero=128, gemm=True, outputs=130),
    "strides": Layer((2, 30, 9, 11), data="INT8", stride=2, dilation=2, numbers=(0, 1)),
}
"""In addition to those that need tables, 8-bit data, which has no popcount form."""


def compiled(layer: Layer, method: str = "popcount") -> tuple[tcopt.Model, list[str]]:
    with collect_remarks() as remarks:
        model = tcopt.compile(layer.model(), passes=ALWAYS[method], cache=False)
    return model, [str(each) for each in remarks if "bit-serial" in str(each)]


def check(layer: Layer, model: tcopt.Model) -> None:
    x = layer.inputs()
    (y,) = model.run({"x": x})
    # Integer sums are exact, and scaled and rounded to f32 once; numpy rounds each product.
    np.testing.assert_allclose(y, layer.expected(x), rtol=1e-5, atol=1e-3)


@pytest.mark.nightly(every=9)
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str) -> None:
    model, remarks = compiled(LAYERS[name])
    assert any("done" in each for each in remarks), remarks
    check(LAYERS[name], model)


@pytest.mark.nightly(daily=["spare_channels", "zero_in_pads"])
@pytest.mark.parametrize("name", IN_TABLES)
def test_layers_in_tables(name: str) -> None:
    model, remarks = compiled(IN_TABLES[name], "lookup")
    if lookup_of(default_target().capabilities) is not None:
        assert any("done" in each and "in tables" in each for each in remarks), remarks
    check(IN_TABLES[name], model)


@pytest.mark.nightly
@settings(max_examples=examples(8))
@given(
    method=st.sampled_from(["popcount", "lookup"]),
    channels=st.integers(1, 70),
    outputs=st.integers(1, 40),
    kernel=st.integers(1, 3),
    size=st.tuples(st.integers(3, 6), st.integers(3, 6)),
    data=st.sampled_from(["UINT2", "INT2", "UINT4", "INT8"]),
    numbers=st.sampled_from([(-1, 1), (0, 1), (-1, 0, 1), (-2, 1)]),
)
def test_any_size(
    method: str,
    channels: int,
    outputs: int,
    kernel: int,
    size: tuple[int, int],
    data: str,
    numbers: tuple[int, ...],
) -> None:
    shape = (1, channels, *size)
    layer = Layer(shape, outputs, kernel, pad=kernel // 2, data=data, numbers=numbers)
    model, _ = compiled(layer, method)
    check(layer, model)


def test_integers_are_exact() -> None:
    """Sums beyond the exact range of f32: the model rounds once, as integers do."""
    layer = Layer(shape=(1, 512, 3, 3), data="UINT4", weights="INT4", numbers=(-8, 7), kernel=3)
    model, remarks = compiled(layer)
    assert any("done" in each for each in remarks), remarks
    check(layer, model)


@pytest.mark.nightly
def test_the_estimate_chooses() -> None:
    """A CPU with vector popcount uses it; one with two byte dot products per cycle and only
    byte-wise popcount multiplies."""
    for cpu, counts in ((CPU, True), ("cpu:neoverse-v1", False)):
        with collect_remarks() as remarks:
            tcopt.compile(Layer().model(), target=cpu, cache=False)
        done = [str(each) for each in remarks if "done: bit-serial" in str(each)]
        assert bool(done) == counts


@pytest.mark.nightly(daily=["few_bits"])
@pytest.mark.parametrize(
    ("layer", "chosen"),
    [
        (Layer((1, 2048), 2048, kernel=0, data="UINT8"), True),
        (Layer((1, 2048), 2048, kernel=0, data="UINT8", numbers=(-2, -1, 0, 1)), True),
        (Layer((1, 2048), 2048, 0, data="UINT8", weights="INT4", numbers=(-8, 7)), False),
        (Layer((64, 256), 256, kernel=0, data="UINT8", numbers=(-2, -1, 0, 1)), False),
        (Layer(), False),
    ],
    ids=["a_row_by_signs", "a_row_by_two_bits", "a_row_by_four", "many_rows", "few_bits"],
)
def test_the_estimate_chooses_tables(layer: Layer, chosen: bool) -> None:
    """Tables are used if a row meets so many one- or two-bit weights that reading them as bytes
    takes longer, unless byte products or popcounts are faster."""
    with collect_remarks() as remarks:
        tcopt.compile(layer.model(), target=CPU, cache=False)
    done = [str(each) for each in remarks if "done: bit-serial" in str(each)]
    assert any("in tables" in each for each in done) == chosen, remarks
