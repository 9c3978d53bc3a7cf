"""Sums that the threads of a block compute together, in shared memory or by warp shuffles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from programs.gpu_programs import (
    LOOP_PASSES,
    SCHEDULE_PASSES,
    barriers_of,
    kernel_of,
    row_sums,
    run_on_threads,
    share_rows,
    without_barrier,
)
from programs.schedule_programs import softmax
from running.examples import examples
from tcopt.backends.named_gpus import named_gpu
from tcopt.dialects.target import GpuTargetAttr
from tcopt.interpreters.kernel_memory import RaceError
from tcopt.passes.kernel.lowering.thread_axes import BLOCK_SIZE, sizes_of
from tcopt.schedules import Schedule
from tcopt.tools.execution.loop_executor import run_func

# Both sides add the same float32 numbers, in different orders.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


def target(features: str) -> GpuTargetAttr:
    return GpuTargetAttr(
        "opencl",
        features=features,
        warp=8,
        max_threads=256,
        registers=128,
        shared=32 << 10,
        vector_bits=128,
    )


@settings(max_examples=examples(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_threads_share_a_row(data: st.DataObject) -> None:
    threads = data.draw(st.sampled_from([2, 3, 4, 7, 8, 16, 32]))
    in_block = data.draw(st.integers(2, 3))
    rows = in_block + data.draw(st.integers(0, 4))
    columns = threads + data.draw(st.integers(1, 60))
    sch = Schedule(row_sums(rows, columns))
    share_rows(sch, threads, in_block)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = rng.standard_normal((rows, columns), np.float32)
    y = np.full(rows, np.nan, np.float32)
    run_func(sch.func.clone(), [x, y])
    np.testing.assert_allclose(y, x.sum(axis=1), **TOLERANCE)
    kernel = kernel_of(sch.func, target(data.draw(st.sampled_from(["", "shuffle"]))))
    result = run_on_threads(kernel, x, shape=(rows,))
    np.testing.assert_allclose(result, x.sum(axis=1), **TOLERANCE)


@pytest.mark.parametrize(
    ("threads", "features", "barriers", "shuffles"),
    [(16, "", 4, 0), (8, "shuffle", 0, 3), (32, "shuffle", 1, 5)],
)
def test_every_barrier_is_needed(
    threads: int, features: str, barriers: int, shuffles: int, rng: np.random.Generator
) -> None:
    sch = Schedule(row_sums(4, 70))
    share_rows(sch, threads, 2)
    kernel = kernel_of(sch.func, target(features))
    x = rng.standard_normal((4, 70), np.float32)
    np.testing.assert_allclose(run_on_threads(kernel, x, shape=(4,)), x.sum(axis=1), **TOLERANCE)
    assert barriers_of(kernel) == barriers
    assert sum(op.name == "simt.shuffle" for op in kernel.walk()) == shuffles
    for number in range(barriers):
        with pytest.raises(RaceError, match=r"of %y_parts, which thread .* without a barrier"):
            run_on_threads(without_barrier(kernel, number), x, shape=(4,))


@pytest.mark.parametrize(("columns", "threads", "shuffles"), [(600, 128, 7), (100, 32, 5)])
def test_rows_of_a_softmax_meet_in_warps(
    columns: int, threads: int, shuffles: int, rng: np.random.Generator
) -> None:
    kernel = kernel_of(softmax(3, columns), named_gpu("sm_75"), f"{SCHEDULE_PASSES},{LOOP_PASSES}")
    assert sizes_of(kernel, BLOCK_SIZE) == (threads, 1, 1)
    assert sum(op.name == "simt.shuffle" for op in kernel.walk()) == 2 * shuffles
    x = rng.standard_normal((3, columns), np.float32)
    exps = np.exp(x - x.max(axis=1, keepdims=True))
    expected = exps / exps.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(run_on_threads(kernel, x, shape=x.shape), expected, **TOLERANCE)
