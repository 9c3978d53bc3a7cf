"""Kernels whose threads share memory: right results, and no barrier too few or too many."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_programs import (
    barriers_of,
    kernel_of,
    matmul,
    run_on_threads,
    tile_matmul,
    without_barrier,
)
from tcopt.interpreters.kernel import run_kernel
from tcopt.interpreters.kernel_memory import RaceError
from tcopt.interpreters.loop import run_func
from tcopt.schedules import Schedule

# Both sides add the same float32 products, in different orders.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_shared_tiles(data: st.DataObject) -> None:
    """Tiles that divide nothing, with more threads than work or less, give the product."""
    threads = data.draw(st.integers(2, 4)), data.draw(st.integers(2, 4))
    rows, columns, tile = (data.draw(st.integers(1, 3)) for _ in range(3))
    m = rows * threads[0] + data.draw(st.integers(0, 6))
    n = columns * threads[1] + data.draw(st.integers(0, 6))
    depth = tile + data.draw(st.integers(0, 6))
    sch = Schedule(matmul(m, n, depth))
    tile_matmul(sch, rows, columns, tile, threads)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    a = rng.standard_normal((m, depth), np.float32)
    b = rng.standard_normal((depth, n), np.float32)
    y = np.full((m, n), np.nan, np.float32)
    run_func(sch.func.clone(), [a, b, y])
    np.testing.assert_allclose(y, a @ b, **TOLERANCE)
    result = run_on_threads(kernel_of(sch.func), a, b, shape=(m, n))
    np.testing.assert_allclose(result, a @ b, **TOLERANCE)


def test_every_barrier_is_needed(rng: np.random.Generator) -> None:
    """Without any one of them threads read what is not there yet, or no longer."""
    sch = Schedule(matmul(9, 7, 10))
    tile_matmul(sch, 2, 2, 4, (4, 4))
    kernel = kernel_of(sch.func)
    a, b = rng.standard_normal((9, 10), np.float32), rng.standard_normal((10, 7), np.float32)
    assert barriers_of(kernel) >= 2
    for number in range(barriers_of(kernel)):
        with pytest.raises(RaceError, match=r"of %[ab]_shared, which thread .* without a barrier"):
            run_on_threads(without_barrier(kernel, number), a, b, shape=(9, 7))


def test_races_may_be_let_through(rng: np.random.Generator) -> None:
    sch = Schedule(matmul(4, 4, 4))
    tile_matmul(sch, 1, 1, 2, (4, 4))
    kernel = without_barrier(kernel_of(sch.func), 0)
    arrays = [rng.standard_normal((4, 4), np.float32) for _ in range(3)]
    run_kernel(kernel, arrays, check_races=False)
