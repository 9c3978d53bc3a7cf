"""MatMulNBits and GatherBlockQuantized, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import f16, f32

import tcopt
from models.checks import check_model, run_imported, run_reference
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
    model, _ = model_of(rng, (1,), 64, 32)
    model.graph.node[0].input[4] = "groups"
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(64, np.int32), "groups"))
    with pytest.raises(UnsupportedError, match="g_idx"):
        import_model(model)


@pytest.mark.parametrize("bits", [4, 8])
def test_rows_in_groups(bits: int, rng: np.random.Generator):
    """Rows of the matrix in any order, each with the scale and zero point of its group."""
    model, feeds = model_of(rng, (3,), 96, 40, bits=bits, zeros="bytes")
    groups = rng.permutation(np.arange(96, dtype=np.int32) // 32)
    model.graph.initializer.append(numpy_helper.from_array(groups, "groups"))
    model.graph.node[0].input[4:] = ["groups"]
    x, weights = feeds["x"], {w.name: numpy_helper.to_array(w) for w in model.graph.initializer}
    parts = [weights["b"] >> shift & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    codes = np.stack(parts, -1).reshape(40, 96).astype(np.float32)
    zeros = weights["zeros"].reshape(40, -1)
    zeros = np.stack([zeros >> shift & ((1 << bits) - 1) for shift in range(0, 8, bits)], -1)
    zeros = zeros.reshape(40, -1)[:, groups]
    matrix = (codes - zeros) * weights["scales"].reshape(40, 3)[:, groups]
    (result,) = run_imported(model, feeds)
    np.testing.assert_allclose(result, x @ matrix.T, rtol=1e-4, atol=1e-4)


def dequantized_model(kind: str, zero: bool, by_columns: bool, rng: np.random.Generator):
    """Return a model of a DequantizeLinear by blocks before a product, and feeds."""
    depth, columns, size = 64, 40, 32
    low, high = (0, 16) if kind.endswith("INT4") else (0, 256)
    low, high = (low, high) if kind.startswith("U") else (low - high // 2, high // 2)
    element = TensorProto.DataType.Value(kind)

    def held(array: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(array.T if by_columns else array)

    def tensor(name: str, rows: int) -> TensorProto:
        values = held(rng.integers(low, high, (rows, columns)))
        return helper.make_tensor(name, element, values.shape, values.ravel().tolist())

    scales = held(rng.uniform(0.01, 0.1, (depth // size, columns)).astype(np.float32))
    stored = [tensor("q", depth), numpy_helper.from_array(scales, "s")]
    stored += [tensor("z", depth // size)] if zero else []
    names, axis = [each.name for each in stored], int(by_columns)
    nodes = [helper.make_node("DequantizeLinear", names, ["w"], axis=axis, block_size=size)]
    nodes.append(helper.make_node("Gemm" if by_columns else "MatMul", ["x", "w"], ["y"]))
    if by_columns:
        nodes[-1].attribute.append(helper.make_attribute("transB", 1))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, depth])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, columns])
    graph = helper.make_graph(nodes, "g", [x], [y], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return model, {"x": rng.standard_normal((3, depth)).astype(np.float32)}


@pytest.mark.parametrize("kind", ["UINT4", "INT4", "UINT8", "INT8"])
@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("by_columns", [False, True])
def test_dequantized_by_blocks(kind: str, zero: bool, by_columns: bool, rng: np.random.Generator):
    """The product reads the codes of a constant matrix that a DequantizeLinear computes."""
    model, feeds = dequantized_model(kind, zero, by_columns, rng)
    (op,) = matrices_of(model)
    assert op.bits.value.data == (8 if kind.endswith("8") else 4)
    assert (op.zeros is None) == (not zero and not kind.startswith("U"))
    check_model(model, feeds, 1e-5)


def test_other_matrices_stay_as_they_are(rng: np.random.Generator):
    """Codes that are an input of the model, or a scale for each column, are dequantised."""
    model, _ = dequantized_model("INT8", False, False, rng)
    codes = model.graph.initializer.pop(0)
    model.graph.input.append(helper.make_tensor_value_info("q", codes.data_type, codes.dims))
    assert not matrices_of(model)
    model, _ = dequantized_model("INT8", False, False, rng)
    scales = numpy_helper.to_array(model.graph.initializer[1])[0]
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(scales, "s"))
    model.graph.node[0].attribute[1].i = 0
    model.graph.node[0].attribute[0].i = 1
    assert not matrices_of(model)


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
