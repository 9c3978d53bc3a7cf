"""Measurement of the facts of the machine at hand that the operating system does not report.

Kernels that each keep one resource of a core busy are compiled and timed. A chain of
dependent integer operations, which take a cycle each, is timed before each run, so that times are
in cycles whatever the clock frequency. The fastest of many short pairs of runs is not disturbed by
other programs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter, perf_counter_ns
from typing import Any

import numpy as np

from tcopt.backends.llvm.jit import compile_module
from tcopt.compiler.passes import shared_context
from tcopt.support.machines.alignment import ALIGNMENT
from tcopt.support.machines.cpu_target import CpuTarget
from tcopt.support.syntax.parsing import TextParser
from tcopt.tools.benchmarking import machine_kernels

_STEPS = 1 << 17
"""Steps of a chain: a run takes a fraction of a millisecond."""

_CHAINS = (8, 10, 12)
"""Numbers of independent chains of multiply-adds; the registers of AVX2 hold 12."""

_MIXED = 6
"""Chains of multiply-adds and of integers that are computed together."""

_REGIONS = 50
"""Parallel regions in a run."""

_PASS_BYTES = 1 << 21
"""Minimum bytes that a kernel reads in a run."""

_MOST_BYTES = 256 << 20
"""Maximum size of a buffer in memory."""


@dataclass(frozen=True)
class Measured:
    """Rates of a core and of its memories, before they are rounded to facts.

    Attributes:
        fma_units: vector multiply-adds per cycle.
        fma_latency: cycles from a multiply-add to another one that needs its result.
        loads: vectors loaded from L1 per cycle.
        issue: instructions per cycle.
        l2_rate, l3_rate, memory_rate: bytes per cycle; 0 for a cache that the machine lacks.
        start: cycles of a parallel region; 0 with a single core.
        megahertz: the clock frequency in MHz.
    """

    fma_units: float
    fma_latency: float
    loads: float
    issue: float
    l2_rate: float
    l3_rate: float
    memory_rate: float
    start: float
    megahertz: float

    def target(self, machine: CpuTarget) -> CpuTarget:
        """Return a machine with these facts."""
        memory = max(1, int(self.memory_rate))
        return replace(
            machine,
            fma_units=max(1, round(self.fma_units)),
            fma_latency=max(1, round(self.fma_latency)),
            loads=max(1, round(self.loads)),
            issue=max(1, round(self.issue)),
            l2_rate=int(self.l2_rate),
            l3_rate=max(int(self.l3_rate), memory),
            memory_rate=memory,
            start=round(self.start) or machine.start,
            megahertz=max(1, round(self.megahertz)),
        )


class MachineMeasure:
    """Measures a machine with kernels compiled for it.

    Args:
        machine: this machine.
        seconds: time for each kernel.
    """

    def __init__(self, machine: CpuTarget, seconds: float):
        self.machine, self._seconds = machine, seconds
        self._lanes = machine.lanes()
        self._chain = self._kernel(machine_kernels.dependent_integers(_STEPS))

    def measure(self) -> Measured:
        """Measure all facts."""
        machine, lanes = self.machine, self._lanes
        one = machine_kernels.multiply_adds(_STEPS, 1, lanes)
        many = (machine_kernels.multiply_adds(_STEPS // 4, n, lanes) for n in _CHAINS)
        fmas = [n * _STEPS / 4 / self._cycles(text) for n, text in zip(_CHAINS, many, strict=True)]
        return Measured(
            fma_units=max(fmas),
            fma_latency=self._cycles(one) / _STEPS,
            loads=self._read_rate(machine.l1 // 2) / (4 * lanes),
            issue=self._issue(),
            l2_rate=self._beyond(machine.l1, machine.l2),
            l3_rate=self._beyond(machine.l2, machine.l3),
            memory_rate=self._read_rate(min(max(4 * machine.l3, 16 * machine.l2), _MOST_BYTES)),
            start=self._start(),
            megahertz=self._megahertz(),
        )

    def _issue(self) -> float:
        steps = _STEPS // 8
        text = machine_kernels.multiply_adds(steps, _MIXED, self._lanes, _MIXED)
        # Each step has a multiply-add and two integer operations of each chain.
        return 3 * _MIXED * steps / self._cycles(text)

    def _beyond(self, cache: int, size: int) -> float:
        """Return the rate of data that exceed a cache and fit half of the next one."""
        wanted = min(4 * cache, size // 2)
        return self._read_rate(wanted) if wanted > cache else 0.0

    def _read_rate(self, size: int) -> float:
        """Return the bytes per cycle at which a core rereads a buffer."""
        step = 4 * self._lanes * 16
        size = max(size // step, 1) * step
        passes = max(1, _PASS_BYTES // size)
        text = machine_kernels.reads(size // 4, passes, self._lanes)
        return size * passes / self._cycles(text, size)

    def _start(self) -> float:
        cores = self.machine.cores
        if cores < 2:
            return 0.0
        text = machine_kernels.parallel_regions(_REGIONS, cores)
        return self._cycles(text, threads=cores) / _REGIONS

    def _megahertz(self) -> float:
        return 2 * _STEPS / _fastest(self._chain, self._seconds) * 1000

    def _cycles(self, text: str, size: int = 4096, threads: int = 1) -> float:
        """Return the cycles of a kernel on a buffer of `size` bytes."""
        kernel = self._kernel(text, size, threads)
        kernel()
        best, cycles = float("inf"), 0.0
        end = perf_counter() + self._seconds
        while not cycles or perf_counter() < end:
            chain, own = _timed(self._chain), _timed(kernel)
            if chain * own < best:
                best, cycles = chain * own, own / chain * 2 * _STEPS
        return cycles

    def _kernel(self, text: str, size: int = 4096, threads: int = 1) -> Callable[[], Any]:
        module = TextParser(shared_context(), text, "kernel").parse_module()
        loaded = compile_module(module, self.machine)
        loaded.threads = threads
        function, buffer = loaded.function("main"), _aligned(size)
        return lambda: function(buffer)


def _fastest(kernel: Callable[[], Any], seconds: float) -> float:
    end, best = perf_counter() + seconds, _timed(kernel)
    while perf_counter() < end:
        best = min(best, _timed(kernel))
    return best


def _timed(kernel: Callable[[], Any]) -> float:
    start = perf_counter_ns()
    kernel()
    return perf_counter_ns() - start


def _aligned(size: int) -> Any:
    """Return a buffer of 32-bit integers, every page of which is in memory."""
    whole = np.ones(size // 4 + ALIGNMENT // 4, np.int32)
    return whole[-whole.ctypes.data % ALIGNMENT // 4 :][: size // 4]
