"""partition: operators moved to an accelerator compute the same integers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from running.examples import examples
from tcopt.dialects import graph
from tcopt.interpreters.graph import run_module
from tcopt.passes.graph.placement.partition import PartitionPass
from tcopt.support.pipelines.running import new_context
from tcopt.support.remarks import PlacementWarning
from tcopt.support.syntax.parsing import LocatedParser

MODULE = """
module attributes {{tcopt.accelerator = #target.vdla<block_in = {block_in}, block_out = {block_out},
    inp_bytes = {inp_bytes}, wgt_bytes = {wgt_bytes}, acc_bytes = {acc_bytes}, uop_bytes = 256>}} {{
  func.func @main(%x: tensor<{x}xi8>, %w: tensor<{w}xi8>) -> tensor<{y}xi32> {{
    %c = graph.conv %x, %w {{strides = {strides}, pads = {pads}, dilations = {dilations},
      groups = {groups}, pad_value = {pad_value}, result_element = i32}} : tensor<{y}xi32>
    return %c : tensor<{y}xi32>
  }}
}}
"""


@st.composite
def convolutions(draw: st.DrawFn) -> dict[str, object]:
    """One- or two-dimensional convolutions with any groups, strides, pads and dilations."""
    rank = draw(st.integers(1, 2))

    def each(strategy: st.SearchStrategy[int], count: int = rank) -> list[int]:
        return draw(st.lists(strategy, min_size=count, max_size=count))

    block_in, block_out = draw(st.sampled_from([(16, 16), (8, 32), (4, 8)]))
    groups = draw(st.sampled_from([1, 1, 1, 2]))
    inputs = draw(st.integers(1, 20)) if groups == 1 else block_in
    outputs = draw(st.integers(1, 40)) if groups == 1 else 2 * block_out
    same = draw(st.booleans())
    strides = [draw(st.integers(1, 3))] * rank if same else each(st.integers(1, 3))
    dilations = [1] * rank if draw(st.booleans()) else each(st.integers(1, 2))
    space, kernel = each(st.integers(3, 9)), each(st.integers(1, 5))
    pads = each(st.integers(0, 3), 2 * rank)
    out = [
        (n + pads[d] + pads[rank + d] - (kernel[d] - 1) * dilations[d] - 1) // strides[d] + 1
        for d, n in enumerate(space)
    ]
    assume(min(out) > 0)

    def text(*shape: int) -> str:
        return "x".join(map(str, shape))

    return {
        "block_in": block_in,
        "block_out": block_out,
        "inp_bytes": 64 * block_in,
        "wgt_bytes": 64 * block_in * block_out,
        "acc_bytes": 64 * 4 * block_out,
        "x": text(1, inputs * groups, *space),
        "w": text(outputs, inputs, *kernel),
        "y": text(1, outputs, *out),
        "strides": strides,
        "pads": pads,
        "dilations": dilations,
        "groups": groups,
        "pad_value": draw(st.integers(-3, 3)),
    }


@given(convolutions(), st.integers(0, 99))
@settings(max_examples=examples(40))
def test_convolutions_on_a_matrix_unit_are_exact(fields: dict[str, object], seed: int) -> None:
    context = new_context()
    module = LocatedParser(context, MODULE.format(**fields), "conv.mlir").parse_module()
    rng = np.random.default_rng(seed)
    shapes = [tuple(map(int, str(fields[name]).split("x"))) for name in "xw"]
    feeds = [rng.integers(-128, 128, shape, np.int8) for shape in shapes]
    (expected,) = run_module(module, feeds)
    PartitionPass(all_of_them=True).apply(context, module)
    module.verify()
    assert any(isinstance(op, graph.GroupOp) for op in module.walk())
    (found,) = run_module(module, feeds)
    np.testing.assert_array_equal(found, expected)


CHAIN = """
module attributes {{tcopt.accelerator = #target.vdla<results = "i8", features = "alu,load_i8",
    inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>}} {{
  func.func @main(%x: tensor<1x4x5x5xi8>, %w: tensor<{outputs}x4x1x1xi8>,
      %y: tensor<1x{outputs}x5x5xi8>) -> tensor<1x{outputs}x5x5x{stored}> {{
    %b = graph.constant dense<{bias}> : tensor<{outputs}x1x1xi32>
    %s = graph.constant dense<{scale}> : tensor<f32>
    %t = graph.constant dense<{second}> : tensor<f32>
    %z = graph.constant dense<{zero}> : tensor<i8>
    %0 = graph.conv %x, %w {{result_element = i32}} : tensor<1x{outputs}x5x5xi32>
    %1 = graph.add %0, %b : tensor<1x{outputs}x5x5xi32>
    %2 = graph.requantize %1, %s, %z {{centered}} : tensor<1x{outputs}x5x5xi16>
    %3 = graph.cast %2 : tensor<1x{outputs}x5x5xi32>
    %4 = graph.cast %y : tensor<1x{outputs}x5x5xi32>
    %n = graph.constant dense<{places}> : tensor<i32>
    %5 = graph.shift_left %4, %n : tensor<1x{outputs}x5x5xi32>
    %6 = graph.add %5, %3 : tensor<1x{outputs}x5x5xi32>
    %7 = graph.relu %6 : tensor<1x{outputs}x5x5xi32>
    %8 = graph.requantize %7, %t, %u {attributes}: tensor<1x{outputs}x5x5x{stored}>
    return %8 : tensor<1x{outputs}x5x5x{stored}>
  }}
}}
"""


@given(
    outputs=st.sampled_from([3, 16, 20]),
    scales=st.tuples(st.integers(-9, 1), st.integers(-5, 1)),
    places=st.integers(0, 3),
    zero=st.integers(-3, 3),
    centered=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(max_examples=examples(30))
def test_what_follows_on_an_alu_is_exact(
    outputs: int, scales: tuple[int, int], places: int, zero: int, centered: bool, seed: int
) -> None:
    """Sums are small, so that many are half-way between two results."""
    rng = np.random.default_rng(seed)
    fields = {
        "outputs": outputs,
        "stored": "i16" if centered else "i8",
        "attributes": "{centered} " if centered else "",
        "bias": rng.integers(-40, 40, (outputs, 1, 1)).tolist(),
        "scale": 2.0 ** scales[0],
        "second": 2.0 ** scales[1],
        "places": places,
        "zero": 0 if centered else zero,
    }
    text = CHAIN.replace("%u", "%z").format(**fields)
    context = new_context()
    module = LocatedParser(context, text, "chain.mlir").parse_module()
    feeds = [
        rng.integers(-16, 16, (1, 4, 5, 5), np.int8),
        rng.integers(-16, 16, (outputs, 4, 1, 1), np.int8),
        rng.integers(-128, 128, (1, outputs, 5, 5), np.int8),
    ]
    (expected,) = run_module(module, feeds)
    PartitionPass(all_of_them=True).apply(context, module)
    module.verify()
    assert not any(isinstance(op, graph.ConvOp) for op in module.walk())
    (found,) = run_module(module, feeds)
    np.testing.assert_array_equal(found, expected)


MATMUL = """
module attributes {{tcopt.accelerator = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768,
    acc_bytes = 131072, uop_bytes = 256>}} {{
  func.func @main(%x: tensor<{x}xi8>, %w: tensor<{w}xi8>) -> tensor<{y}xi32> {{
    %c = graph.matmul %x, %w {{{attributes}result_element = i32}} : tensor<{y}xi32>
    return %c : tensor<{y}xi32>
  }}
}}
"""


@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("rows", [(1,), (2, 3)])
def test_matrix_products_on_a_matrix_unit_are_exact(
    rows: tuple[int, ...], by_columns: bool
) -> None:
    """Rows, also of several batches, times a matrix that does not fill blocks."""
    context = new_context()
    shapes = (*rows, 20), ((33, 20) if by_columns else (20, 33)), (*rows, 33)
    x, w, y = ("x".join(map(str, shape)) for shape in shapes)
    attributes = "transpose_b, " if by_columns else ""
    text = MATMUL.format(x=x, w=w, y=y, attributes=attributes)
    module = LocatedParser(context, text, "matmul.mlir").parse_module()
    rng = np.random.default_rng(0)
    feeds = [rng.integers(-128, 128, shape, np.int8) for shape in shapes[:2]]
    (expected,) = run_module(module, feeds)
    PartitionPass(all_of_them=True).apply(context, module)
    module.verify()
    assert any(isinstance(op, graph.GroupOp) for op in module.walk())
    (found,) = run_module(module, feeds)
    np.testing.assert_array_equal(found, expected)


TRUTH = """
module attributes {tcopt.accelerator = #target.vdla<results = "i8", features = "alu,load_i8",
    inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  func.func @main(%x: tensor<1x16x3x3xi8>, %w: tensor<16x16x1x1xi8>) -> tensor<1x16x3x3xi8> {
    %s = graph.constant dense<3.125000e-02> : tensor<f32>
    %z = graph.constant dense<0> : tensor<i8>
    %0 = graph.conv %x, %w {result_element = i32} : tensor<1x16x3x3xi32>
    %1 = graph.requantize %0, %s, %z : tensor<1x16x3x3xi8>
    %2 = graph.cast %1 : tensor<1x16x3x3xi1>
    %3 = graph.cast %2 : tensor<1x16x3x3xi8>
    %4 = graph.conv %3, %w {result_element = i32} : tensor<1x16x3x3xi32>
    %5 = graph.requantize %4, %s, %z : tensor<1x16x3x3xi8>
    return %5 : tensor<1x16x3x3xi8>
  }
}
"""


def test_what_a_conversion_loses_is_not_read_as_it_was() -> None:
    """Bytes converted to Booleans and back are not results in blocks."""
    context = new_context()
    module = LocatedParser(context, TRUTH, "truth.mlir").parse_module()
    rng = np.random.default_rng(0)
    shapes = (1, 16, 3, 3), (16, 16, 1, 1)
    feeds = [rng.integers(-4, 4, shape, np.int8) for shape in shapes]
    (expected,) = run_module(module, feeds)
    PartitionPass(all_of_them=True).apply(context, module)
    assert sum(isinstance(op, graph.GroupOp) for op in module.walk()) == 2
    (found,) = run_module(module, feeds)
    np.testing.assert_array_equal(found, expected)


LEFT = """
module attributes {{tcopt.accelerator = #target.vdla<block_in = 16, block_out = 16, rows = {rows},
    inp_bytes = 16384, wgt_bytes = 16384, acc_bytes = 16384, uop_bytes = 256>}} {{
  func.func @main(%x: tensor<1x16x8x8x{t}>, %w: tensor<16x16x1x1x{t}>) -> tensor<1x16x8x8x{r}> {{
    %c = graph.conv %x, %w {{result_element = {r}}} : tensor<1x16x8x8x{r}> loc("first")
    return %c : tensor<1x16x8x8x{r}>
  }}
}}
"""


@pytest.mark.parametrize(
    ("rows", "element", "result", "reason"),
    [(1, "i8", "i32", None), (4, "i8", "i32", "4 rows"), (1, "f32", "f32", "signed bytes")],
)
def test_a_model_left_to_the_host_is_a_warning(
    rows: int, element: str, result: str, reason: str | None
) -> None:
    context = new_context()
    text = LEFT.format(rows=rows, t=element, r=result)
    module = LocatedParser(context, text, "left.mlir").parse_module()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        PartitionPass(all_of_them=True).apply(context, module)
    found = [str(w.message) for w in caught if w.category is PlacementWarning]
    if reason is None:
        assert not found
    else:
        assert len(found) == 1 and "first" in found[0] and reason in found[0]
