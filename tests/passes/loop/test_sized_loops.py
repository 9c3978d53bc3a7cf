"""Loop functions over sizes compute the same as numpy at every size, scheduled and lowered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from programs.loop_programs import function_of
from programs.schedule_programs import matmul, softmax
from programs.sized_loops import Array, SizedCode, with_sizes
from tcopt.compiler.passes import run_passes
from tcopt.dialects.loop import FuncOp
from tcopt.dialects.te import api as te
from tcopt.passes.loop.bufferize.stage_nests import lower_function

SCHEDULE = "set-target{cpu=znver4},schedule,apply-schedule"
LOWER = (
    "lower-intrinsics,expand-borders,compact-buffers,align-storage,lower-blocks,split-choices,"
    "vectorize,fuse-multiply-add,unroll-loops,hoist-workspace"
)


@dataclass(frozen=True)
class Case:
    """A program at the upper bound of its size, and what it computes at any size."""

    build: Callable[[], FuncOp]
    bound: int
    inputs: Callable[[int], list[Array]]
    expected: Callable[[list[Array]], Array]


def values(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def product(m: int, n: int, depth: int) -> FuncOp:
    """A matrix product with ReLU whose columns are contiguous."""
    x = te.placeholder((m, depth), name="x")
    w = te.placeholder((depth, n), name="w")
    k = te.reduce_axis(depth, "k")
    mm = te.compute((m, n), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), name="mm")
    zero = te.const(0.0, "f32")
    relu = te.compute((m, n), lambda i, j: te.maximum(mm[i, j], zero), name="relu")
    return lower_function(te.func("product", [x, w], [relu]))


def sums(rows: int, columns: int) -> FuncOp:
    x = te.placeholder((rows, columns), name="x")
    k = te.reduce_axis(columns, "k")
    y = te.compute((rows,), lambda i: te.sum(x[i, k] * x[i, k], axis=k), name="y")
    return lower_function(te.func("sums", [x], [y]))


def shifted(rows: int, columns: int) -> FuncOp:
    """Elementwise work between neighbours, with a default outside of the rows."""
    x = te.placeholder((rows, columns), name="x")
    y = te.compute(
        (rows, columns),
        lambda i, j: te.exp(x[i, j]) + x.read((i + 1, j), default=2.0),
        name="y",
    )
    return lower_function(te.func("shifted", [x], [y]))


def relu_product(arrays: list[Array]) -> Array:
    x, w = arrays
    return np.maximum(x @ w, 0)


def biased_product(arrays: list[Array]) -> Array:
    x, w, b = arrays
    return np.maximum(x @ w.T + b, 0)


def softmax_of(arrays: list[Array]) -> Array:
    e = np.exp(arrays[0] - arrays[0].max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def shifted_rows(arrays: list[Array]) -> Array:
    (x,) = arrays
    below = np.concatenate([x[1:], np.full_like(x[:1], 2.0)])
    return np.exp(x) + below


CASES = {
    "rows of a product": Case(
        lambda: product(29, 48, 8), 29, lambda n: [values(n, 8), values(8, 48)], relu_product
    ),
    "columns of a product": Case(
        lambda: product(8, 61, 6), 61, lambda n: [values(8, 6), values(6, n)], relu_product
    ),
    "depth of a product": Case(
        lambda: product(8, 32, 19), 19, lambda n: [values(8, n), values(n, 32)], relu_product
    ),
    "rows and columns": Case(
        lambda: matmul(37, 37, 16),
        37,
        lambda n: [values(n, 16), values(n, 16), values(n)],
        biased_product,
    ),
    "columns of a softmax": Case(lambda: softmax(3, 53), 53, lambda n: [values(3, n)], softmax_of),
    "rows of a softmax": Case(lambda: softmax(23, 20), 23, lambda n: [values(n, 20)], softmax_of),
    "sums": Case(lambda: sums(4, 53), 53, lambda n: [values(4, n)], lambda a: (a[0] * a[0]).sum(1)),
    "rows of a shift": Case(lambda: shifted(13, 24), 13, lambda n: [values(n, 24)], shifted_rows),
    "columns of a shift": Case(lambda: shifted(4, 37), 37, lambda n: [values(4, n)], shifted_rows),
}


@pytest.mark.parametrize("passes", [SCHEDULE, f"{SCHEDULE},{LOWER}"], ids=["blocks", "lowered"])
@pytest.mark.parametrize("name", CASES)
def test_a_program_is_right_at_every_size(name: str, passes: str) -> None:
    case = CASES[name]
    module = ModuleOp([with_sizes(case.build(), [case.bound])])
    run_passes(module, passes)
    code = SizedCode(function_of(module))
    for size in range(1, case.bound + 1):
        inputs = case.inputs(size)
        expected = case.expected(inputs)
        result = code(inputs, expected.shape, size)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5, err_msg=f"at {size}")
