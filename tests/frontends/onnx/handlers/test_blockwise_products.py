"""MatMulNBits and GatherBlockQuantized, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper
from xdsl.dialects.builtin import f16, f32

import tcopt
from models.checks import check_model, run_reference
from tcopt.dialects.graph import BlockwiseMatmulOp
from tcopt.dialects.graph.core.types import element_type
from tcopt.frontends.onnx import import_model
from tcopt.support.errors import ImportModelError, UnsupportedError

TYPES = {np.float32: 1, np.float16: 10}


def model_of(
    rng: np.random.Generator,
    rows: tuple[int, ...],
    depth: int,
    columns: int,
    *,
    bits: int = 4,
    size: int = 32,
    zeros: str = "",
    bias: bool = False,
    dtype: type = np.float32,
    computed: bool = False,
):
    """Return a model with one node, and feeds; `zeros` are "bytes", "numbers" or not given."""
    blocks = -(-depth // size)
    weights = {
        "b": rng.integers(0, 256, (columns, blocks, size * bits // 8)).astype(np.uint8),
        "scales": rng.uniform(0.01, 0.1, columns * blocks).astype(dtype),
    }
    if zeros == "bytes":
        weights["zeros"] = rng.integers(0, 256, columns * -(-blocks * bits // 8)).astype(np.uint8)
    elif zeros == "numbers":
        weights["zeros"] = rng.uniform(0, 1 << bits, (columns, blocks)).astype(dtype)
    if bias:
        weights["bias"] = rng.standard_normal(columns).astype(dtype)
    names = ["x", "b", "scales", "zeros" if zeros else "", "", "bias" if bias else ""]
    node = helper.make_node(
        "MatMulNBits", names, ["y"], domain="com.microsoft", K=depth, N=columns, bits=bits,
        block_size=size,
    )  # fmt: skip
    feeds = {"x": rng.standard_normal((*rows, depth)).astype(dtype)}
    if computed:
        feeds["b"] = weights.pop("b")
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in feeds.items()
    ]
    output = helper.make_tensor_value_info("y", TYPES[dtype], (*rows, columns))
    stored = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    graph = helper.make_graph([node], "g", inputs, [output], stored)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9), feeds


@pytest.mark.parametrize("rows", [(1,), (2, 3), (40,)])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"size": 16, "zeros": "bytes", "bias": True},
        {"size": 128, "zeros": "numbers"},
        {"bits": 8, "size": 64, "zeros": "bytes"},
        {"bits": 2, "zeros": "bytes"},
    ],
)
def test_matmul_n_bits(rows: tuple, options: dict, rng: np.random.Generator):
    """Columns that do not fill a panel, and a depth that does not fill a block."""
    model, feeds = model_of(rng, rows, 200, 77, **options)
    check_model(model, feeds, 1e-5)


def test_of_half_precision(rng: np.random.Generator):
    for rows in ((1,), (20,)):
        model, feeds = model_of(rng, rows, 96, 33, dtype=np.float16, zeros="bytes")
        check_model(model, feeds, 4e-3)


def test_of_computed_codes(rng: np.random.Generator):
    model, feeds = model_of(rng, (3,), 64, 40, zeros="bytes", computed=True)
    check_model(model, feeds, 1e-5)


@pytest.mark.parametrize("bits", [4, 8])
def test_data_in_8_bits(bits: int, rng: np.random.Generator):
    """With accuracy level 4, blocks of data are rounded as onnxruntime rounds them."""
    model, feeds = model_of(rng, (3,), 128, 64, bits=bits)
    model.graph.node[0].attribute.append(helper.make_attribute("accuracy_level", 4))
    (op,) = matrices_of(model)
    assert op.rounded is not None
    check_model(model, feeds, 1e-5)


def test_scales_that_f16_represents_are_short(rng: np.random.Generator):
    """Other scales stay f32; zero points in the middle of the codes are omitted."""
    model, feeds = model_of(rng, (1,), 64, 32)
    (op,) = matrices_of(model)
    assert element_type(op.scales) == f32
    scales = np.round(numpy_helper.to_array(model.graph.initializer[1]) * 1024) / 1024
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(scales, "scales"))
    middle = numpy_helper.from_array(np.full(32, 0x88, np.uint8), "zeros")
    model.graph.initializer.append(middle)
    model.graph.node[0].input[3] = "zeros"
    (op,) = matrices_of(model)
    assert element_type(op.scales) == f16
    assert op.zeros is None
    check_model(model, feeds, 1e-5)


def matrices_of(model) -> list[BlockwiseMatmulOp]:
    """Return the blockwise products of an imported model."""
    return [op for op in import_model(model).walk() if isinstance(op, BlockwiseMatmulOp)]


def test_a_range_of_rows(rng: np.random.Generator):
    """One program for few and for many rows."""
    model, _ = model_of(rng, (2,), 64, 40, zeros="bytes")
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_param = "rows"
    compiled = tcopt.compile(model, dims={"rows": (1, 20)})
    for rows in (1, 3, 8, 9, 20):
        x = rng.standard_normal((rows, 64)).astype(np.float32)
        (expected,) = run_reference(model, {"x": x})
        (result,) = compiled.run({"x": x})
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_what_does_not_fit(rng: np.random.Generator):
    model, _ = model_of(rng, (1,), 64, 32)
    node = model.graph.node[0]
    node.attribute[0].i = 65
    with pytest.raises(ImportModelError, match="K = 65"):
        import_model(model)
    model, _ = model_of(rng, (1,), 64, 32)
    model.graph.node[0].attribute[2].i = 3
    with pytest.raises(ImportModelError, match="3 bits"):
        import_model(model)
    model, _ = model_of(rng, (1,), 64, 32, bias=True)
    model.graph.node[0].input[4] = "bias"
    with pytest.raises(UnsupportedError, match="g_idx"):
        import_model(model)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_rows_of_quantized_embeddings(
    bits: int, zeros: bool, dtype: type, rng: np.random.Generator
):
    """Negative indices too; the last block is partial."""
    extent, blocks = 72, 5
    weights = {
        "codes": rng.integers(0, 256, (10, extent * bits // 8)).astype(np.uint8),
        "scales": rng.uniform(0.1, 1, (10, blocks)).astype(dtype),
    }
    if zeros:
        weights["zeros"] = rng.integers(0, 256, (10, -(-blocks * bits // 8))).astype(np.uint8)
    names = ["codes", "i", "scales", *(["zeros"] if zeros else [])]
    node = helper.make_node(
        "GatherBlockQuantized", names, ["y"], domain="com.microsoft", block_size=16, bits=bits,
        gather_axis=0, quantize_axis=-1,
    )  # fmt: skip
    places = helper.make_tensor_value_info("i", 7, [2, 3])
    output = helper.make_tensor_value_info("y", TYPES[dtype], [2, 3, extent])
    stored = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    graph = helper.make_graph([node], "g", [places], [output], stored)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    check_model(model, {"i": np.array([[0, -1, 4], [9, 3, -10]], np.int64)}, 1e-3)
