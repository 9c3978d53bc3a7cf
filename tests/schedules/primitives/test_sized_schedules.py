"""Random sequences of primitives on functions over sizes preserve results at every size."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from programs.schedule_programs import matmul, softmax
from programs.schedule_steps import random_schedule
from programs.sized_loops import Array, SizedCode, with_sizes
from tcopt.compiler.passes import run_passes
from tcopt.dialects.loop import FuncOp
from tcopt.dialects.te import api as te
from tcopt.passes.loop.bufferize.stage_nests import lower_function
from tcopt.schedules import Schedule
from tcopt.support.ir.verify import verify

LOWER = "compact-buffers,lower-blocks,split-choices,vectorize,unroll-loops"


def chain(rows: int, columns: int) -> FuncOp:
    """Elementwise stages with a broadcast, a read outside of the rows, and a sum."""
    x = te.placeholder((rows, columns), name="x")
    a = te.compute((rows, columns), lambda i, j: x[i, j] * x[i, j], name="a")
    b = te.compute(
        (rows, columns), lambda i, j: a[i, j] + a.read((i - 1, j), default=1.5), name="b"
    )
    k = te.reduce_axis(columns, "k")
    c = te.compute((rows,), lambda i: te.sum(b[i, k], axis=k), name="c")
    y = te.compute((rows, columns), lambda i, j: b[i, j] - c[i], name="y")
    return lower_function(te.func("chain", [x], [y]))


Build = Callable[[int, int], FuncOp]

PROGRAMS: dict[str, tuple[Build, Callable[[int, int], list[tuple[int, ...]]]]] = {
    "matmul": (lambda m, n: matmul(m, 6, n), lambda m, n: [(m, n), (6, n), (6,), (m, 6)]),
    "softmax": (softmax, lambda m, n: [(m, n), (m, n)]),
    "chain": (chain, lambda m, n: [(m, n), (m, n)]),
}
ROWS, COLUMNS = 11, 13


def arrays(shapes: list[tuple[int, ...]]) -> list[Array]:
    rng = np.random.default_rng(5)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes[:-1]]


def check(function: FuncOp, plain: FuncOp, program: str, where: str) -> None:
    """Check that two functions compute the same at some sizes."""
    verify(ModuleOp([function.clone()]))
    code, reference = SizedCode(function), SizedCode(plain)
    for m, n in ((1, 1), (2, 7), (5, 4), (8, 8), (9, 12), (ROWS, COLUMNS)):
        shapes = PROGRAMS[program][1](m, n)
        expected = reference(arrays(shapes), shapes[-1], m, n)
        result = code(arrays(shapes), shapes[-1], m, n)
        np.testing.assert_allclose(
            result, expected, rtol=1e-4, atol=1e-4, err_msg=f"{where} at {m}, {n}"
        )


@pytest.mark.nightly(every=10)
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("program", PROGRAMS)
def test_legal_sequences_keep_the_result_at_every_size(program: str, seed: int) -> None:
    plain = with_sizes(PROGRAMS[program][0](ROWS, COLUMNS), [ROWS, COLUMNS])
    rng = random.Random(seed)
    sch = Schedule(plain.clone())
    taken = random_schedule(rng, sch, 12)
    check(sch.func, plain, program, f"after {taken}")
    module = ModuleOp([sch.func.clone()])
    run_passes(module, LOWER)
    (lowered,) = (op for op in module.ops if isinstance(op, FuncOp))
    check(lowered, plain, program, f"lowered after {taken}")
