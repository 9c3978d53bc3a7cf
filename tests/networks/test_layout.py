"""convert-layout on random convolutional networks, and the three forms of blocked_conv."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.context import Context

import tcopt
from checks.te_check import check, value
from models.checks import run_reference
from models.network import Network
from networks.random_graphs import CONVOLUTIONAL, networks
from running.examples import examples
from tcopt.compiler import lower, pipeline
from tcopt.dialects import graph
from tcopt.dialects.graph.core.weights import weights_of
from tcopt.dialects.graph.packed.blocked_conv import BlockedConvOp
from tcopt.dialects.graph.packed.winograd import WinogradConvOp, WinogradWeightsOp
from tcopt.dialects.te import ComputeOp
from tcopt.frontends.onnx import import_model
from tcopt.interpreters.graph import run_module
from tcopt.interpreters.te import run_module as run_te
from tcopt.passes.graph.layout.borders import Border
from tcopt.passes.graph.layout.convert_layout import ConvertLayoutPass
from tcopt.passes.graph.layout.padded_windows import padded_window
from tcopt.support.ir.verify import verify
from tcopt.support.pipelines.text import parse_pipeline

# Tolerance for sums of up to a few hundred terms in another order, relative to the largest value.
TOLERANCE = 1e-5


@settings(max_examples=examples(80), suppress_health_check=list(HealthCheck))
@given(
    networks(steps=CONVOLUTIONAL, channels=(1, 2, 3, 4, 6, 8, 12)),
    st.sampled_from(["", ",canonicalize", ",fold-constants,canonicalize"]),
    st.sampled_from([2, 4]),
)
def test_layouts_do_not_change_results(case, cleanup, block) -> None:
    module, arrays = case
    weights = weights_of(module)
    before = run_module(module, arrays, weights=weights)
    for each in parse_pipeline(f"convert-layout{{block={block}}}{cleanup}"):
        each.apply(Context(), module)
    verify(module)
    names = [op.name for op in module.walk()]
    transforms = names.count("graph.layout_transform")
    assert bool(transforms) <= ("graph.blocked_conv" in names)
    check_all(run_module(module, arrays, weights=weights_of(module)), before)


@settings(max_examples=examples(40), suppress_health_check=list(HealthCheck))
@given(networks(steps=CONVOLUTIONAL, channels=(1, 3, 4, 8), max_steps=12))
def test_padding_moves_without_changing_results(case) -> None:
    """Borders next to pools, additions, concatenations and windows of all kinds."""
    module, arrays = case
    before = run_module(module, arrays, weights=weights_of(module))
    passes = "convert-layout{block=4},fold-constants,canonicalize,propagate-padding"
    for each in parse_pipeline(passes):
        each.apply(Context(), module)
    verify(module)
    check_all(run_module(module, arrays, weights=weights_of(module)), before)
    for each in parse_pipeline("fuse-ops,lower-graph-to-te,te-inline"):
        each.apply(Context(), module)
    verify(module)
    check_all(run_te(module, arrays), before)


def joined_net():
    """Nested concatenations, shared parts, and parts with borders."""
    net = Network("joined")
    x = net.input("x", [1, 3, 8, 8])
    first = net.add("Relu", net.conv(x, 3, 16))
    grown = first
    for channels in (16, 32):
        new = net.add("Relu", net.conv(grown, channels, 16))
        grown = net.add("Concat", grown, new, axis=1)
    pooled = net.add("MaxPool", grown, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    both = net.add("Concat", pooled, first, grown, axis=1)
    return net.model(**{both: [1, 112, 8, 8], net.conv(both, 112, 5): [1, 5, 8, 8]})


@pytest.mark.nightly
def test_parts_of_concatenations_are_computed_in_place() -> None:
    model = joined_net()
    module = import_model(model)
    lower(module, pipeline()[:3])
    stages = [op for op in module.walk() if isinstance(op, ComputeOp)]
    assert not any(stage.stage.data.startswith("concat") for stage in stages)
    feeds = {"x": data(1, 3, 8, 8)}
    check_all(tcopt.compile(model).run(feeds), run_reference(model, feeds))


def check_all(actual, expected) -> None:
    for ours, theirs in zip(actual, expected, strict=True):
        scale = max(1.0, float(np.abs(theirs).max()))
        np.testing.assert_allclose(ours, theirs, rtol=TOLERANCE, atol=TOLERANCE * scale)


def data(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype(np.float32)


def blocks(array: np.ndarray, axis: int, size: int) -> np.ndarray:
    """Split an axis into blocks, with the inner part last."""
    shape = (*array.shape[:axis], array.shape[axis] // size, size, *array.shape[axis + 1 :])
    return np.ascontiguousarray(np.moveaxis(array.reshape(shape), axis + 1, -1))


WINDOWS = {
    "plain": {},
    "padded": {"pads": [1, 1, 2, 0]},
    "strided": {"strides": [2, 3], "pads": [1, 1, 1, 1]},
    "dilated": {"dilations": [2, 1], "pads": [2, 0, 1, 1]},
}


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("form", ["full", "few", "depthwise", "groups"])
def test_blocked_convolution_is_convolution(form: str, window: str) -> None:
    """Evaluation and tensor expression of each form, against the op on plain channels."""
    options, size = WINDOWS[window], 4
    channels, groups = {
        "full": (8, 1),
        "few": (3, 1),
        "depthwise": (12, 12),
        "groups": (12, 3),
    }[form]
    x, w = data(2, channels, 7, 9), data(12, channels // groups, 3, 2)
    (expected,) = graph.ConvOp(value(x), value(w), groups=groups, **options).evaluate(x, w)
    if form in ("full", "groups"):
        arrays = blocks(x, 1, 4), blocks(blocks(w, 1, 4), 0, size)
    elif form == "few":
        arrays = x, blocks(w, 0, size)
    else:
        arrays = blocks(x, 1, size), blocks(w[:, 0], 0, size)
    op = BlockedConvOp(
        *map(value, arrays),
        plain=form == "few",
        groups=groups if form == "groups" else 1,
        **options,
    )
    np.testing.assert_allclose(check(op, arrays), blocks(expected, 1, size), rtol=1e-5, atol=1e-5)
    assert op.is_depthwise == (form == "depthwise")
    assert op.work() == graph.ConvOp(value(x), value(w), groups=groups, **options).work()


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("pads", [[1, 1, 1, 1], [0, 1, 1, 0]])
@pytest.mark.parametrize("wider", [0, 1])
def test_tiles_read_their_padding_from_a_border(tile: int, pads: list[int], wider: int) -> None:
    """Includes trailing windows that reach further than the convolution's pads."""
    x, w = blocks(data(1, 8, 7, 9), 1, 4), blocks(blocks(data(8, 8, 3, 3), 1, 4), 0, 4)
    (weights,) = WinogradWeightsOp(value(w), tile=tile).evaluate(w)
    op = WinogradConvOp(value(x), value(weights), tile=tile, pads=pads)
    window = padded_window(op, False)
    assert window is not None and window.copies
    more = (0, 0, wider, wider, 0)
    border = window.border.union(Border(more, more))
    inside = np.pad(x, list(zip(border.low, border.high, strict=True)))
    moved = window.inside(value(inside), border)
    left = padded_window(moved, False)
    assert left is not None and not left.copies
    np.testing.assert_allclose(
        check(moved, (inside, weights)), check(op, (x, weights)), rtol=1e-5, atol=1e-5
    )


def test_blocks_of_data_and_result_may_differ_in_size() -> None:
    x, w = data(1, 6, 5, 5), data(8, 6, 3, 3)
    (expected,) = graph.ConvOp(value(x), value(w)).evaluate(x, w)
    arrays = blocks(x, 1, 2), blocks(blocks(w, 1, 2), 0, 4)
    op = BlockedConvOp(*map(value, arrays))
    np.testing.assert_allclose(check(op, arrays), blocks(expected, 1, 4), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rank", [1, 3])
def test_other_numbers_of_spatial_dimensions(rank: int) -> None:
    x, w = data(1, 4, *[5] * rank), data(4, 4, *[3] * rank)
    (expected,) = graph.ConvOp(value(x), value(w)).evaluate(x, w)
    arrays = blocks(x, 1, 4), blocks(blocks(w, 1, 4), 0, 4)
    op = BlockedConvOp(*map(value, arrays))
    np.testing.assert_allclose(check(op, arrays), blocks(expected, 1, 4), rtol=1e-5, atol=1e-5)


def test_locations_and_names_are_kept() -> None:
    """A converted op keeps the name of its ONNX node."""
    from models.convolutional import residual_net
    from tcopt.support.locations import is_known

    module = import_model(residual_net(16, 8))
    ConvertLayoutPass(block=8).apply(Context(), module)
    convolutions = [op for op in module.walk() if isinstance(op, BlockedConvOp)]
    assert len(convolutions) == 6
    assert all(is_known(op.location) for op in convolutions)
