"""Quantised operators, against onnxruntime."""

import numpy as np
import pytest

from models.checks import check_node


def bytes_of(rng: np.random.Generator, *shape: int, dtype=np.uint8) -> np.ndarray:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_quantize_and_back(dtype: type, rng: np.random.Generator):
    x = rng.uniform(-5, 5, (2, 3, 4)).astype(np.float32)
    scale, zero = np.array(0.03, np.float32), np.array(3, dtype)
    check_node("QuantizeLinear", x, scale, zero)
    check_node("DequantizeLinear", bytes_of(rng, 2, 3, dtype=dtype), scale, zero)


def test_by_axis(rng: np.random.Generator):
    x = rng.uniform(-5, 5, (2, 3, 4)).astype(np.float32)
    scale, zero = rng.uniform(0.02, 0.1, 3).astype(np.float32), bytes_of(rng, 3)
    check_node("QuantizeLinear", x, scale, zero, axis=1)
    check_node("DequantizeLinear", bytes_of(rng, 2, 3, 4), scale, zero, axis=1)


def test_integer_products(rng: np.random.Generator):
    a, b, zero = bytes_of(rng, 3, 4), bytes_of(rng, 4, 5), np.array(7, np.uint8)
    check_node("MatMulInteger", a, b, zero, zero)
    x, w = bytes_of(rng, 1, 2, 5, 5), bytes_of(rng, 3, 2, 3, 3)
    check_node("ConvInteger", x, w, zero, pads=[1, 1, 1, 1])


def test_quantized_products(rng: np.random.Generator):
    one, zero = np.array(0.05, np.float32), np.array(100, np.uint8)
    coarse = np.array(3.0, np.float32)
    a, b = bytes_of(rng, 3, 4), bytes_of(rng, 4, 5)
    check_node("QLinearMatMul", a, one, zero, b, one, zero, coarse, zero)
    x, w = bytes_of(rng, 1, 2, 5, 5), bytes_of(rng, 3, 2, 3, 3)
    bias = rng.integers(-500, 500, 3).astype(np.int32)
    check_node(
        "QLinearConv", x, one, zero, w, one, zero, coarse, zero, bias, constants=[1, 2, 4, 5, 6, 7]
    )


def test_dynamic_quantization_by_its_definition(rng: np.random.Generator):
    check_node("DynamicQuantizeLinear", rng.uniform(-3, 5, (4, 5)).astype(np.float32), outputs=3)
