"""What the process that runs candidates asks of a device."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from tcopt.tuner.measure.workload import Code, Workload

Array = NDArray[Any]

CANARY = 0x5A
"""What the bytes around a buffer hold."""

CANARY_BYTES = 4096
"""How many of them there are on each side."""

MOST_COPIES = 64
"""Copies of the weights that are in turn."""


class LoadedKernel(Protocol):
    """A kernel in a device's memory, and the memory for its intermediate values."""

    def call(self, threads: int) -> None:
        """Run once.

        Raises:
            MemoryError: it could not allocate what it needs.
        """
        ...

    def time(self, calls: int, threads: int) -> float:
        """Nanoseconds of a call, of so many one after the other; weights are in turn."""
        ...

    def poison(self) -> None:
        """Fill the memory for intermediate values with what no kernel computes."""
        ...

    def damage(self) -> str | None:
        """What it wrote beside that memory; None if nothing."""
        ...


class WorkloadMemory(Protocol):
    """A workload's inputs, weights and outputs in a device's memory."""

    def fill(self, kind: int) -> None:
        """Write a set of inputs, and poison the outputs."""
        ...

    def poison(self) -> None:
        """Fill the outputs with what no kernel computes."""
        ...

    def load(self, code: Code) -> LoadedKernel:
        """Get code ready to run.

        Raises:
            TcoptError: the device does not take it.
        """
        ...

    def damage(self) -> str | None:
        """What was written that may not be: inputs, or memory beside a buffer."""
        ...

    def outputs(self) -> list[Array]:
        """What the outputs hold."""
        ...

    def close(self) -> None:
        """Give the memory back."""
        ...


def copies_of_weights(workload: Workload, size: int) -> int:
    """How many copies of weights of so many bytes are in turn."""
    if not size or not workload.weight_bytes:
        return 1
    return max(1, min(MOST_COPIES, -(-workload.weight_bytes // size)))
