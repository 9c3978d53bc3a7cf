"""Accuracy of expand-math: the errors stated in `polynomials/`, measured on dense grids."""

from __future__ import annotations

from math import erf

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr

from programs.kernel_modules import elementwise, parse_kernel
from tcopt.backends.llvm.jit import compile_module
from tcopt.passes.kernel.math.expand_math import ExpandMathPass
from tcopt.support.errors import InputError

_SIZE = 1 << 17
_TINY = float(np.finfo(np.float32).tiny)

# Function, sampled domain, densely sampled range, largest error in ulp.
_FUNCTIONS = {
    "exp": (np.exp, (-87.3, 88.7), (-2, 2), 1.5),
    "exp2": (np.exp2, (-126, 127.9), (-2, 2), 1.5),
    "expm1": (np.expm1, (-80, 88.7), (-2, 2), 3),
    "tanh": (np.tanh, (-15, 15), (-2, 2), 4),
    "log": (np.log, (0, 3e38), (0.5, 2), 2),
    "log2": (np.log2, (0, 3e38), (0.5, 2), 3),
    "log10": (np.log10, (0, 3e38), (0.5, 2), 4),
    "log1p": (np.log1p, (-0.999999, 3e38), (-0.5, 2), 3),
    "erf": (np.vectorize(erf), (-6, 6), (-2, 2), 2),
    "sin": (np.sin, (-1e5, 1e5), (-7, 7), 1.6),
    "cos": (np.cos, (-1e5, 1e5), (-7, 7), 1.6),
    "asin": (np.arcsin, (-1, 1), (-0.6, 0.6), 3),
    "acos": (np.arccos, (-1, 1), (-0.6, 0.6), 4),
    "atan": (np.arctan, (-3e38, 3e38), (-3, 3), 3),
}
_SPECIAL = np.array(
    [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-40, -1e-40, 1.0, -1.0, 89.0, -104.0, 3e38, -3e38],
    np.float32,
)


def samples(domain: tuple[float, float], dense: tuple[float, float]) -> np.ndarray:
    """Values of every magnitude in the domain, a grid over it, and a dense part."""
    low, high = domain
    bits = np.random.default_rng(1).integers(0, 1 << 32, _SIZE, dtype=np.uint32)
    values = bits.view(np.float32)
    values = values[np.isfinite(values)]
    values = values[(values >= low) & (values <= high)]
    grids = [np.linspace(low, high, _SIZE // 4), np.linspace(*dense, _SIZE // 2)]
    return np.resize(np.concatenate([*grids, values]).astype(np.float32), _SIZE)


def evaluate(op: str, values: np.ndarray, lanes: int, fma: bool | None = None) -> np.ndarray:
    """Evaluate the function by its polynomial."""
    module = parse_kernel(
        elementwise(f"%r = math.{op} %a : $r", ["f32"], "f32", len(values), lanes)
    )
    ExpandMathPass(fma=fma).apply(Context(), module)
    module.verify()
    assert f"math.{op}" not in str(module)
    result = np.zeros_like(values)
    compile_module(module).function("k")(values, result)
    return result


def errors_in_ulp(result: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Return the distance from the exact value in ulp of the f32 there."""
    nearest = np.maximum(np.abs(exact), _TINY).astype(np.float32)
    return np.abs(result - exact) / np.spacing(nearest).astype(np.float64)


@pytest.mark.nightly(every=2)
@pytest.mark.parametrize("op", _FUNCTIONS)
@pytest.mark.parametrize("fma", [True, False])
def test_largest_error_on_vectors(op, fma):
    reference, domain, dense, limit = _FUNCTIONS[op]
    values = samples(domain, dense)
    if op.startswith("log"):
        values = values[values != 0]
        values = values[: len(values) // 16 * 16]
    result = evaluate(op, values, 16, fma)
    error = errors_in_ulp(result, reference(values.astype(np.float64)))
    assert error.max() <= limit * (1 if fma else 2), values[error.argmax()]


@pytest.mark.nightly(every=2)
@pytest.mark.parametrize("op", _FUNCTIONS)
def test_scalars_give_the_same_bits_as_vectors(op):
    _, domain, dense, _ = _FUNCTIONS[op]
    values = samples(domain, dense)[::64].copy()
    vector, scalar = evaluate(op, values, 16), evaluate(op, values, 0)
    np.testing.assert_array_equal(vector, scalar)


@pytest.mark.parametrize("op", [name for name in _FUNCTIONS if name not in ("sin", "cos")])
def test_special_values(op):
    """Infinities, NaN, signed zeros, denormals, overflow and underflow."""
    reference = _FUNCTIONS[op][0]
    with np.errstate(all="ignore"):
        exact = reference(_SPECIAL.astype(np.float64))
        expected = exact.astype(np.float32)
    result = evaluate(op, _SPECIAL, 0)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(result[~finite], expected[~finite])
    assert errors_in_ulp(result[finite], exact[finite]).max() <= 4
    keeps_zero_sign = expected[3] == 0
    if keeps_zero_sign:
        np.testing.assert_array_equal(np.signbit(result[3:5]), [False, True])


def test_sine_and_cosine_of_infinities_are_nan_and_large_ones_bounded():
    for op in ("sin", "cos"):
        result = evaluate(op, _SPECIAL, 0)
        assert np.isnan(result[:3]).all()
        assert (np.abs(result[3:]) <= 1).all()


# f64 function, sampled domain, densely sampled range, largest error in ulp.
_WIDE_FUNCTIONS = {
    "exp": (np.exp, (-745, 709.7), (-2, 2), 1),
    "expm1": (np.expm1, (-60, 709.7), (-2, 2), 2),
    "tanh": (np.tanh, (-25, 25), (-2, 2), 3),
    "log": (np.log, (0, 1.7e308), (0.5, 2), 1),
    "log1p": (np.log1p, (-0.9999999999, 1.7e308), (-0.5, 2), 2),
}
_WIDE_SPECIAL = np.array(
    [np.inf, -np.inf, np.nan, 0.0, -0.0, 4e-320, -4e-320, 1.0, -1.0, 710.0, -746.0, 1e308, -1e308]
)


def wide_samples(domain: tuple[float, float], dense: tuple[float, float]) -> np.ndarray:
    """Values of every magnitude in the domain, a grid over it, and a dense part."""
    low, high = domain
    values = np.random.default_rng(1).integers(0, 1 << 64, _SIZE // 2, dtype=np.uint64)
    values = values.view(np.float64)
    values = values[(values >= low) & (values <= high) & (values != 0)]
    grids = [np.linspace(low, high, _SIZE // 8)[1:], np.linspace(*dense, _SIZE // 4)]
    return np.resize(np.concatenate([*grids, values]), _SIZE // 2)


def evaluate_wide(op: str, values: np.ndarray, lanes: int, fma: bool | None = None) -> np.ndarray:
    """Evaluate the f64 function by its polynomial."""
    body = f"%r = math.{op} %a : $r"
    module = parse_kernel(elementwise(body, ["f64"], "f64", len(values), lanes))
    ExpandMathPass(fma=fma).apply(Context(), module)
    module.verify()
    assert f"math.{op}" not in str(module)
    result = np.zeros_like(values)
    compile_module(module).function("k")(values, result)
    return result


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="no wider type to compare with")
@pytest.mark.parametrize("op", _WIDE_FUNCTIONS)
@pytest.mark.parametrize("fma", [True, False])
def test_largest_error_of_f64(op, fma):
    reference, domain, dense, limit = _WIDE_FUNCTIONS[op]
    values = wide_samples(domain, dense)
    result = evaluate_wide(op, values, 8, fma)
    exact = reference(values.astype(np.longdouble))
    error = np.abs(result - exact) / np.spacing(np.abs(exact).astype(np.float64))
    assert error.max() <= limit * (1 if fma else 2), (values[error.argmax()], error.max())


@pytest.mark.parametrize("op", _WIDE_FUNCTIONS)
@pytest.mark.parametrize("lanes", [0, 8])
def test_special_values_of_f64(op, lanes):
    """Infinities, NaN, signed zeros, denormals, overflow and underflow."""
    values = np.resize(_WIDE_SPECIAL, 16)
    with np.errstate(all="ignore"):
        expected = _WIDE_FUNCTIONS[op][0](values)
    result = evaluate_wide(op, values, lanes)
    np.testing.assert_allclose(result, expected, rtol=1e-15, atol=0)
    if expected[3] == 0:
        np.testing.assert_array_equal(np.signbit(result[3:5]), [False, True])


@pytest.mark.parametrize("type", ["f16", "bf16"])
@pytest.mark.parametrize("function", ["tanh", "powf"])
def test_narrow_floats_are_computed_in_f32(rng, type, function):
    import ml_dtypes

    dtype = np.float16 if type == "f16" else ml_dtypes.bfloat16
    values = rng.standard_normal(64).astype(dtype)
    operands = "%a" if function == "tanh" else "%a, %a"
    body = f"%r = math.{function} {operands} : $r"
    module = parse_kernel(elementwise(body, [type], type, 64, 16))
    ExpandMathPass().apply(Context(), module)
    result = np.zeros_like(values)
    compile_module(module).function("k")(values, result)
    wide = values.astype(np.float32)
    with np.errstate(invalid="ignore"):
        expected = np.tanh(wide) if function == "tanh" else wide**wide
    rounded = expected.astype(dtype).astype(np.float32)
    np.testing.assert_array_equal(result.astype(np.float32), rounded)


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0, 7.0, 0.5, -0.5, 1.5, -2.0])
def test_powers_with_a_small_constant_exponent(rng, exponent):
    values = rng.random(64).astype(np.float32) + 0.25
    body = f"%e = arith.constant dense<{exponent}> : $r\n%r = math.powf %a, %e : $r"
    module = parse_kernel(elementwise(body, ["f32"], "f32", 64, 16))
    ExpandMathPass().apply(Context(), module)
    assert "math.powf" not in str(module)
    result = np.zeros_like(values)
    compile_module(module).function("k")(values, result)
    np.testing.assert_allclose(result, values ** np.float32(exponent), rtol=6e-7)


def _power(base: np.ndarray, exponent: np.ndarray, lanes: int, fma: bool | None) -> np.ndarray:
    module = parse_kernel(
        elementwise("%r = math.powf %a, %b : $r", ["f32"] * 2, "f32", len(base), lanes)
    )
    ExpandMathPass(fma=fma).apply(Context(), module)
    module.verify()
    assert "math.powf" not in str(module)
    result = np.zeros_like(base)
    compile_module(module).function("k")(base, exponent, result)
    return result


@pytest.mark.parametrize("fma", [True, False])
def test_largest_error_of_powers(rng, fma):
    """Results of all magnitudes, including denormals; integers give exact integers."""
    base = np.exp2(rng.uniform(-126, 127, _SIZE)).astype(np.float32)
    base[::2] = rng.uniform(0.5, 2, _SIZE // 2)
    exponent = (rng.uniform(-149, 128, _SIZE) / np.log2(base, dtype=np.float64)).astype(np.float32)
    with np.errstate(all="ignore"):
        exact = base.astype(np.float64) ** exponent
    inside = exact < np.finfo(np.float32).max
    result = _power(base, exponent, 16, fma)
    assert errors_in_ulp(result[inside], exact[inside]).max() <= 0.6
    small, powers = np.meshgrid(np.arange(-12.0, 13.0), np.arange(7.0))
    small, powers = (v.ravel()[:160].astype(np.float32) for v in (small, powers))
    np.testing.assert_array_equal(_power(small, powers, 16, fma), small**powers)


@pytest.mark.parametrize("lanes", [0, 16])
def test_special_values_of_powers(lanes):
    """As in C and numpy: signs, infinities, nan, and bases that stay 1."""
    numbers = [*_SPECIAL, 0.5, -0.5, 2, -2, 3, -3, 2.0**24 + 2, -(2.0**24) - 2, 8388609, 1e-38]
    base, exponent = np.meshgrid(np.array(numbers), np.array(numbers))
    base, exponent = (v.ravel()[:528].astype(np.float32) for v in (base, exponent))
    with np.errstate(all="ignore"):
        expected = (base.astype(np.float64) ** exponent).astype(np.float32)
    result = _power(base, exponent, lanes, None)
    np.testing.assert_array_equal(result, expected)
    zero = result == 0
    np.testing.assert_array_equal(np.signbit(result[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("constant", [2.4, 17.0, -33.0, 1 / 3, float("inf"), float("nan"), 0.3])
@pytest.mark.parametrize("operands", ["%a, %e", "%e, %a"])
def test_powers_with_a_constant(constant, operands):
    values = np.concatenate([_SPECIAL, np.linspace(-3, 3, 64 - len(_SPECIAL))]).astype(np.float32)
    body = f"%e = arith.constant dense<7.5> : $r\n%r = math.powf {operands} : $r"
    module = parse_kernel(elementwise(body, ["f32"], "f32", 64, 16))
    (known,) = (op for op in module.walk() if op.results and "7.5" in str(op))
    assert isinstance(known, arith.ConstantOp)
    known.value = DenseIntOrFPElementsAttr.from_list(known.result.type, [constant])
    ExpandMathPass().apply(Context(), module)
    assert "math.powf" not in str(module)
    result = np.zeros_like(values)
    compile_module(module).function("k")(values, result)
    known = np.full_like(values, constant)
    left, right = (values, known) if operands == "%a, %e" else (known, values)
    with np.errstate(all="ignore"):
        expected = (left.astype(np.float64) ** right).astype(np.float32)
    np.testing.assert_allclose(result, expected, rtol=1e-7, atol=1e-45)


def test_only_the_chosen_ops_are_expanded():
    text = elementwise("%b = math.exp %a : $r\n%r = math.log %b : $r", ["f32"], "f32", 64, 16)
    module = parse_kernel(text)
    ExpandMathPass(ops=("exp",)).apply(Context(), module)
    assert "math.exp" not in str(module)
    assert "math.log" in str(module)


def test_unknown_ops_are_errors():
    with pytest.raises(InputError, match="no expansion of gamma"):
        ExpandMathPass(ops=("gamma",)).apply(Context(), parse_kernel("builtin.module {}"))
