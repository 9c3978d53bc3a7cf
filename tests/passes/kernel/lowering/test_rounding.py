"""Loops without `fastmath` flags have the bits of sequential operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from programs.loop_programs import LOOP_PASSES, apply
from tcopt.backends.llvm.jit import compile_module
from tcopt.dialects import loop
from tcopt.dialects.te import api as te
from tcopt.passes.loop.bufferize.stage_nests import Rounding, lower_function
from tcopt.support.ir.verify import verify

Array = NDArray[Any]
EXACT = Rounding(contract=False, reassoc=False)


def product(m: int, n: int, depth: int) -> te.FuncOp:
    """A matrix product and a bias."""
    x, w = te.placeholder((m, depth), name="x"), te.placeholder((depth, n), name="w")
    b = te.placeholder((n,), name="b")
    k = te.reduce_axis(depth, "k")
    mm = te.compute((m, n), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), name="mm")
    y = te.compute((m, n), lambda i, j: mm[i, j] * x[i, 0] + b[j], name="y")
    return te.func("f", [x, w, b], [y])


def row_sums(rows: int, columns: int) -> te.FuncOp:
    """The sum of each row, whose terms are contiguous."""
    x = te.placeholder((rows, columns), name="x")
    k = te.reduce_axis(columns, "k")
    return te.func("f", [x], [te.compute((rows,), lambda i: te.sum(x[i, k], axis=k), name="y")])


def arguments_of(function: loop.FuncOp) -> list[Array]:
    rng = np.random.default_rng(11)
    shapes = [t.get_shape() for t in function.function_type.inputs.data]
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def compiled(function: te.FuncOp, rounding: Rounding) -> list[Array]:
    """Run the code that the rules have scheduled."""
    lowered = lower_function(function, rounding)
    arguments = arguments_of(lowered)
    module = ModuleOp([lowered])
    apply(module, "schedule", now=True)
    apply(module, *LOOP_PASSES, "fuse-multiply-add", "lower-loop-to-kernel", "promote-registers")
    verify(module)
    kernel = next(op for op in module.ops if isinstance(op, FuncOp))
    del kernel.properties["sym_visibility"]
    compile_module(module).function("f")(*arguments)
    return arguments


def sequential_product(x: Array, w: Array, b: Array) -> Array:
    total = np.zeros((x.shape[0], w.shape[1]), np.float32)
    for k in range(x.shape[1]):
        total = total + x[:, k : k + 1] * w[k]
    return total * x[:, :1] + b


def sequential_sum(x: Array) -> Array:
    total = np.zeros(x.shape[0], np.float32)
    for k in range(x.shape[1]):
        total = total + x[:, k]
    return total


@pytest.mark.parametrize("shape", [(5, 48, 70), (1, 19, 33)])
def test_a_product_is_exact_without_flags(shape: tuple[int, int, int]) -> None:
    *inputs, y = compiled(product(*shape), EXACT)
    np.testing.assert_array_equal(y, sequential_product(*inputs))
    # The same code with flags rounds differently, so the test is meaningful.
    *_, fused = compiled(product(*shape), Rounding())
    assert (fused != y).any()
    np.testing.assert_allclose(fused, y, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(3, 999), (1, 4096)])
def test_a_sum_keeps_its_order_without_flags(shape: tuple[int, int]) -> None:
    x, y = compiled(row_sums(*shape), EXACT)
    np.testing.assert_array_equal(y, sequential_sum(x))
    _, other = compiled(row_sums(*shape), Rounding())
    assert (other != y).any()
    np.testing.assert_allclose(other, y, rtol=1e-3, atol=1e-3)
