"""Conversions to and from types narrower than 16 bits match ml_dtypes bit for bit."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Region

from tcopt.compiler import lower, pipeline
from tcopt.dialects import graph
from tcopt.dialects.graph.core.types import element_of, like
from tcopt.dialects.graph.core.weights import attach_weights, weights_of
from tcopt.interpreters import te
from tcopt.runtime.build import build_program
from tcopt.support.ir.verify import verify
from tcopt.tools.execution import loop_executor

FLOATS = ["float4_e2m1fn", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"]
INTEGERS = ["int2", "uint2", "int4", "uint4"]
BITS = {"float4_e2m1fn": 4, "int2": 2, "uint2": 2, "int4": 4, "uint4": 4}


def casts(x: np.ndarray, targets: list[str]) -> ModuleOp:
    """Return a module with one input and its conversions."""
    block = Block(arg_types=[like(x)])
    ops = [graph.CastOp(block.args[0], element_of(named(t))) for t in targets]
    block.add_ops([*ops, func.ReturnOp(*ops)])
    types = ([like(x)], [op.type for op in ops])
    names = {"graph.inputs": ["x"], "graph.outputs": targets}
    attributes = {k: ArrayAttr([StringAttr(n) for n in v]) for k, v in names.items()}
    module = ModuleOp([func.FuncOp("main", types, Region(block))], attributes)
    attach_weights(module, graph.WeightStore())
    return module


def named(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name))


def codes(name: str) -> np.ndarray:
    return np.arange(1 << BITS.get(name, 8), dtype=np.uint8).view(named(name))


def assert_same(actual: np.ndarray, expected: np.ndarray) -> None:
    """Assert equal bits, where all nans are equal."""
    assert actual.dtype == expected.dtype
    wide = expected.astype(np.float64)
    number = ~np.isnan(wide)
    np.testing.assert_array_equal(np.isnan(actual.astype(np.float64)), ~number)
    kind = f"u{expected.itemsize}"
    np.testing.assert_array_equal(actual[number].view(kind), expected[number].view(kind))


def check(x: np.ndarray, targets: list[str], slow: np.ndarray | None = None) -> None:
    """Run all levels on `x`; the scalar interpreter on `slow`, if given."""
    with np.errstate(all="ignore"):
        plain = x.astype(np.float32) if x.dtype.name in BITS else x
        expected = [plain.astype(named(t)) for t in targets]
        expected_slow = [v.astype(named(t)) for v in [slow] if v is not None for t in targets]
    module = casts(x, targets)
    for phase in pipeline():
        lower(module, [phase])
        verify(module)
        if phase.name == "te":
            for actual, wanted in zip(te.run_module(module, [x]), expected, strict=True):
                assert_same(actual, wanted)
    program = build_program(module, weights_of(module) or {})
    assert [spec.dtype for spec in program.outputs] == [named(t) for t in targets]
    for actual, wanted in zip(program.run([x]), expected, strict=True):
        assert_same(actual, wanted)
    if slow is None:
        return
    module = casts(slow, targets)
    lower(module, pipeline()[:4])
    results = [np.zeros_like(v) for v in expected_slow]
    loop_executor.run_module(module, [slow, *results])
    for actual, wanted in zip(results, expected_slow, strict=True):
        assert_same(actual, wanted)


@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS, "float8_e8m0fnu"])
def test_every_code_to_numbers(name: str):
    """Integers are converted only from integers: out-of-range floats have no defined result."""
    targets = ["float32", "float16", "bool"] if name in FLOATS else ["float32", "float64"]
    if name in INTEGERS:
        targets += ["int8", "int64"]
    check(codes(name), targets)


def test_every_half_to_floats():
    x = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)
    check(x, FLOATS, slow=x[::997])


def test_single_precision_is_rounded_once(rng: np.random.Generator):
    """Random values, ties between all neighbours, and the values next to these."""
    neighbours = np.concatenate([codes(n).astype(np.float32) for n in FLOATS])
    neighbours = np.unique(neighbours[np.isfinite(neighbours)])
    ties = (neighbours[1:] + neighbours[:-1]) / 2
    near = np.concatenate([np.nextafter(ties, np.float32(s)) for s in (-np.inf, np.inf)])
    random = rng.integers(0, 1 << 32, 20_000, dtype=np.uint32).view(np.float32)
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0], np.float32)
    x = np.concatenate([neighbours, ties, near, random, special]).astype(np.float32)
    check(x, FLOATS)


def test_double_precision_is_rounded_once(rng: np.random.Generator):
    neighbours = np.unique(codes("float8_e4m3fn").astype(np.float64)[:0x7F])
    ties = (neighbours[1:] + neighbours[:-1]) / 2
    # Closer to the tie than f32 resolves.
    x = np.concatenate([ties, ties * (1 + 1e-12), ties * (1 - 1e-12), -ties])
    expected = np.concatenate([neighbours[1:], neighbours[:-1]])
    module = casts(x, ["float8_e4m3fn"])
    lower(module, pipeline())
    (result,) = build_program(module, weights_of(module) or {}).run([x])
    above_and_below = result.astype(np.float64)[len(ties) : 3 * len(ties)]
    np.testing.assert_array_equal(above_and_below, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int64])
def test_integers_wrap_around(dtype: type):
    x = np.arange(0 if dtype is np.uint8 else -40, 40).astype(dtype)
    check(x, INTEGERS, slow=x)


def test_floats_lose_their_fraction():
    x = np.array([-8.9, -1.5, -0.5, 0.5, 1.5, 7.9], np.float32)
    check(x, ["int4", "int2"])


def test_between_narrow_types():
    check(codes("int4"), ["float8_e4m3fn", "float4_e2m1fn", "uint4", "int2"])
    check(codes("float4_e2m1fn"), ["float8_e5m2", "int4"])


def test_nothing_is_computed_with_them():
    """Arithmetic on a narrow type is an error, not wrong code."""
    module = casts(np.zeros(3, named("int4")), ["int4"])
    function = module.body.block.first_op
    (argument,) = function.body.block.args
    block = Block(arg_types=[argument.type])
    total = graph.AddOp(block.args[0], block.args[0])
    block.add_ops([total, func.ReturnOp(total)])
    added = func.FuncOp("main", ([argument.type], [argument.type]), Region(block))
    module = ModuleOp([added], dict(module.attributes))
    with pytest.raises(Exception, match="not defined on i4"):
        lower(module, pipeline())
