"""Schedule a matrix product manually, and measure the effect of each step.

python examples/write_a_schedule.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tcopt.backends.llvm.jit import compile_module
from tcopt.backends.llvm.machine.host import host_target
from tcopt.compiler import lower, pipeline
from tcopt.dialects.loop import FuncOp
from tcopt.dialects.target import TARGET_ATTRIBUTE, CpuTargetAttr
from tcopt.dialects.te import api as te
from tcopt.passes.loop.bufferize.stage_nests import lower_function
from tcopt.schedules import Schedule

SIZE = 192
LANES = host_target().lanes(32)


def matmul() -> FuncOp:
    """Return the product of two square matrices, as loops in the order of its axes."""
    a = te.placeholder((SIZE, SIZE), name="a")
    b = te.placeholder((SIZE, SIZE), name="b")
    k = te.reduce_axis(SIZE, "k")
    c = te.compute((SIZE, SIZE), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    return lower_function(te.func("matmul", [a, b], [c]))


def as_written(sch: Schedule) -> None:
    """Apply no steps: loops i, j, k around scalar code."""


def vectors_along_rows(sch: Schedule) -> None:
    """Vectorise along j, inside of k, so that loads of b are contiguous."""
    i, j, k = sch.get_loops("c")
    jo, ji = sch.split(j, factors=[None, LANES])
    sch.reorder(i, jo, k, ji)
    sch.vectorize(ji)


def tile_in_registers(sch: Schedule) -> None:
    """Keep a tile of four rows by two vectors of sums in registers throughout the loop over k."""
    c = sch.get_block("c")
    copy = sch.cache_write(c, "register")
    i, j, k = sch.get_loops(c)
    io, ii = sch.split(i, factors=[None, 4])
    jo, jm, ji = sch.split(j, factors=[None, 2, LANES])
    sch.reorder(io, jo, k, ii, jm, ji)
    init = sch.decompose_reduction(c, k)
    sch.reverse_compute_at(copy, jo)
    *_, j_copy = sch.get_loops(copy)
    sch.split(j_copy, factors=[None, LANES])
    for block in (init, c, copy):
        *_, row, vector, lane = sch.get_loops(block)
        sch.vectorize(lane)
        sch.unroll(vector)
        sch.unroll(row)


def compiled(schedule: Callable[[Schedule], None]) -> Callable[..., None]:
    """Return the scheduled function, compiled to native code."""
    function = matmul()
    schedule(Schedule(function))
    module = ModuleOp([function], {TARGET_ATTRIBUTE: CpuTargetAttr.of(host_target())})
    (kernel,) = [phase for phase in pipeline() if phase.name == "kernel"]
    # There is no @main, so memory cannot be planned.
    lower(module, [kernel.without("plan-memory")])
    return compile_module(module).function("matmul")


def best_time(run: Callable[[], None], repeat: int = 20) -> float:
    """Return the minimum time of several runs, in milliseconds."""
    times: list[float] = []
    for _ in range(repeat):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return min(times) * 1e3


def main() -> None:
    """Time three schedules of one function, and check that their results agree."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((SIZE, SIZE), np.float32) for _ in range(2))
    c = np.empty_like(a)
    for schedule in (as_written, vectors_along_rows, tile_in_registers):
        run = compiled(schedule)
        c[...] = np.nan
        run(a, b, c)
        # Rounding of sums of 192 f32 products with unit variance.
        np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
        milliseconds = best_time(partial(run, a, b, c))
        print(f"{schedule.__name__:20} {milliseconds:7.2f} ms")


if __name__ == "__main__":
    main()
