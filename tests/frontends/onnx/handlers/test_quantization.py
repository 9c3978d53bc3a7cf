"""Quantised operators, against onnxruntime."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx.reference
import pytest
from onnx import TensorProto, helper

import tcopt
from models.checks import check_node, node_model, run_imported, run_reference

SCALE = np.array(0.03, np.float32)
COARSE = np.array(3.0, np.float32)


def bytes_of(rng: np.random.Generator, *shape: int, dtype=np.uint8) -> np.ndarray:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype)


def weights(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Signed weights of 7 bits: pairs of larger products saturate in onnxruntime on old CPUs."""
    return rng.integers(-64, 64, shape).astype(np.int8)


def point(value: int, dtype=np.uint8) -> np.ndarray:
    return np.array(value, dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
@pytest.mark.parametrize("zero", [3, None])
def test_quantize_and_back(dtype: type, zero: int | None, rng: np.random.Generator):
    """Values far out of range saturate."""
    info = np.iinfo(dtype)
    extent = 2 * (int(info.max) - int(info.min)) * float(SCALE)
    x = rng.uniform(-extent, extent, (2, 3, 40)).astype(np.float32)
    offset = None if zero is None else np.array(zero, dtype)
    if zero is not None or dtype is np.uint8:
        check_node("QuantizeLinear", x, SCALE, offset, opset=21)
    check_node("DequantizeLinear", bytes_of(rng, 2, 3, dtype=dtype), SCALE, offset, opset=21)


def test_halves_round_to_even(rng: np.random.Generator):
    x = np.arange(-9, 10, dtype=np.float32) / 2
    one, zero = np.array(1, np.float32), point(0, np.int8)
    (result,) = run_imported(
        node_model("QuantizeLinear", [x, one, zero]), {"x": x, "s": one, "z": zero}
    )
    np.testing.assert_array_equal(result, np.rint(x))
    check_node("QuantizeLinear", x, one, zero)


def test_limits_in_front_of_integers():
    """Whether or not they exceed the integer range, and whether or not they are removed."""
    x = np.linspace(-9, 9, 721, dtype=np.float32)
    x[:3] = -np.inf, np.inf, -0.0
    bounds = [(0.0, 6.0), (-1.0, 2.55), (0.0, np.inf), (3.0, 1.0)]
    scales = [np.float32(6 / 255), np.float32(0.01), np.float32(0.1)]
    nodes, weights, expected = [], [], []
    for number, (zero, (low, high), scale) in enumerate(product([0, 255, 100], bounds, scales)):
        given = {"low": np.float32(low), "high": np.float32(high), "scale": scale}
        given["zero"] = np.uint8(zero)
        weights += [
            onnx.numpy_helper.from_array(np.array(value), f"{name}{number}")
            for name, value in given.items()
        ]
        low_name, high_name, *parameters = (f"{name}{number}" for name in given)
        nodes += [
            helper.make_node("Clip", ["x", low_name, high_name], [f"limited{number}"]),
            helper.make_node("QuantizeLinear", [f"limited{number}", *parameters], [f"q{number}"]),
        ]
        real = np.minimum(np.maximum(x, given["low"]), given["high"])
        expected.append(np.clip(np.rint(real / scale) + zero, 0, 255))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info(f"q{n}", TensorProto.UINT8, None) for n in range(36)],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    np.testing.assert_array_equal(tcopt.compile(model).run({"x": x}), expected)


def test_ties_by_division(rng: np.random.Generator):
    """Quotients must be divided: multiplying by the inverse would round differently."""
    scale = np.array(0.1, np.float32)
    x = (np.arange(-200, 200, dtype=np.float32) + np.float32(0.5)) * scale
    check_node("QuantizeLinear", x, scale, point(100))


def test_by_axis(rng: np.random.Generator):
    x = rng.uniform(-5, 5, (2, 3, 4)).astype(np.float32)
    scale, zero = rng.uniform(0.02, 0.1, 3).astype(np.float32), bytes_of(rng, 3)
    for axis in (1, -2):
        check_node("QuantizeLinear", x, scale, zero, axis=axis)
        check_node("DequantizeLinear", bytes_of(rng, 2, 3, 4), scale, zero, axis=axis)


@pytest.mark.parametrize("extent", [8, 7])
def test_by_blocks(extent: int, rng: np.random.Generator):
    """Along an axis that whole blocks fill, or all but the last."""
    x = rng.uniform(-5, 5, (3, extent, 2)).astype(np.float32)
    scale, zero = rng.uniform(0.02, 0.1, (3, 2, 2)).astype(np.float32), bytes_of(rng, 3, 2, 2)
    quantised = bytes_of(rng, 3, extent, 2)
    spread = {"axis": 1, "block_size": 4}
    for op_type, data in (("QuantizeLinear", x), ("DequantizeLinear", quantised)):
        model = node_model(op_type, [data, scale, zero], opset=21, **spread)
        feeds = {"x0": data, "x1": scale, "x2": zero}
        (ours,) = run_imported(model, feeds)
        s, z = (np.repeat(v, 4, axis=1)[:, :extent] for v in (scale, zero.astype(np.float32)))
        if op_type == "QuantizeLinear":
            expected = np.clip(np.rint(x / s) + z, 0, 255).astype(np.uint8)
        else:
            expected = (quantised.astype(np.float32) - z) * s
        np.testing.assert_array_equal(ours, expected)


def test_integer_products(rng: np.random.Generator):
    a, b, zero = bytes_of(rng, 3, 4), bytes_of(rng, 4, 5), point(7)
    check_node("MatMulInteger", a, b, zero, zero)
    check_node("MatMulInteger", a, b, zero, bytes_of(rng, 5), constants=[1, 3])
    check_node("MatMulInteger", a, weights(rng, 4, 5), None, None)
    x, w = bytes_of(rng, 1, 2, 5, 5), bytes_of(rng, 3, 2, 3, 3)
    check_node("ConvInteger", x, w, zero, pads=[1, 1, 1, 1])
    check_node("ConvInteger", x, w, zero, zero, strides=[2, 2], constants=[1, 3])


def test_zero_points_of_rows(rng: np.random.Generator):
    """ONNX allows one for each row of the left matrix, but onnxruntime does not."""
    a, b, zeros = bytes_of(rng, 3, 4), bytes_of(rng, 4, 5), bytes_of(rng, 3)
    model = node_model("MatMulInteger", [a, b, zeros, point(2)])
    (ours,) = run_imported(model, {"x0": a, "x1": b, "x2": zeros, "x3": point(2)})
    expected = (a.astype(np.int32) - zeros[:, None]) @ (b.astype(np.int32) - 2)
    np.testing.assert_array_equal(ours, expected)


@pytest.mark.nightly(every=4)
@pytest.mark.parametrize("left", [np.uint8, np.int8])
@pytest.mark.parametrize("right", [np.uint8, np.int8])
@pytest.mark.parametrize(
    "shapes", [((20, 37), (37, 19)), ((2, 9, 64), (2, 64, 16)), ((1, 8), (8, 40))]
)
def test_products_of_computed_matrices(left: type, right: type, shapes: tuple, rng):
    """All byte values, with zero points on both sides at the ends of their ranges."""
    a, b = bytes_of(rng, *shapes[0], dtype=left), bytes_of(rng, *shapes[1], dtype=right)
    for zeros in ((None, None), (7, 3), (np.iinfo(left).max, np.iinfo(right).min)):
        given = [z if z is None else point(z, t) for z, t in zip(zeros, (left, right), strict=True)]
        offsets = [0 if z is None else int(z) for z in zeros]
        expected = (a.astype(np.int32) - offsets[0]) @ (b.astype(np.int32) - offsets[1])
        model = node_model("MatMulInteger", [a, b, *given])
        feeds = {f"x{i}": x for i, x in enumerate((a, b, *given)) if x is not None}
        (ours,) = tcopt.compile(model).run(feeds)
        np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_quantized_matrix_products(dtype: type, rng: np.random.Generator):
    one, zero = np.array(0.05, np.float32), point(40, dtype)
    a, b = bytes_of(rng, 3, 4, dtype=dtype), bytes_of(rng, 4, 5, dtype=dtype)
    check_node("QLinearMatMul", a, one, zero, b, one, zero, COARSE, zero)
    scale = rng.uniform(0.02, 0.1, 5).astype(np.float32)
    zeros = np.zeros(5, np.int8)
    w = weights(rng, 4, 5)
    operands = (a, one, zero, w, scale, zeros, SCALE, zero)
    check_node("QLinearMatMul", *operands, constants=[1, 2, 3, 4, 5, 6, 7])


@pytest.mark.parametrize("options", [{}, {"pads": [1, 1, 1, 1]}, {"group": 2, "strides": [2, 1]}])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_quantized_convolution(options: dict, dtype: type, rng: np.random.Generator):
    zero = point(100, dtype)
    groups = options.get("group", 1)
    x = bytes_of(rng, 1, 4, 6, 7, dtype=dtype)
    w = weights(rng, 6, 4 // groups, 3, 3)
    scale = rng.uniform(0.02, 0.1, 6).astype(np.float32)
    bias = rng.integers(-500, 500, 6).astype(np.int32)
    operands = (x, SCALE, zero, w, scale, np.zeros(6, np.int8), COARSE, zero, bias)
    check_node("QLinearConv", *operands, constants=[1, 2, 3, 4, 5, 6, 7, 8], **options)


@pytest.mark.parametrize("x", [[-3, 5], [1, 5], [-2, -1], [0, 0]])
def test_dynamic_quantization(x: list, rng: np.random.Generator):
    data = rng.uniform(*x, (4, 5)).astype(np.float32)
    check_node("DynamicQuantizeLinear", data, outputs=3)


def check_steps(
    op_type: str, *inputs: np.ndarray | None, opset: int = 17, steps: int = 1, **kwargs
):
    """An onnxruntime operator; integers may differ by one step, but most must be equal."""
    model = node_model(op_type, inputs, opset=opset, domain="com.microsoft", **kwargs)
    if op_type == "QLinearSoftmax":
        model.graph.node[0].attribute.append(helper.make_attribute("opset", opset))
    constants = kwargs.get("constants", ())
    feeds = {f"x{i}": a for i, a in enumerate(inputs) if a is not None and i not in constants}
    for ours, theirs in zip(run_imported(model, feeds), run_reference(model, feeds), strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        if ours.dtype.kind == "f":
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
            continue
        difference = np.abs(ours.astype(int) - theirs)
        assert difference.max() <= steps
        assert difference.mean() <= 0.05


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
def test_binary(op_type: str, dtype: type, rng: np.random.Generator):
    a, b = bytes_of(rng, 2, 5, dtype=dtype), bytes_of(rng, 2, 5, dtype=dtype)
    out = np.array(0.04 if op_type == "QLinearAdd" else 0.1, np.float32)
    zero, other = point(10, dtype), point(90, dtype)
    check_steps(op_type, a, SCALE, zero, b, np.array(0.015, np.float32), other, out, zero)


@pytest.mark.parametrize(
    ("op_type", "options"),
    [
        ("QLinearSigmoid", {}),
        ("QLinearLeakyRelu", {"alpha": 0.2}),
        ("QLinearGlobalAveragePool", {}),
        ("QLinearAveragePool", {"kernel_shape": [2, 3], "pads": [1, 1, 0, 0]}),
        ("QLinearSoftmax", {"axis": -1}),
    ],
)
def test_unary(op_type: str, options: dict, rng: np.random.Generator):
    x = bytes_of(rng, 1, 3, 5, 4)
    small = np.array(
        1 / 256 if op_type in ("QLinearSigmoid", "QLinearSoftmax") else 0.03, np.float32
    )
    operands = (x, SCALE, point(128), small, point(0 if small < 0.01 else 100))
    check_steps(op_type, *operands, constants=[1, 2, 3, 4], **options)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("axes", [[1], [-1, 0], [0, 1, 2]])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_means(dtype: type, axes: list[int], keepdims: int, rng: np.random.Generator):
    """QLinearReduceMean, which onnxruntime declares but does not implement on CPUs."""
    x, zeros = bytes_of(rng, 2, 3, 4, dtype=dtype), (point(40, dtype), point(7, dtype))
    scales = np.array(0.05, np.float32), np.array(0.02, np.float32)
    operands = (x, scales[0], zeros[0], scales[1], zeros[1])
    options = {"axes": axes, "keepdims": keepdims}
    model = node_model("QLinearReduceMean", operands, domain="com.microsoft", **options)
    (ours,) = run_imported(model, {f"x{i}": value for i, value in enumerate(operands)})
    real = (x.astype(np.float64) - zeros[0]) * scales[0]
    mean = real.mean(tuple(axes), keepdims=bool(keepdims))
    exact = np.clip(mean / scales[1] + zeros[1], np.iinfo(dtype).min, np.iinfo(dtype).max)
    assert (ours.shape, ours.dtype) == (exact.shape, dtype)
    assert np.abs(ours - exact).max() <= 0.501


def test_concat(rng: np.random.Generator):
    parts = [bytes_of(rng, 2, n) for n in (3, 4)]
    zero = point(120)
    operands = (SCALE, zero, parts[0], SCALE, zero, parts[1], np.array(0.06, np.float32), point(7))
    check_steps("QLinearConcat", *operands, axis=1, constants=[0, 1, 3, 4, 6, 7])


def test_where(rng: np.random.Generator):
    parts = [bytes_of(rng, 2, 3) for _ in range(2)]
    condition, zero = rng.uniform(size=(2, 3)) < 0.5, point(120)
    operands = (
        condition,
        parts[0],
        SCALE,
        zero,
        parts[1],
        np.array(0.06, np.float32),
        point(7),
        SCALE,
        zero,
    )
    check_steps("QLinearWhere", *operands, constants=[2, 3, 5, 6, 7, 8])


@pytest.mark.parametrize("real", [False, True])
def test_gemm(real: bool, rng: np.random.Generator):
    a, b = bytes_of(rng, 3, 8), weights(rng, 5, 8)
    scale = rng.uniform(0.002, 0.01, 5).astype(np.float32)
    bias = rng.integers(-500, 500, 5).astype(np.int32)
    out = () if real else (np.array(0.3, np.float32), point(100))
    operands = (a, SCALE, point(7), b, scale, np.zeros(5, np.int8), bias, *out)
    constants = range(1, len(operands))
    check_steps("QGemm", *operands, transB=1, alpha=1.0, constants=constants)


def test_products_in_real_numbers(rng: np.random.Generator):
    x, w = rng.uniform(-1, 2, (3, 8)).astype(np.float32), weights(rng, 8, 5)
    bias = rng.uniform(-1, 1, 5).astype(np.float32)
    zero = point(3, np.int8)
    check_steps("DynamicQuantizeMatMul", x, w, SCALE, zero, bias, constants=[1, 2, 3, 4])
    operands = (bytes_of(rng, 3, 8), w, SCALE, SCALE, point(9), zero, bias)
    check_steps("MatMulIntegerToFloat", *operands, constants=[1, 2, 3, 4, 5, 6])


@pytest.mark.parametrize("op_type", ["QLinearConv", "QLinearMatMul"])
def test_reference_of_onnx_agrees(op_type: str, rng: np.random.Generator):
    """Operators of ONNX, against its reference evaluator."""
    zero = point(100)
    shapes = ((1, 2, 5, 5), (3, 2, 3, 3)) if op_type == "QLinearConv" else ((3, 4), (4, 5))
    a, b = (bytes_of(rng, *shape) for shape in shapes)
    operands = (a, SCALE, zero, b, SCALE, zero, np.array(0.1, np.float32), zero)
    model = node_model(op_type, operands, constants=[1, 2, 4, 5, 6, 7])
    model.graph.output[0].CopyFrom(
        helper.make_tensor_value_info("y0", TensorProto.UINT8, [None] * a.ndim)
    )
    feeds = {"x0": a, "x3": b}
    (theirs,) = onnx.reference.ReferenceEvaluator(model).run(None, feeds)
    (ours,) = run_imported(model, feeds)
    np.testing.assert_array_equal(ours, theirs)
