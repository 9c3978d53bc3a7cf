"""What a runtime has to offer for kernels to run on its devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from tcopt.runtime.device.steps import Step

Array = NDArray[Any]
Buffer = Any
"""Memory of a device; what it is its runtime knows."""


class Device(Protocol):
    """A device, with a queue that does one thing after the other."""

    name: str

    def allocate(self, size: int) -> Buffer:
        """Memory for some bytes, uninitialised, and aligned as the memory plan wants it."""
        ...

    def write(self, array: Array, buffer: Buffer) -> None:
        """Copy an array, which may change at once afterwards, to the start of a buffer."""
        ...

    def read(self, buffer: Buffer, array: Array) -> None:
        """Wait for all that was asked for before, and copy the start of a buffer to an array."""
        ...

    def prepare(
        self, source: str, steps: Sequence[Step], buffers: Sequence[Buffer]
    ) -> Callable[[], None]:
        """Compile kernels, and what puts all steps on the queue when it is called."""
        ...
