"""Operators that onnxruntime's optimiser fuses, against onnxruntime; those that it supports only on
GPUs, against numpy."""

from __future__ import annotations

from math import erf, sqrt

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, parser

from models.checks import check_model, check_node, node_model, run_imported
from tcopt.frontends.onnx import import_model
from tcopt.support.errors import ImportModelError, UnsupportedError

DOMAIN = "com.microsoft"


def normal(rng: np.random.Generator, *shape: int, dtype=np.float32) -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


def check(op_type: str, *inputs: np.ndarray | None, **options) -> None:
    """Compare a node's results with onnxruntime's."""
    check_node(op_type, *inputs, domain=DOMAIN, **options)


def computed(op_type: str, *inputs: np.ndarray | None, **options) -> list[np.ndarray]:
    """Run a node in tcopt."""
    feeds = {f"x{i}": a for i, a in enumerate(inputs) if a is not None}
    return run_imported(node_model(op_type, inputs, domain=DOMAIN, **options), feeds)


@pytest.mark.parametrize("transposed", [{}, {"transA": 1}, {"transB": 1, "alpha": 0.125}])
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_matrix_products(transposed: dict, batch: tuple[int, ...], rng):
    a = normal(rng, *batch, *((5, 4) if "transA" in transposed else (4, 5)))
    b = normal(rng, *batch, *((6, 5) if "transB" in transposed else (5, 6)))
    check("FusedMatMul", a, b, **transposed)
    if batch:
        check("FusedMatMul", a, b[0], **transposed)


@pytest.mark.parametrize("trans", [0, 1])
def test_products_of_batches_that_move(trans: int, rng):
    """The first axis of a factor moves after the other batch axes."""
    a = normal(rng, 4, 2, 3, 5) if not trans else normal(rng, 5, 2, 3, 4)
    b = normal(rng, 2, 3, 5, 6)
    check("FusedMatMul", a, b, transBatchA=1, transA=trans)
    moved = np.ascontiguousarray(np.moveaxis(normal(rng, 2, 3, 6, 5), 2, 0))
    check("FusedMatMul", normal(rng, 2, 3, 4, 5), moved, transBatchB=1, transB=1)


def test_vectors(rng):
    check("FusedMatMul", normal(rng, 5), normal(rng, 5, 3), transA=1)
    check("FusedMatMul", normal(rng, 4, 5), normal(rng, 5), transB=1, alpha=2.0)


@pytest.mark.parametrize(
    "activation",
    [
        {"activation": "Relu"},
        {"activation": "LeakyRelu", "activation_alpha": 0.2},
        {"activation": "HardSigmoid", "activation_alpha": 0.1, "activation_beta": 0.4},
    ],
)
def test_gemm_and_activation(activation: dict, rng):
    a, b, c = normal(rng, 3, 4), normal(rng, 5, 4), normal(rng, 5)
    check("FusedGemm", a, b, c, transB=1, alpha=0.5, beta=2.0, **activation)


@pytest.mark.parametrize(
    "activation",
    [
        {},
        {"activation": "Relu"},
        {"activation": "Tanh"},
        {"activation": "LeakyRelu", "activation_params": [0.2]},
        {"activation": "Clip", "activation_params": [-0.5, 1.5]},
        {"activation": "HardSigmoid", "activation_params": [0.1, 0.4]},
    ],
)
def test_convolution_and_activation(activation: dict, rng):
    x, w, bias = normal(rng, 1, 4, 6, 7), normal(rng, 6, 2, 3, 3), normal(rng, 6)
    options = {"pads": [1, 1, 1, 1], "group": 2, "constants": [1, 2], **activation}
    check("FusedConv", x, w, bias, **options)
    check("FusedConv", x, w, None, normal(rng, 1, 6, 6, 7), **options)


def test_channels_last_convolution(rng):
    """A channels-last convolution equals a convolution of transposed data."""
    x, w, z = normal(rng, 1, 4, 6, 7), normal(rng, 6, 4, 3, 3), normal(rng, 1, 6, 4, 5)
    (plain,) = computed("FusedConv", x, w, None, z, activation="Relu")
    last = [np.ascontiguousarray(np.moveaxis(v, 1, -1)) for v in (x, z)]
    (ours,) = computed("NhwcFusedConv", last[0], w, None, last[1], activation="Relu")
    np.testing.assert_array_equal(np.moveaxis(ours, -1, 1), plain)


def test_activations(rng):
    x, bias = 2 * normal(rng, 2, 3, 8), normal(rng, 8)
    check("Gelu", x)
    check("BiasGelu", x, bias)
    check("FastGelu", x)
    check("FastGelu", x, bias)
    check("QuickGelu", x)
    check("QuickGelu", x, alpha=1.0)


def test_sums_of_devices(rng):
    """Operators that onnxruntime supports only on GPUs."""
    x, bias, skip = normal(rng, 2, 3, 8), normal(rng, 8), normal(rng, 2, 3, 8)
    np.testing.assert_allclose(computed("BiasAdd", x, bias, skip)[0], x + bias + skip, rtol=1e-6)
    left, right = np.split((x + bias).astype(np.float64), 2, axis=-1)
    gelu = right * (1 + np.vectorize(erf)(right / sqrt(2))) / 2
    (ours,) = computed("BiasSplitGelu", x, bias)
    np.testing.assert_allclose(ours, left * gelu, rtol=1e-5, atol=1e-6)
    (ours,) = computed("BiasSoftmax", x, skip[:1], axis=1, is_inner_broadcast=0)
    parts = np.exp(x + skip[:1])
    np.testing.assert_allclose(ours, parts / parts.sum((1, 2), keepdims=True), rtol=1e-5)
    w = normal(rng, 8, 5)
    (ours,) = computed("GemmFastGelu", x, w, bias[:5])
    np.testing.assert_allclose(ours, computed("FastGelu", x @ w, bias[:5])[0], rtol=1e-5)


@pytest.mark.parametrize("skip", [(2, 3, 8), (1, 3, 8), (3, 8)])
def test_layer_normalization_of_a_sum(skip: tuple[int, ...], rng):
    x, skipped = normal(rng, 2, 3, 8), normal(rng, *skip)
    scale, shift, bias = (normal(rng, 8) for _ in range(3))
    check("SkipLayerNormalization", x, skipped, scale, shift, bias, epsilon=1e-3)
    check("SkipLayerNormalization", x, skipped, scale)
    check("SkipSimplifiedLayerNormalization", x, skipped, scale, bias, epsilon=1e-3)
    model = node_model(
        "SkipLayerNormalization", [x, skipped, scale], outputs=4, domain=DOMAIN, epsilon=1e-5
    )
    del model.graph.output[1:3]
    model.graph.node[0].output[1:3] = ["", ""]
    check_model(model, {"x0": x, "x1": skipped, "x2": scale})


def test_simplified_layer_normalization(rng):
    """An operator of onnxruntime's that it registers in ONNX's own domain."""
    check_node("SimplifiedLayerNormalization", normal(rng, 2, 3, 8), normal(rng, 8), epsilon=1e-3)
    check_node("SimplifiedLayerNormalization", normal(rng, 2, 3, 4), normal(rng, 3, 4), axis=1)


def test_layer_normalization_before_opset_17(rng):
    """The form that onnxruntime's optimiser writes into models of any opset."""
    x, scale, bias = normal(rng, 2, 3, 8), normal(rng, 8), normal(rng, 8)
    check_node("LayerNormalization", x, scale, bias, opset=13, epsilon=1e-3, axis=-1)


@pytest.mark.parametrize("segments", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_embeddings(segments: bool, masked: bool, rng):
    ids, kinds = (rng.integers(0, n, (2, 5)).astype(np.int32) for n in (11, 2))
    word, position, segment = normal(rng, 11, 8), normal(rng, 7, 8), normal(rng, 2, 8)
    operands = [
        ids,
        kinds if segments else None,
        word,
        position,
        segment if segments else None,
        normal(rng, 8),
        normal(rng, 8),
        (np.arange(5) < [[3], [5]]).astype(np.int32) if masked else None,
    ]
    check("EmbedLayerNormalization", *operands, outputs=3, mask_index_type=int(masked))
    places = rng.integers(0, 7, (2, 5)).astype(np.int32)
    if not masked:
        check("EmbedLayerNormalization", *operands, places, outputs=2)
    with pytest.raises(ImportModelError, match="no 5 rows"):
        operands[3] = position[:4]
        computed("EmbedLayerNormalization", *operands, outputs=3)


@pytest.mark.parametrize("segments", [True, False])
def test_quantized_embeddings(segments: bool, rng):
    """Like EmbedLayerNormalization; tables, scale and shift each have a scale and zero point."""
    ids, kinds = (rng.integers(0, n, (2, 5)).astype(np.int32) for n in (11, 2))
    tables = [rng.integers(0, 256, s).astype(np.uint8) for s in ((11, 8), (7, 8), (2, 8), 8, 8)]
    mask = (np.arange(5) < [[3], [5]]).astype(np.int32)
    scales = [np.array(s, np.float32) for s in (0.02, 0.03, 0.01, 0.05, 0.04)]
    zeros = [np.array(z, np.uint8) for z in (10, 120, 3, 100, 128)]
    operands: list[np.ndarray | None] = [ids, kinds, *tables, mask, *scales, *zeros]
    if not segments:
        for index in (1, 4, 7, 10, 15):
            operands[index] = None
    name = "QEmbedLayerNormalization"
    check(name, *operands, outputs=2, epsilon=1e-3)
    with pytest.raises(ImportModelError, match="no 5 rows"):
        operands[3] = tables[1][:4]
        computed(name, *operands, outputs=2)


@pytest.mark.parametrize("silu", [0, 1])
@pytest.mark.parametrize("last", [0, 1])
def test_group_norm(silu: int, last: int, rng):
    x, scale, bias = normal(rng, 2, 8, 3, 5), normal(rng, 8), normal(rng, 8)
    flat = x.astype(np.float64).reshape(2, 4, -1)
    rows = (flat - flat.mean(-1, keepdims=True)) / np.sqrt(flat.var(-1, keepdims=True) + 1e-3)
    expected = rows.reshape(x.shape) * scale[:, None, None] + bias[:, None, None]
    expected = expected / (1 + np.exp(-expected)) if silu else expected
    if last:
        x, expected = (np.ascontiguousarray(np.moveaxis(v, 1, -1)) for v in (x, expected))
    options = {"groups": 4, "activation": silu, "channels_last": last, "epsilon": 1e-3}
    (ours,) = computed("GroupNorm", x, scale, bias, **options)
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)
    if last:
        skip, more = normal(rng, 2, 8), normal(rng, 8)
        halves = x - skip[:, None, None] - more
        operands = (halves, scale, bias, skip, more)
        ours, total = computed("SkipGroupNorm", *operands, outputs=2, **options)
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(total, x, rtol=1e-5, atol=1e-6)


NETWORK = """<ir_version: 8, opset_import: ["" : 13]>
layer (float[2, 6, 8] x, float[8, 8] w, float[8] scale, float[8] bias) => (float[2, 6, 8] y) {
  h = MatMul(x, w)
  a = Add(h, bias)
  root = Constant<value_float = 1.4142135>()
  one = Constant<value_float = 1.0>()
  half = Constant<value_float = 0.5>()
  tiny = Constant<value_float = 0.00001>()
  two = Constant<value_float = 2.0>()
  d = Div(a, root)
  e = Erf(d)
  f = Add(e, one)
  g = Mul(a, f)
  gelu = Mul(g, half)
  sum = Add(gelu, x)
  mean = ReduceMean<axes = [-1]>(sum)
  centred = Sub(sum, mean)
  square = Pow(centred, two)
  variance = ReduceMean<axes = [-1]>(square)
  shifted = Add(variance, tiny)
  deviation = Sqrt(shifted)
  quotient = Div(centred, deviation)
  scaled = Mul(quotient, scale)
  y = Add(scaled, bias)
}"""


def optimized(model: ModelProto, path) -> ModelProto:
    """Models saved by onnxruntime's optimiser."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(path)
    onnxruntime.InferenceSession(model.SerializeToString(), options)
    return onnx.load(path)


def test_what_the_optimiser_saves(tmp_path, rng):
    """A layer with GELU and layer normalisation as basic operators, which the saved model fuses."""
    model = parser.parse_model(NETWORK)
    saved = optimized(model, tmp_path / "saved.onnx")
    assert {"Gelu", "SkipLayerNormalization"} <= {node.op_type for node in saved.graph.node}
    feeds = {"x": normal(rng, 2, 6, 8), "w": normal(rng, 8, 8)}
    feeds |= {"scale": normal(rng, 8), "bias": normal(rng, 8)}
    check_model(saved, feeds)


@pytest.mark.parametrize(
    ("op_type", "attributes", "message"),
    [
        ("FusedGemm", {"activation": "Sparkle"}, "activation Sparkle is not supported"),
        ("SkipGroupNorm", {}, "lacks its required attribute"),
    ],
)
def test_what_is_refused(op_type: str, attributes: dict, message: str, rng):
    operands = [normal(rng, 2, 2) for _ in range(2 if op_type == "FusedGemm" else 4)]
    with pytest.raises((UnsupportedError, ImportModelError), match=message) as caught:
        import_model(node_model(op_type, operands, domain=DOMAIN, **attributes))
    assert "node" in str(caught.value.where)
    assert caught.value.hint or op_type != "FusedGemm"
