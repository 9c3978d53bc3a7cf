"""The machine model: facts that are stated, derived or typical, and the busiest resource."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tcopt.dialects.target import CpuTargetAttr
from tcopt.support.machines.machine import VectorUnits, kernel_cycles, nanoseconds
from tcopt.support.machines.thread_blocks import LaunchWork, ThreadBlocks
from tcopt.targets.cpu import MACHINES

AVX2 = VectorUnits(vector_bits=256)


@pytest.mark.parametrize(
    ("work", "cycles"),
    [
        ({"products": 12}, 6),
        ({"products": 2, "chain": 1}, 5.5),
        ({"products": 2, "vectors": 4, "scalars": 4}, 4.8),
        ({"products": 12, "vectors": 6, "scalars": 6, "others": 8}, 9.2),
    ],
)
def test_code_takes_as_long_as_its_busiest_resource(work: dict[str, int], cycles: float):
    assert AVX2.cycles(**work) == pytest.approx(cycles)


def test_candidates_are_columns():
    rows = np.array([1, 6])
    cycles = AVX2.cycles(products=2 * rows, scalars=rows, vectors=2)
    assert cycles.tolist() == pytest.approx([1.8, 6.8])
    assert AVX2.rate(np.array([0, 1])).tolist() == [AVX2.near_rate, AVX2.memory_rate]


def test_vectors_that_are_multiplied_in_halves_are_loaded_in_halves():
    halves = replace(AVX2, fma_units=1)
    assert halves.cycles(products=1, vectors=4) == 4.4
    assert halves.cycles(products=1, scalars=4) == 2.4
    # Their memory operands arrive in time.
    assert halves.cycles(products=4, scalars=4, folded=4) == 4
    assert AVX2.cycles(products=4, scalars=4, folded=4) == 2.4


def test_l2_delivers_a_share_of_a_vector_unless_stated():
    assert VectorUnits(vector_bits=512).near_rate == 2 * AVX2.near_rate
    assert replace(AVX2, l2_rate=16).near_rate == 16


@pytest.mark.parametrize("machine", [AVX2, ThreadBlocks(cores=2)])
def test_kernels_take_the_time_of_operations_or_bytes(machine: VectorUnits | ThreadBlocks):
    operations, moved = 10 * machine.peak, 10 * machine.kernel_rate
    assert kernel_cycles(machine, 2 * operations, moved) == 20
    assert kernel_cycles(machine, 2 * operations, moved, cores=2) == 10
    assert kernel_cycles(machine, 0, 3 * moved, starts=1) == 30 + machine.start
    assert nanoseconds(machine.megahertz, machine) == 1000


def test_facts_with_defaults_are_omitted_from_the_text():
    target = MACHINES["haswell"]
    assert "l3_rate" not in str(CpuTargetAttr.of(target))
    stated = CpuTargetAttr.of(replace(target, l3_rate=16, start=2000))
    assert "l3_rate = 16" in str(stated) and "start = 2000" in str(stated)
    assert stated.vectors.l3_rate == 16


def test_the_busiest_resource_of_a_launch_takes_its_time() -> None:
    gpu = ThreadBlocks(warp=32, max_threads=1024, registers=64, cores=2, memory_rate=64)
    alone = LaunchWork(blocks=2, threads=256, operations=64)
    cycles = gpu.launch(alone)
    assert cycles.total == cycles.computing > cycles.loading == cycles.waiting == 0
    # Twice as many blocks are resident, and hide each other's latency.
    assert cycles.total < gpu.launch(replace(alone, blocks=4)).total < 2 * cycles.total
    assert gpu.launch(replace(alone, operations=0, loads=64 / gpu.load)) == cycles
    assert gpu.launch(replace(alone, chain=1 << 20)).total == 1 << 20
    assert gpu.launch(replace(alone, moved=1 << 20)).loading == (1 << 20) / gpu.memory_rate


def test_few_threads_load_slowly() -> None:
    """A core loads what its threads have in flight in the time of a load."""
    gpu = ThreadBlocks(warp=32, max_threads=1024, registers=64, latency=400, far_rate=32)

    def rate(threads: int, in_flight: int) -> float:
        work = LaunchWork(blocks=1, threads=threads, far=1 << 20, in_flight=in_flight)
        return (1 << 20) / gpu.launch(work).total

    assert rate(100, 16) == 4
    assert rate(100, 64) == 16
    assert rate(1000, 64) == gpu.far_rate


def test_scattered_loads_move_sectors() -> None:
    gpu = ThreadBlocks(sector=32)
    assert [gpu.scattered(step, 4) for step in (0, 4, 16, 32, 4096)] == [1, 1, 2, 4, 4]
