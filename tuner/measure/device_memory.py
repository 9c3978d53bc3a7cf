"""Interface of a device's memory and kernels for the process that runs candidates."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from tcopt.tuner.measure.workload import Code, Workload

Array = NDArray[Any]

CANARY = 0x5A
"""Value of the guard bytes around a buffer."""

CANARY_BYTES = 4096
"""Number of guard bytes on each side."""

MOST_COPIES = 64
"""Maximum number of copies of the weights that calls rotate through."""


class LoadedKernel(Protocol):
    """A kernel loaded on a device, and its workspace."""

    def call(self, threads: int) -> None:
        """Run the kernel once.

        Raises:
            MemoryError: it could not allocate what it needs.
        """
        ...

    def time(self, calls: int, threads: int) -> float:
        """Return the nanoseconds per call of `calls` consecutive calls, rotating the copies of
        weights.
        """
        ...

    def poison(self) -> None:
        """Fill the workspace with values that no kernel computes."""
        ...

    def damage(self) -> str | None:
        """Describe what was written outside of the workspace; None if nothing."""
        ...


class WorkloadMemory(Protocol):
    """A workload's inputs, weights and outputs in a device's memory."""

    def fill(self, kind: int) -> None:
        """Write a set of inputs, and poison the outputs."""
        ...

    def poison(self) -> None:
        """Fill the outputs with values that no kernel computes."""
        ...

    def load(self, code: Code) -> LoadedKernel:
        """Load code onto the device.

        Raises:
            TcoptError: the device rejects it.
        """
        ...

    def damage(self) -> str | None:
        """Describe illegal writes, to inputs or outside of a buffer; None if there are none."""
        ...

    def outputs(self) -> list[Array]:
        """Return the contents of the outputs."""
        ...

    def close(self) -> None:
        """Free the memory."""
        ...


def copies_of_weights(workload: Workload, size: int) -> int:
    """Return the number of copies of weights of `size` bytes that calls rotate through."""
    if not size or not workload.weight_bytes:
        return 1
    return max(1, min(MOST_COPIES, -(-workload.weight_bytes // size)))
