"""Kernels whose threads share memory: correct results and a minimal set of barriers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from programs.gpu_programs import (
    Tiling,
    barriers_of,
    kernel_of,
    matmul,
    run_on_threads,
    tile_matmul,
    without_barrier,
)
from running.examples import examples
from tcopt.interpreters.kernel import run_kernel
from tcopt.interpreters.kernel_memory import RaceError
from tcopt.schedules import Schedule
from tcopt.tools.execution.loop_executor import run_func

# Both sides add the same float32 products, in different orders.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


@settings(max_examples=examples(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_shared_tiles(data: st.DataObject) -> None:
    """Tiles that do not divide the extents, with more or fewer threads than work, compute the
    product."""
    few = st.integers(1, 3)
    tiling = Tiling(
        own=(data.draw(few), data.draw(few)),
        threads=(data.draw(st.integers(2, 4)), data.draw(st.integers(2, 4))),
        virtual=(data.draw(st.integers(1, 2)), data.draw(st.integers(1, 2))),
        depth=data.draw(few),
        vector=data.draw(st.sampled_from([1, 2, 4])),
        padding=data.draw(st.integers(0, 1)),
        double_buffer=data.draw(st.booleans()),
        unroll=data.draw(st.booleans()),
    )
    more = st.integers(0, 6)
    m = tiling.own[0] * tiling.threads[0] * tiling.virtual[0] + data.draw(more)
    n = tiling.own[1] * tiling.threads[1] * tiling.virtual[1] + data.draw(more)
    depth = tiling.depth + data.draw(more)
    sch = Schedule(matmul(m, n, depth))
    tile_matmul(sch, tiling)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    a = rng.standard_normal((m, depth), np.float32)
    b = rng.standard_normal((depth, n), np.float32)
    y = np.full((m, n), np.nan, np.float32)
    run_func(sch.func.clone(), [a, b, y])
    np.testing.assert_allclose(y, a @ b, **TOLERANCE)
    result = run_on_threads(kernel_of(sch.func), a, b, shape=(m, n))
    np.testing.assert_allclose(result, a @ b, **TOLERANCE)


@pytest.mark.parametrize(
    ("tiling", "barriers"),
    [
        (Tiling(), 2),
        (Tiling(double_buffer=True), 1),
        (Tiling(own=(1, 1), virtual=(2, 2)), 2),
        (Tiling(own=(1, 1), virtual=(2, 2), double_buffer=True), 1),
    ],
)
def test_every_barrier_is_needed(tiling: Tiling, barriers: int, rng: np.random.Generator) -> None:
    """Without any one barrier, threads read data that is not yet there or already overwritten."""
    sch = Schedule(matmul(9, 7, 10))
    tile_matmul(sch, tiling)
    kernel = kernel_of(sch.func)
    a, b = rng.standard_normal((9, 10), np.float32), rng.standard_normal((10, 7), np.float32)
    assert barriers_of(kernel) == barriers
    np.testing.assert_allclose(run_on_threads(kernel, a, b, shape=(9, 7)), a @ b, **TOLERANCE)
    for number in range(barriers_of(kernel)):
        with pytest.raises(RaceError, match=r"of %[ab]_shared, which thread .* without a barrier"):
            run_on_threads(without_barrier(kernel, number), a, b, shape=(9, 7))


def test_races_may_be_let_through(rng: np.random.Generator) -> None:
    sch = Schedule(matmul(4, 4, 4))
    tile_matmul(sch, Tiling(own=(1, 1), depth=2))
    kernel = without_barrier(kernel_of(sch.func), 0)
    arrays = [rng.standard_normal((4, 4), np.float32) for _ in range(3)]
    run_kernel(kernel, arrays, check_races=False)
