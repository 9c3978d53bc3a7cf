"""Compiled arith ops and casts against numpy: scalars and vectors of each type."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from programs.kernel_modules import run_elementwise

LANES = [0, 8]
_INTEGERS = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64}
_FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16}


def _integers(rng: np.random.Generator, dtype: type) -> np.ndarray:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, 64, dtype=dtype, endpoint=True)


def _as_unsigned(values: np.ndarray) -> np.ndarray:
    return values.view(np.dtype(f"uint{values.dtype.itemsize * 8}"))


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("type", _INTEGERS)
@pytest.mark.parametrize(
    ("op", "reference"),
    [
        ("addi", lambda a, b: a + b),
        ("subi", lambda a, b: a - b),
        ("muli", lambda a, b: a * b),
        ("andi", lambda a, b: a & b),
        ("ori", lambda a, b: a | b),
        ("xori", lambda a, b: a ^ b),
        ("minsi", np.minimum),
        ("maxsi", np.maximum),
        ("minui", lambda a, b: np.minimum(_as_unsigned(a), _as_unsigned(b)).view(a.dtype)),
        ("maxui", lambda a, b: np.maximum(_as_unsigned(a), _as_unsigned(b)).view(a.dtype)),
        ("floordivsi", lambda a, b: a // b),
        ("ceildivsi", lambda a, b: -((-a.astype(object)) // b.astype(object))),
        ("divsi", lambda a, b: (np.fix(a.astype(np.longdouble) / b)).astype(object)),
        ("remsi", lambda a, b: np.fmod(a, b)),
        ("divui", lambda a, b: (_as_unsigned(a) // _as_unsigned(b)).view(a.dtype)),
        ("remui", lambda a, b: (_as_unsigned(a) % _as_unsigned(b)).view(a.dtype)),
        ("ceildivui", lambda a, b: -(-_as_unsigned(a).astype(object) // _as_unsigned(b))),
    ],
)
def test_integer_op(rng, op, reference, type, lanes):
    dtype = _INTEGERS[type]
    a, b = _integers(rng, dtype), _integers(rng, dtype)
    b[b == 0] = 3
    b[b == -1] = 5
    result = run_elementwise(f"%r = arith.{op} %a, %b : $r", [a, b], [type] * 2, type, dtype, lanes)
    with np.errstate(over="ignore"):
        expected = reference(a, b)
    modulus = 1 << (np.dtype(dtype).itemsize * 8)
    assert [int(x) % modulus for x in result] == [int(x) % modulus for x in expected]


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize(
    ("op", "reference"),
    [
        ("shli", lambda a, b: a << b),
        ("shrsi", lambda a, b: a >> b),
        ("shrui", lambda a, b: (_as_unsigned(a) >> _as_unsigned(b)).view(np.int32)),
    ],
)
def test_shift(rng, op, reference, lanes):
    a, b = _integers(rng, np.int32), rng.integers(0, 32, 64, dtype=np.int32)
    result = run_elementwise(
        f"%r = arith.{op} %a, %b : $r", [a, b], ["i32"] * 2, "i32", np.int32, lanes
    )
    np.testing.assert_array_equal(result, reference(a, b))


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("type", _FLOATS)
@pytest.mark.parametrize(
    ("op", "reference"),
    [("addf", np.add), ("subf", np.subtract), ("mulf", np.multiply), ("divf", np.divide)],
)
def test_float_op(rng, op, reference, type, lanes):
    dtype = _FLOATS[type]
    a, b = (rng.standard_normal(64).astype(dtype) for _ in range(2))
    result = run_elementwise(f"%r = arith.{op} %a, %b : $r", [a, b], [type] * 2, type, dtype, lanes)
    np.testing.assert_array_equal(result, reference(a, b))


_SPECIAL = np.array([1.5, -2.0, np.nan, np.inf, -np.inf, 3.0, np.nan, 0.25], np.float32)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("type", _FLOATS)
@pytest.mark.parametrize(
    ("op", "reference"),
    [
        ("maximumf", np.maximum),
        ("minimumf", np.minimum),
        ("maxnumf", np.fmax),
        ("minnumf", np.fmin),
    ],
)
def test_float_min_max_with_nan(op, reference, type, lanes):
    dtype = _FLOATS[type]
    a = np.repeat(_SPECIAL, 8).astype(dtype)
    b = np.tile(_SPECIAL, 8).astype(dtype)
    result = run_elementwise(f"%r = arith.{op} %a, %b : $r", [a, b], [type] * 2, type, dtype, lanes)
    expected = reference(a.astype(np.float64), b.astype(np.float64))
    np.testing.assert_array_equal(result.astype(np.float64), expected)


@pytest.mark.parametrize("constant_first", [False, True])
@pytest.mark.parametrize(
    ("op", "reference"), [("maximumf", np.maximum), ("maxnumf", np.fmax), ("minnumf", np.fmin)]
)
def test_float_min_max_with_a_constant(op, reference, constant_first):
    operands = "%c, %a" if constant_first else "%a, %c"
    body = f"%c = arith.constant dense<1.0> : $r\n%r = arith.{op} {operands} : $r"
    result = run_elementwise(body, [_SPECIAL], ["f32"], "f32", np.float32, 8)
    np.testing.assert_array_equal(result, reference(_SPECIAL, np.float32(1.0)))


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("predicate", ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "uge"])
def test_cmpi_and_select(rng, predicate, lanes):
    a, b = rng.integers(-3, 3, 64, dtype=np.int32), rng.integers(-3, 3, 64, dtype=np.int32)
    condition = f"vector<{lanes}xi1>, " if lanes else ""
    body = f"%m = arith.cmpi {predicate}, %a, %b : $0\n%r = arith.select %m, %a, %b : {condition}$r"
    result = run_elementwise(body, [a, b], ["i32"] * 2, "i32", np.int32, lanes)
    x, y = (_as_unsigned(a), _as_unsigned(b)) if predicate[0] == "u" else (a, b)
    name = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal"} | {
        "gt": "greater",
        "ge": "greater_equal",
    }
    compare = getattr(np, name[predicate if len(predicate) == 2 else predicate[1:]])
    np.testing.assert_array_equal(result, np.where(compare(x, y), a, b))


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("type", _FLOATS)
@pytest.mark.parametrize(
    ("predicate", "reference"),
    [
        ("oeq", np.equal),
        ("une", np.not_equal),
        ("olt", np.less),
        ("ugt", lambda a, b: ~(a <= b)),
        ("uno", lambda a, b: np.isnan(a) | np.isnan(b)),
    ],
)
def test_cmpf_writes_bools(predicate, reference, type, lanes):
    dtype = _FLOATS[type]
    a = np.repeat(_SPECIAL, 8).astype(dtype)
    b = np.tile(_SPECIAL, 8).astype(dtype)
    body = f"%r = arith.cmpf {predicate}, %a, %b : $0"
    result = run_elementwise(body, [a, b], [type] * 2, "i1", np.bool_, lanes)
    np.testing.assert_array_equal(result, reference(a.astype(np.float64), b.astype(np.float64)))


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize(
    ("op", "source", "target"),
    [
        ("sitofp", "i32", "f32"),
        ("sitofp", "i16", "bf16"),
        ("uitofp", "i8", "f32"),
        ("fptosi", "f32", "i32"),
        ("fptosi", "bf16", "i16"),
        ("fptoui", "f32", "i16"),
        ("extsi", "i8", "i32"),
        ("extui", "i8", "i64"),
        ("trunci", "i32", "i8"),
        ("extf", "f32", "f64"),
        ("extf", "bf16", "f32"),
        ("extf", "f16", "f32"),
        ("truncf", "f64", "f32"),
        ("truncf", "f32", "f16"),
        ("truncf", "f32", "bf16"),
    ],
)
def test_cast(rng, op, source, target, lanes):
    types = _INTEGERS | _FLOATS
    if source in _INTEGERS:
        a = _integers(rng, types[source])
    else:
        a = (rng.standard_normal(64) * 50).astype(types[source])
        a = np.abs(a) if op == "fptoui" else a
    body = f"%r = arith.{op} %a : $0 to $r"
    result = run_elementwise(body, [a], [source], target, types[target], lanes)
    unsigned = op in ("uitofp", "extui")
    expected = (_as_unsigned(a) if unsigned else a).astype(types[target])
    np.testing.assert_array_equal(result, expected)


def test_truncf_to_bf16_rounds_to_even_and_keeps_nan():
    values = np.array([1.00390625, 1.01171875, np.nan, np.inf, -0.0, 3.4e38, 1e-40, -1.5])
    single = values.astype(np.float32)
    body = "%r = arith.truncf %a : $0 to $r"
    result = run_elementwise(body, [single], ["f32"], "bf16", ml_dtypes.bfloat16, 8)
    with np.errstate(over="ignore"):
        expected = single.astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(result.view(np.uint16)[3:], expected.view(np.uint16)[3:])
    np.testing.assert_array_equal(result[:2], expected[:2])
    assert np.isnan(result[2])


def test_bools_are_bytes_in_memory(rng):
    a, b = rng.random(64) < 0.5, rng.random(64) < 0.5
    result = run_elementwise("%r = arith.andi %a, %b : $r", [a, b], ["i1"] * 2, "i1", np.bool_, 16)
    np.testing.assert_array_equal(result, a & b)


def test_multiply_and_add_are_fused_only_when_allowed(rng):
    a, b = rng.standard_normal(64).astype(np.float32), rng.standard_normal(64).astype(np.float32)
    body = "%p = arith.mulf %a, %b : $r\n%r = arith.addf %p, %a : $r"
    result = run_elementwise(body, [a, b], ["f32"] * 2, "f32", np.float32, 16)
    np.testing.assert_array_equal(result, a * b + a)


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize(
    ("op", "reference"),
    [
        ("sqrt", np.sqrt),
        ("absf", np.abs),
        ("floor", np.floor),
        ("ceil", np.ceil),
        ("trunc", np.trunc),
        ("roundeven", np.rint),
        ("round", lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x)),
        ("exp", np.exp),
        ("tanh", np.tanh),
        ("rsqrt", lambda x: 1 / np.sqrt(x)),
        ("cbrt", np.cbrt),
        ("atan", np.arctan),
    ],
)
@pytest.mark.parametrize("type", ["f32", "f64", "f16", "bf16"])
def test_math_op(rng, op, reference, type, lanes):
    a = (np.abs(rng.standard_normal(64)) + 0.1).astype(_FLOATS[type])
    if op not in ("sqrt", "rsqrt"):
        a *= np.where(rng.random(64) < 0.5, -1, 1).astype(a.dtype)
    result = run_elementwise(f"%r = math.{op} %a : $r", [a], [type], type, _FLOATS[type], lanes)
    tolerance = {"f32": 3e-7, "f64": 1e-15, "f16": 1e-3, "bf16": 8e-3}[type]
    expected = reference(a.astype(np.float64))
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=tolerance)


def test_powers(rng):
    a, b = rng.random(64).astype(np.float32) + 0.5, rng.standard_normal(64).astype(np.float32)
    result = run_elementwise("%r = math.powf %a, %b : $r", [a, b], ["f32"] * 2, "f32", "f4", 8)
    np.testing.assert_allclose(result, a**b, rtol=1e-6)


def test_extended_multiplication_gives_both_halves(rng):
    a, b = _integers(rng, np.int32), _integers(rng, np.int32)
    body = "%l, %r = arith.mulsi_extended %a, %b : $r"
    result = run_elementwise(body, [a, b], ["i32"] * 2, "i32", np.int32, 8)
    np.testing.assert_array_equal(result, (a.astype(np.int64) * b) >> 32)
