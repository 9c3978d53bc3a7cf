"""Activations in native code over their whole range, against numpy in higher precision."""

import numpy as np
import pytest

from checks.cpu_kernels import run
from tcopt.dialects.graph import ConstantOp, MishOp, TanhSoftplusOp
from tcopt.dialects.graph.core.types import like


def values(op: type, x: np.ndarray) -> np.ndarray:
    made = op(ConstantOp.weight("v", like(x)).results[0])
    return run([x], made.tensor_expression, [np.empty_like(x)])[0]


def tanh_softplus(x: np.ndarray) -> np.ndarray:
    # Compute it as n / (n + 2), without expm1 and log1p; longdouble has enough digits.
    power = np.exp(np.minimum(x.astype(np.longdouble), 50))
    return power * (power + 2) / (power * (power + 2) + 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tanh_of_softplus_keeps_its_digits(dtype: type):
    # A separate tanh of a softplus loses all digits below -16 in f32.
    x = np.concatenate([np.linspace(-80, 60, 4001), [-17.0, 0.0, 20.0, 88.0, 1e6]]).astype(dtype)
    expected = tanh_softplus(x)
    few = 16 * np.finfo(dtype).eps
    np.testing.assert_allclose(values(TanhSoftplusOp, x), expected, rtol=few)
    np.testing.assert_allclose(values(MishOp, x), x * expected, rtol=few)


def test_tanh_of_softplus_of_special_values():
    x = np.array([np.inf, -np.inf, np.nan, 3e38, -3e38], np.float32)
    np.testing.assert_array_equal(values(TanhSoftplusOp, x), [1, 0, np.nan, 1, 0])
