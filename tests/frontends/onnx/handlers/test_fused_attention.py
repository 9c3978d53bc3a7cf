"""Attention in one operator, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from models.checks import check_node, node_model, run_imported
from tcopt.frontends.onnx import import_model
from tcopt.support.errors import UnsupportedError

DOMAIN = "com.microsoft"
BATCH, LENGTH, HEADS, SIZE = 2, 5, 3, 4
WIDTH = HEADS * SIZE


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def check(op_type: str, *inputs: np.ndarray | None, **options) -> None:
    check_node(op_type, *inputs, domain=DOMAIN, num_heads=HEADS, **options)


def masks(rng: np.random.Generator, total: int) -> list[np.ndarray]:
    """Masks of all forms, each of which leaves every query some keys."""
    ends, starts = np.array([3, total]), np.array([0, 2])
    each = rng.integers(0, 2, (BATCH, LENGTH, total))
    each[..., 0] = 1
    whole = [ends, np.concatenate([ends, starts]), each[:, 0], each]
    return [mask.astype(np.int32) for mask in whole]


def projected(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return normal(rng, BATCH, LENGTH, 6), normal(rng, 6, 3 * WIDTH), normal(rng, 3 * WIDTH)


@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention(unidirectional: int, rng):
    x, weights, bias = projected(rng)
    options = {"unidirectional": unidirectional}
    check("Attention", x, weights, bias, scale=0.3, **options)
    for mask in masks(rng, LENGTH):
        check("Attention", x, weights, bias, mask, **options)
    check("Attention", x, weights, bias, masks(rng, LENGTH)[2], mask_filter_value=-2.0, **options)
    more = normal(rng, 1, HEADS, LENGTH, LENGTH)
    check("Attention", x, weights, bias, None, None, more, **options)


def test_attention_with_wide_values(rng):
    """Values of another width than queries and keys."""
    sizes = [WIDTH, WIDTH, 2 * WIDTH]
    x, weights, bias = normal(rng, BATCH, LENGTH, 6), normal(rng, 6, sum(sizes)), normal(
        rng, sum(sizes)
    )  # fmt: skip
    check("Attention", x, weights, bias, qkv_hidden_sizes=sizes)


@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention_after_a_past(unidirectional: int, rng):
    past = normal(rng, 2, BATCH, HEADS, 4, SIZE)
    mask = masks(rng, LENGTH + 4)[2]
    options = {"outputs": 2, "unidirectional": unidirectional}
    check("Attention", *projected(rng), None, past, **options)
    check("Attention", *projected(rng), mask, past, **options)


@pytest.mark.parametrize(
    ("columns", "masked", "past"),
    [(False, False, False), (True, True, False), (True, False, True)],
)
def test_quantized_attention(columns: bool, masked: bool, past: bool, rng):
    """8-bit projections, with one weight scale or one for each column."""
    x = rng.integers(0, 256, (BATCH, LENGTH, 8)).astype(np.uint8)
    weights = rng.integers(-64, 64, (8, 3 * WIDTH)).astype(np.int8)
    scales = rng.uniform(0.002, 0.01, 3 * WIDTH if columns else 1).astype(np.float32)
    mask = masks(rng, LENGTH)[2] if masked else None
    before = normal(rng, 2, BATCH, HEADS, 4, SIZE) if past else None
    operands = [x, weights, normal(rng, 3 * WIDTH), np.array(0.01, np.float32)]
    operands += [scales if columns else scales[0], mask, np.array(7, np.uint8)]
    operands += [np.zeros(scales.shape if columns else (), np.int8), before]
    outputs = 2 if past else 1
    check("QAttention", *operands, outputs=outputs, constants=[1, 2, 3, 4, 6, 7], unidirectional=1)


@pytest.mark.parametrize("unidirectional", [0, 1])
def test_multi_head_attention(unidirectional: int, rng):
    query = normal(rng, BATCH, LENGTH, WIDTH)
    total = LENGTH if unidirectional else 7
    key, value = normal(rng, BATCH, total, WIDTH), normal(rng, BATCH, total, WIDTH)
    bias, options = normal(rng, 3 * WIDTH), {"unidirectional": unidirectional}
    check("MultiHeadAttention", query, key, value, **options)
    check("MultiHeadAttention", query, key, value, bias, scale=0.2, **options)
    more = normal(rng, 1, HEADS, LENGTH, total)
    check("MultiHeadAttention", query, key, value, bias, None, more, **options)
    mask = masks(rng, total)[2]
    check("MultiHeadAttention", query, key, value, None, mask, more, **options)


def computed(*inputs: np.ndarray) -> np.ndarray:
    """Run attention on these operands in tcopt."""
    feeds = {f"x{i}": array for i, array in enumerate(inputs)}
    model = node_model("MultiHeadAttention", inputs, domain=DOMAIN, num_heads=HEADS)
    return run_imported(model, feeds)[0]


def test_forms_of_operands(rng):
    """Keys and values by heads; and packed ones, which onnxruntime supports only on GPUs."""
    query = normal(rng, BATCH, LENGTH, WIDTH)
    together = normal(rng, BATCH, LENGTH, HEADS, 3, SIZE)
    rows = [together[:, :, :, n].reshape(BATCH, LENGTH, WIDTH) for n in range(3)]
    np.testing.assert_allclose(computed(together), computed(*rows), rtol=1e-6)
    pair = np.ascontiguousarray(together[:, :, :, 1:])
    np.testing.assert_allclose(computed(rows[0], pair), computed(*rows), rtol=1e-6)
    parts = (normal(rng, BATCH, HEADS, 7, SIZE) for _ in range(2))
    check("MultiHeadAttention", query, *parts)


def test_multi_head_attention_after_a_past(rng):
    operands = [normal(rng, BATCH, LENGTH, WIDTH) for _ in range(3)]
    past = [normal(rng, BATCH, HEADS, 4, SIZE) for _ in range(2)]
    check("MultiHeadAttention", *operands, None, None, None, *past, outputs=3)


@pytest.mark.parametrize(
    ("op_type", "attributes"), [("Attention", {"do_rotary": 1}), ("MultiHeadAttention", {})]
)
def test_what_is_refused(op_type: str, attributes: dict, rng):
    """The error names the node and suggests a fix."""
    inputs = [normal(rng, 1, LENGTH, WIDTH), normal(rng, WIDTH, 3 * WIDTH)]
    model = node_model(
        op_type, inputs[: 1 + bool(attributes)], domain=DOMAIN, num_heads=HEADS, **attributes
    )
    with pytest.raises(UnsupportedError) as caught:
        import_model(model)
    assert caught.value.where == "node" and caught.value.hint
