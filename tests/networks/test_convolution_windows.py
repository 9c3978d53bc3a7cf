"""Convolutions with random windows of all kinds, against onnxruntime.

Dilated windows and small images, where some taps read only padding; grouped transposed
convolutions; 16-bit floats; per-channel factors; pooling.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.context import Context

import tcopt
from models.checks import node_model, run_reference
from tcopt.compiler import lower, pipeline
from tcopt.dialects.graph.contraction.sum_taps import SumTapsOp
from tcopt.dialects.graph.core.attributes import values_of
from tcopt.dialects.graph.movement.layout import LayoutTransformOp
from tcopt.dialects.graph.packed.blocked_conv import BlockedConvOp
from tcopt.dialects.loop import GuardOp, LoadOp, enclosing_loops
from tcopt.frontends.onnx import import_model
from tcopt.support.pipelines.text import parse_pipeline

TOLERANCE = {np.float32: 1e-5, np.float16: 4e-3}
"""Tolerance for sums of a few thousand terms in another order, relative to the largest value;
16-bit floats are rounded after each operator."""

MOST_WORK = 2_000_000
"""Maximum number of products in a layer: results are checked, not speed."""


@dataclass(frozen=True)
class Layer:
    """A convolution with random weights, followed by an addition and a Relu."""

    extents: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    batch: int = 1
    inputs: int = 16
    outputs: int = 16
    groups: int = 1
    transposed: bool = False
    dtype: type = np.float32

    @property
    def spans(self) -> list[int]:
        return [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]

    @property
    def places(self) -> list[int]:
        rank = len(self.extents)
        pads = [a + b for a, b in zip(self.pads[:rank], self.pads[rank:], strict=True)]
        rows = zip(self.extents, self.strides, self.spans, pads, strict=True)
        if self.transposed:
            return [(n - 1) * s + span - p for n, s, span, p in rows]
        return [(n + p - span) // s + 1 for n, s, span, p in rows]

    @property
    def is_valid(self) -> bool:
        products = prod(self.places) * self.batch * self.outputs * self.inputs * prod(self.kernel)
        return min(self.places) > 0 and products // self.groups < MOST_WORK

    def model(self) -> onnx.ModelProto:
        rng = np.random.default_rng(0)
        first, second = self.inputs, self.outputs // self.groups
        if not self.transposed:
            first, second = self.outputs, self.inputs // self.groups
        values = {
            "w": rng.standard_normal((first, second, *self.kernel)) / 4,
            "b": rng.standard_normal(self.outputs),
        }
        node = helper.make_node(
            "ConvTranspose" if self.transposed else "Conv",
            ["x", "w", "b"],
            ["c"],
            strides=self.strides,
            dilations=self.dilations,
            pads=self.pads,
            group=self.groups,
        )
        nodes = [
            node,
            helper.make_node("Add", ["c", "r"], ["a"]),
            helper.make_node("Relu", ["a"], ["y"]),
        ]
        kind = TensorProto.FLOAT16 if self.dtype is np.float16 else TensorProto.FLOAT
        result = [self.batch, self.outputs, *self.places]
        inputs = [
            helper.make_tensor_value_info("x", kind, [self.batch, self.inputs, *self.extents]),
            helper.make_tensor_value_info("r", kind, result),
        ]
        output = helper.make_tensor_value_info("y", kind, result)
        weights = [numpy_helper.from_array(v.astype(self.dtype), n) for n, v in values.items()]
        graph = helper.make_graph(nodes, "layer", inputs, [output], weights)
        opsets = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def drawn(rng: np.random.Generator, *, transposed: bool = False, dtype: type = np.float32) -> Layer:
    """A layer whose windows often reach far beyond the data."""

    def some(low: int, high: int, count: int) -> tuple[int, ...]:
        return tuple(map(int, rng.integers(low, high, count)))

    while True:
        rank = int(rng.choice([1, 2, 2, 2, 3]))
        far = int(rng.choice([2, 4, 14]))
        kernel, dilations = some(1, 5, rank), some(1, 3 if transposed else far, rank)
        spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
        groups = int(rng.choice([1, 1, 2, 3]))
        inputs, outputs = (int(groups * rng.choice([1, 2, 5, 16])) for _ in range(2))
        if rng.random() < 0.3:
            groups = outputs = inputs
        layer = Layer(
            some(1, 14, rank), kernel, some(1, 4, rank), dilations,
            tuple(int(rng.integers(0, span)) for _ in range(2) for span in spans),
            int(rng.integers(1, 3)), inputs, outputs, groups, transposed, dtype,
        )  # fmt: skip
        if layer.is_valid:
            return layer


def check(layer: Layer) -> None:
    """Compile and run a layer, and compare with onnxruntime in f32."""
    rng = np.random.default_rng(1)
    shapes = {"x": (layer.inputs, *layer.extents), "r": (layer.outputs, *layer.places)}
    feeds = {
        name: rng.standard_normal((layer.batch, *shape)).astype(layer.dtype)
        for name, shape in shapes.items()
    }
    (found,) = tcopt.compile(layer.model(), workers=0).run(feeds)
    (wanted,) = run_reference(layer.model(), feeds)
    error = np.abs(found.astype(np.float64) - wanted).max() / max(np.abs(wanted).max(), 1e-3)
    assert found.shape == wanted.shape
    assert error < TOLERANCE[layer.dtype], layer


@pytest.mark.nightly(every=6)
@pytest.mark.parametrize("seed", range(12))
def test_windows_beyond_the_data(seed: int) -> None:
    check(drawn(np.random.default_rng(seed)))


@pytest.mark.nightly(every=6)
@pytest.mark.parametrize("seed", range(12))
def test_transposed(seed: int) -> None:
    check(drawn(np.random.default_rng(seed), transposed=True))


FEW_CHANNELS = [
    Layer((12, 20), (3, 3), (1, 1), (1, 1), (1,) * 4, inputs=64, outputs=1),
    Layer((9, 11), (5, 3), (2, 1), (1, 2), (2, 0, 1, 2), batch=2, inputs=64, outputs=3),
    Layer((40,), (5,), (1,), (1,), (2, 2), inputs=64, outputs=2),
    Layer((4, 3, 5), (3,) * 3, (1,) * 3, (1,) * 3, (0,) * 6, 2, 32, 6, groups=2, transposed=True),
    Layer((7, 7), (4, 4), (2, 2), (1, 1), (1,) * 4, inputs=64, outputs=1, transposed=True),
    Layer((12, 20), (3, 3), (1, 1), (1, 1), (1,) * 4, inputs=64, outputs=1, dtype=np.float16),
]


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("layer", FEW_CHANNELS)
def test_few_channels_are_sums_of_taps(layer: Layer) -> None:
    module = import_model(layer.model())
    lower(module, pipeline("cpu:skylake-avx512")[:2])
    assert any(isinstance(op, SumTapsOp) for op in module.walk())
    check(layer)


def test_few_channels_of_plain_phases_stay_plain() -> None:
    """Phases that are not whole blocks of channels are interleaved in plain layout, so their
    products are computed in plain layout too."""
    layer = Layer((28, 28), (2, 2), (2, 2), (1, 1), (0,) * 4, inputs=64, outputs=1, transposed=True)
    module = import_model(layer.model())
    lower(module, pipeline("cpu:skylake-avx512")[:2])
    assert not any(isinstance(op, LayoutTransformOp) for op in module.walk())
    check(layer)


@pytest.mark.nightly(every=6)
@pytest.mark.parametrize("seed", range(6))
def test_strides_and_dilations_with_common_factors(seed: int) -> None:
    rng = np.random.default_rng(seed)
    while True:
        steps = rng.integers(1, 4, 2)
        strides, dilations = (tuple((steps * rng.integers(1, 4, 2)).tolist()) for _ in range(2))
        kernel, extents = (tuple(rng.integers(1, n, 2).tolist()) for n in (4, 20))
        pads = tuple(rng.integers(0, 6, 4).tolist())
        layer = Layer(extents, kernel, strides, dilations, pads, 2, 5, 16)
        if layer.is_valid:
            break
    check(layer)


def test_single_places_and_single_taps() -> None:
    check(Layer((10, 8), (3, 3), (2, 3), (4, 5), (0, 3, 0, 1), 2, 5, 16))
    check(Layer((9, 4), (1, 1), (2, 3), (1, 1), (0,) * 4, 2, 5, 5, groups=5, transposed=True))


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("inputs", [1, 3, 12])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_groups_of_whole_blocks_read_plain_data(inputs: int, dtype: type) -> None:
    """Windows that do not overlap, and taps that read only padding, in groups with few channels."""
    for strides, dilations in (((2, 3), (1, 1)), ((1, 1), (5, 6))):
        layer = Layer((9, 10), (3, 3), strides, dilations, (6,) * 4, 2, 3 * inputs, 48, 3)
        check(replace(layer, dtype=dtype))
    module = import_model(layer.model())
    lower(module, pipeline("cpu:haswell")[:2])
    (conv,) = (op for op in module.walk() if isinstance(op, BlockedConvOp))
    assert conv.is_plain


@pytest.mark.nightly(every=4)
@pytest.mark.parametrize("seed", range(8))
def test_16_bit_floats(seed: int) -> None:
    rng = np.random.default_rng(seed)
    check(drawn(rng, transposed=seed % 2 > 0, dtype=np.float16))


def test_taps_that_see_nothing_are_skipped() -> None:
    """No padding is stored, each row of taps of a tile is tested once, and along a row there are
    only multiply-adds whose taps read data."""
    layer = Layer((16, 16), (3, 3), (1, 1), (12, 12), (12, 12, 12, 12), inputs=64, outputs=64)
    module = import_model(layer.model())
    phases = pipeline("cpu:haswell")
    lower(module, phases[:2])
    (conv,) = (op for op in module.walk() if isinstance(op, BlockedConvOp))
    assert values_of(conv.skips) == (0, 1)
    lower(module, phases[2:5])
    for each in parse_pipeline("expand-borders,compact-buffers,align-storage,lower-blocks"):
        each.apply(Context(), module)
    extents = [
        [loop.trip_count for loop in enclosing_loops(guard)]
        for guard in module.walk()
        if isinstance(guard, GuardOp) and tuple(guard.condition_extents) == (16,)
    ]
    # Loops over rows of taps, then over blocks of channels, inside the tiles of rows.
    assert [3, 8] in [each[:2] for each in extents]
    for each in parse_pipeline("vectorize,fuse-multiply-add,unroll-loops"):
        each.apply(Context(), module)
    # Weights are [O / b, C / a, rows, columns, a, b].
    counts = Counter(
        str(factor.owner.map.data.results[3])
        for op in module.walk()
        if op.name == "vector.fma"
        for factor in op.operands
        if isinstance(factor.owner, LoadOp) and len(factor.owner.map.data.results) == 6
    )
    assert counts["1"] == 4 * counts["0"] == 4 * counts["2"] > 0


@pytest.mark.nightly(every=9)
@pytest.mark.parametrize(("extent", "kernel", "dilation"), [(17, 3, 12), (28, 5, 6), (5, 5, 1)])
@pytest.mark.parametrize("groups", [1, 2, 32])
def test_taps_of_some_columns(extent: int, kernel: int, dilation: int, groups: int) -> None:
    """Tiles of columns that no tap's range divides evenly, in one and three dimensions."""
    pad = kernel // 2 * dilation
    for rank, more in ((1, 0), (3, 2)):
        extents = (*(2,) * more, extent)
        window = [(*(1,) * more, n) for n in (kernel, 1, dilation)]
        pads = (*(0,) * more, pad, *(0,) * more, pad + 1)
        layer = Layer(extents, *window, pads, 2, 32, 32, groups)
        assert len(layer.extents) == rank
        check(layer)


@pytest.mark.nightly(every=7)
@pytest.mark.parametrize("seed", range(8))
def test_pools(seed: int) -> None:
    """Large windows, one dimension after the other."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(2, 4))
    kernel, strides = (rng.integers(low, high, rank).tolist() for low, high in ((2, 6), (1, 3)))
    x = rng.standard_normal((1, int(rng.integers(1, 20)), *rng.integers(6, 20, rank)))
    options = {"count_include_pad": int(rng.integers(2))} if seed % 2 else {}
    model = node_model(
        "AveragePool" if seed % 2 else "MaxPool",
        [x.astype(np.float32)],
        kernel_shape=kernel,
        strides=strides,
        pads=[int(rng.integers(0, k)) for _ in range(2) for k in kernel],
        ceil_mode=int(rng.integers(2)),
        **options,
    )
    feeds = {"x0": x.astype(np.float32)}
    (found,) = tcopt.compile(model, workers=0).run(feeds)
    (wanted,) = run_reference(model, feeds)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.nightly(every=5)
@pytest.mark.parametrize("seed", range(8))
def test_resizing(seed: int) -> None:
    """Images of all widths, including those narrower than vectors."""
    rng = np.random.default_rng(seed)
    extents = rng.integers(1, 40, 2)
    x = rng.standard_normal((1, int(rng.integers(1, 5)), *extents)).astype(np.float32)
    scales = np.array([1, 1, *rng.choice([0.5, 1, 1.5, 2, 3, 4], 2)], np.float32)
    mode = ["nearest", "linear"][seed % 2]
    operands = [x, None, np.maximum(scales, 1 / np.array(x.shape, np.float32))]
    model = node_model("Resize", operands, constants=[2], mode=mode)
    (found,) = tcopt.compile(model, workers=0).run({"x0": x})
    (wanted,) = run_reference(model, {"x0": x})
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_phases_are_woven_in_registers() -> None:
    """Vectors are along the phases of a narrow image, and store whole rows of the result."""
    layer = Layer((9, 9), (4, 4), (2, 2), (1, 1), (1,) * 4, groups=16, transposed=True)
    module = import_model(layer.model())
    phases = pipeline("cpu:haswell")
    lower(module, phases[:6])
    names = [op.name for op in module.walk()]
    assert "vector.shuffle" in names
    assert not {"vector.gather", "vector.scatter"} & set(names)
