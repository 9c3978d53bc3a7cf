"""Loop functions to schedule, made from tensor expressions, and helpers to run them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tcopt.dialects.loop import FuncOp
from tcopt.dialects.te import api as te
from tcopt.passes.loop.bufferize.stage_nests import lower_function
from tcopt.support.ir.verify import verify
from tcopt.tools.execution.loop_executor import run_func


def matmul(m: int = 5, n: int = 19, depth: int = 14) -> FuncOp:
    """A matrix product with bias and ReLU."""
    x = te.placeholder((m, depth), name="x")
    w = te.placeholder((n, depth), name="w")
    b = te.placeholder((n,), name="b")
    k = te.reduce_axis(depth, "k")
    mm = te.compute((m, n), lambda i, j: te.sum(x[i, k] * w[j, k], axis=k), name="mm")
    biased = te.compute((m, n), lambda i, j: mm[i, j] + b[j], name="bias")
    zero = te.const(0.0, "f32")
    relu = te.compute((m, n), lambda i, j: te.maximum(biased[i, j], zero), name="relu")
    return lower_function(te.func("matmul", [x, w, b], [relu]))


def conv() -> FuncOp:
    """A padded convolution with the padding as a separate stage, and a ReLU."""
    x = te.placeholder((2, 7, 9), name="x")
    w = te.placeholder((3, 2, 3, 3), name="w")
    c, r, s = (te.reduce_axis(n, name) for n, name in ((2, "c"), (3, "r"), (3, "s")))
    pad = te.compute((2, 9, 11), lambda c, h, w: x.read((c, h - 1, w - 1), default=0.0), name="pad")
    out = te.compute(
        (3, 7, 9),
        lambda o, h, v: te.sum(pad[c, h + r, v + s] * w[o, c, r, s], axis=[c, r, s]),
        name="conv",
    )
    zero = te.const(0.0, "f32")
    relu = te.compute((3, 7, 9), lambda o, h, v: te.maximum(out[o, h, v], zero), name="relu")
    return lower_function(te.func("conv", [x, w], [relu]))


def softmax(rows: int = 6, columns: int = 13) -> FuncOp:
    """A softmax over the last axis."""
    x = te.placeholder((rows, columns), name="x")
    k, m = te.reduce_axis(columns, "k"), te.reduce_axis(columns, "m")
    top = te.compute((rows,), lambda i: te.max(x[i, k], axis=k), name="top")
    e = te.compute((rows, columns), lambda i, j: te.exp(x[i, j] - top[i]), name="e")
    total = te.compute((rows,), lambda i: te.sum(e[i, m], axis=m), name="total")
    y = te.compute((rows, columns), lambda i, j: e[i, j] / total[i], name="y")
    return lower_function(te.func("softmax", [x], [y]))


def chain() -> FuncOp:
    """Elementwise stages of odd sizes, with shifts, a broadcast and a guarded read."""
    x = te.placeholder((7, 17), name="x")
    b = te.placeholder((17,), name="b")
    a = te.compute((7, 17), lambda i, j: x[i, j] * x[i, j], name="a")
    c = te.compute((7, 17), lambda i, j: a[i, j] + b[j], name="c")
    d = te.compute((7, 15), lambda i, j: c[i, j] - c[i, j + 2], name="d")
    e = te.compute((9, 15), lambda i, j: d.read((i - 1, 14 - j), default=1.5), name="e")
    y = te.compute((9, 15), lambda i, j: te.exp(e[i, j]), name="y")
    return lower_function(te.func("chain", [x, b], [y]))


PROGRAMS: dict[str, Callable[[], FuncOp]] = {
    "matmul": matmul,
    "conv": conv,
    "softmax": softmax,
    "chain": chain,
}


def run(function: FuncOp, *, order: int = 0) -> np.ndarray:
    """Return the function's last argument after a run on fixed random inputs."""
    rng = np.random.default_rng(7)
    arrays = [
        rng.standard_normal(type_.get_shape()).astype(np.float32)  # pyright: ignore
        for type_ in function.function_type.inputs.data
    ]
    arrays[-1][...] = np.nan
    return run_func(function, arrays, order=order)[-1]


def check(function: FuncOp, expected: np.ndarray) -> None:
    """Check that the function verifies and computes the same, in any order of parallel loops."""
    verify(ModuleOp([function.clone()]))
    np.testing.assert_allclose(run(function), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(run(function, order=1), expected, rtol=1e-4, atol=1e-5)
