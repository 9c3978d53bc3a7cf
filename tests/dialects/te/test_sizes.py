"""Tensor expressions over sizes: values at every number of the sizes, and errors."""

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tcopt.dialects.te import ReadOp
from tcopt.dialects.te import api as te
from tcopt.dialects.te.function_sizes import FunctionSizes
from tcopt.interpreters.te import run_func
from tcopt.passes.fix_sizes import fix_sizes
from tcopt.support.arithmetic.sizes import evaluate, maximum, minimum, named_size
from tcopt.support.ir.verify import verify

N, B, EVEN = named_size("n", 3, 9), named_size("b", 1, 3), named_size("e", 2, 8, 2)


def reverse(x, i):
    return te.compute(x.shape, lambda p: x[x.shape[0] - 1 - p])


def mean(x, i):
    k = te.reduce_axis(x.shape[0], "k")
    total = te.compute((1,), lambda p: te.sum(x[k], axis=k))
    return te.compute((1,), lambda p: total[p] / x.shape[0])


def join(x, i):
    n = x.shape[0]
    return te.compute((n + 2,), lambda p: te.if_then_else(p < n, x[p], x[p - n]))


def windows(x, i):
    k = te.reduce_axis(3, "k")
    count = (x.shape[0] - 3) // 2 + 1
    return te.compute((count,), lambda p: te.sum(x[p * 2 + k], axis=k))


def gather(x, i):
    return te.compute((4,), lambda p: x[te.index(i[p])])


def cycle(x, i):
    return te.compute((2 * x.shape[0],), lambda p: x[te.index(te.cast(p, "i64") % x.shape[0])])


CASES = [
    (reverse, lambda x, i: x[::-1]),
    (mean, lambda x, i: x.mean(keepdims=True)),
    (join, lambda x, i: np.concatenate([x, x[:2]])),
    (windows, lambda x, i: np.lib.stride_tricks.sliding_window_view(x, 3)[::2].sum(axis=1)),
    (gather, lambda x, i: x[i.clip(0, len(x) - 1)]),
    (cycle, lambda x, i: np.tile(x, 2)),
]


@pytest.mark.parametrize(("build", "expected"), CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("size", [N, N * B, N + 1, 2 * N], ids=str)
def test_values_at_every_number(build, expected, size, rng):
    x, i = te.placeholder((size,), "f32", "x"), te.placeholder((4,), "i64", "i")
    sizes = FunctionSizes()
    function = te.func("f", [x, i], [build(x, i)], sizes)
    verify(function)
    (symbol,), (value,) = sizes.symbols, sizes.values
    assert symbol.name == "s0"
    for n in range(3, 10, 2):
        number = evaluate(value, {"n": n, "b": 2})
        module = ModuleOp([function.clone()])
        fix_sizes(module, {"s0": number})
        verify(module)
        given = rng.standard_normal(evaluate(size, {"n": n, "b": 2})).astype(np.float32)
        rows = np.array([0, -3, 2, 100])
        (result,) = run_func(next(iter(module.ops)), [given, rows])
        np.testing.assert_allclose(result, expected(given, rows), rtol=1e-5)


def test_products_and_minima_become_sizes():
    """Other extents, multiples included, are affine in the sizes of the function."""
    shape = (N * B, minimum(N, 5), 3 * N + 1, EVEN // 2)
    sizes = FunctionSizes()
    te.func(
        "f", [te.placeholder(shape)], [te.compute(shape, lambda *i: te.const(1.0, "f32"))], sizes
    )
    assert [(s.low, s.high, s.multiple) for s in sizes.symbols] == [
        (3, 27, 1),
        (3, 5, 1),
        (3, 9, 1),
        (2, 8, 2),
    ]
    assert [str(value) for value in sizes.values] == ["b * n", "min(n, 5)", "n", "e"]


def test_indices_must_be_inside_for_every_number():
    x = te.placeholder((N,))
    with pytest.raises(te.ExpressionError, match=r"leaves \[0, n\)"):
        te.func("f", [x], [te.compute((9,), lambda i: x[i])])
    with pytest.raises(te.ExpressionError, match="not affine"):
        te.compute((B,), lambda i: x[i * N])
    with pytest.raises(te.ExpressionError, match="known when the program runs"):
        te.compute((B,), lambda i: x[i % N])


def test_relations_between_sizes_prove_indices_inside():
    """The function has a size for the minimum, so its reads have a default that is never used."""
    x = te.placeholder((N,), "f32", "x")
    sizes = FunctionSizes()
    function = te.func("f", [x], [te.compute((minimum(N, 2 * B),), lambda i: x[i])], sizes)
    verify(function)
    assert [str(value) for value in sizes.values] == ["n", "min(2 * b, n)"]
    (read,) = (op for op in function.walk() if isinstance(op, ReadOp))
    assert read.default is not None
    with pytest.raises(te.ExpressionError, match="leaves"):
        te.func("f", [x], [te.compute((maximum(N, 2 * B),), lambda i: x[i])])
