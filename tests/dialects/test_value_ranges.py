"""Proven value ranges hold for every value that a program computes, for any data."""

from __future__ import annotations

import warnings

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.ir import Block

from running.examples import examples
from tcopt.dialects.te import ComputeOp, ReadOp
from tcopt.dialects.te import api as te
from tcopt.dialects.value_ranges import ValueRanges
from tcopt.interpreters.te import run_func
from tcopt.support.ir.verify import verify

COUNT = 24
_EXTREME = [0, 1, -1, 2, 7, 100, -100, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**62]
_REALS = [0.0, -0.0, 0.5, -1.5, 7.0, 3e38, -3e38, np.nan, np.inf, -np.inf, 1e9, -1e-45]
INTEGERS = np.array((_EXTREME * COUNT)[:COUNT], np.int64)
FLOATS = np.array((_REALS * COUNT)[:COUNT], np.float32)
numbers = st.integers(-9, 9)


def integer_expressions(i, x, f):
    leaf = st.one_of(
        st.just(x[i]), numbers.map(lambda n: te.const(n, "i64")), st.just(te.cast(i, "i64"))
    )
    low = st.tuples(numbers, st.integers(0, 9))
    floats = float_expressions(i, x, f)

    def grown(inner):
        pair = st.tuples(inner, inner)
        divisor = st.integers(1, 9)
        return st.one_of(
            pair.map(lambda p: p[0] + p[1]),
            pair.map(lambda p: p[0] - p[1]),
            pair.map(lambda p: p[0] * p[1]),
            pair.map(lambda p: te.maximum(*p)),
            pair.map(lambda p: te.minimum(*p)),
            pair.map(lambda p: te.select(p[0] < p[1], p[0], p[1])),
            pair.map(lambda p: te.select(te.all(p[0] >= 0, p[0] < p[1]), p[0], p[1])),
            pair.map(lambda p: te.select(te.any(p[0] < -3, p[1] > 4), p[1], p[0])),
            st.tuples(inner, divisor).map(lambda p: p[0] % p[1]),
            st.tuples(inner, divisor).map(lambda p: te.fmod(p[0], te.const(p[1], "i64"))),
            st.tuples(inner, divisor).map(lambda p: p[0] // p[1]),
            st.tuples(inner, divisor).map(lambda p: p[0] & p[1]),
            inner.map(lambda e: te.cast(te.cast(e, "i8"), "i64")),
            inner.map(lambda e: te.cast(te.cast(e, "ui8"), "i64")),
            inner.map(lambda e: te.cast(e > 2, "i64")),
            st.tuples(floats, low).map(lambda p: te.saturate(p[0], p[1][0], sum(p[1]))),
        )

    return st.recursive(leaf, grown, max_leaves=8)


def float_expressions(i, x, f):
    narrow = te.cast(te.cast(x[i], "i8"), "f32")
    leaf = st.one_of(
        st.sampled_from([f[i], te.cast(x[i], "f32"), narrow]),
        numbers.map(lambda n: te.const(n / 2, "f32")),
    )

    def grown(inner):
        pair = st.tuples(inner, inner)
        return st.one_of(
            pair.map(lambda p: p[0] + p[1]),
            pair.map(lambda p: p[0] - p[1]),
            pair.map(lambda p: p[0] * p[1]),
            pair.map(lambda p: te.maximum(*p)),
            pair.map(lambda p: te.minimum(*p)),
            pair.map(lambda p: te.select(p[0] > p[1], *p)),
            pair.map(lambda p: te.select(te.logical_not(p[0] <= p[1]), *p)),
            inner.map(te.floor),
            inner.map(te.ceil),
            inner.map(te.abs),
        )

    return st.recursive(leaf, grown, max_leaves=4)


def _axis(value, ranges):
    return (0, COUNT - 1) if isinstance(value.owner, Block) else None


@given(st.data())
@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
def test_ranges_hold(data):
    x, f = te.placeholder((COUNT,), "i64", "x"), te.placeholder((COUNT,), "f32", "f")
    found = []

    def body(i):
        expr = data.draw(integer_expressions(i, x, f))
        found.append(expr)
        return expr

    function = te.func("f", [x, f], [te.compute((COUNT,), body)])
    verify(function)
    (stage,) = (op for op in function.body.block.ops if isinstance(op, ComputeOp))
    low, high = ValueRanges(_axis).integers(stage.yielded)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (values,) = run_func(function, [INTEGERS, FLOATS])
    assert low <= values.min() and values.max() <= high


@given(st.data(), st.integers(1, 9))
@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
def test_any_value_may_be_an_index(data, extent):
    """Every proven index expression verifies and stays in bounds, for any data."""
    x, f = te.placeholder((COUNT,), "i64", "x"), te.placeholder((COUNT,), "f32", "f")
    rows = te.placeholder((extent,), "i64", "rows")

    def body(i):
        expr = data.draw(integer_expressions(i, x, f))
        # An index into an empty axis is rejected, not clamped.
        return rows[te.index(expr + x[i] * 0) + data.draw(numbers)]

    function = te.func("f", [x, f, rows], [te.compute((COUNT,), body)])
    verify(function)
    (stage,) = (op for op in function.body.block.ops if isinstance(op, ComputeOp))
    assert all(op.default is None for op in stage.body.block.ops if isinstance(op, ReadOp))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (values,) = run_func(function, [INTEGERS, FLOATS, np.arange(extent)])
    assert values.min() >= 0 and values.max() < extent


def test_a_tensor_without_elements_reads_as_zero():
    x, rows = te.placeholder((COUNT,), "i64", "x"), te.placeholder((0, 2), "f32", "rows")
    stage = te.compute((COUNT, 2), lambda i, j: rows[te.index(x[i]), j])
    function = te.func("f", [x, rows], [stage])
    verify(function)
    (values,) = run_func(function, [INTEGERS, np.zeros((0, 2), np.float32)])
    assert values.shape == (COUNT, 2) and not values.any()
