"""What a runtime has to offer for kernels to run on its devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.device.steps import Step
from tcopt.runtime.foreign import ForeignTensor, Place
from tcopt.support.errors import DeviceLostError, InputError

if TYPE_CHECKING:
    from tcopt.runtime.device.arrays import DeviceArray

Array = NDArray[Any]
Times = NDArray[np.int64]
Buffer = Any
"""Memory of a device; what it is its runtime knows."""
Kernels = Any
"""Kernels on a device; what they are its runtime knows."""


@dataclass(frozen=True)
class KernelSource:
    """A text that a device's compiler takes, and the kernels in it."""

    text: str
    kernels: tuple[str, ...]


class Device(Protocol):
    """A device, with a queue that does one thing after the other.

    Methods raise BackendError where its driver reports an error, and DeviceLostError where the
    device cannot be used any more in this process.
    """

    name: str

    @property
    def place(self) -> Place:
        """Where its memory is, for exchange with other libraries."""
        ...

    @property
    def stream(self) -> int | None:
        """Number of the queue as other libraries name it; None if it has none."""
        ...

    def address(self, buffer: Buffer) -> int:
        """Address of a buffer's first byte."""
        ...

    def tensor(self, value: Any, *, writable: bool = False) -> DeviceArray:
        """Return a tensor that is in the device's memory, see `arrays.tensor_on`."""
        ...

    def borrow(self, tensor: ForeignTensor, *, writable: bool = False) -> Buffer:
        """Return another library's memory as a buffer, a copy if the device cannot use it.

        Raises:
            BufferError: the device cannot access it, or it is to be written and needs a copy.
        """
        ...

    def follow(self, stream: int) -> None:
        """Make later work on the queue wait for the work on a caller's stream.

        Raises:
            InputError: the device has no streams.
        """
        ...

    def hold(self, stream: int) -> None:
        """Make later work on a caller's stream wait for the work on the queue.

        Raises:
            InputError: the device has no streams.
        """
        ...

    def allocate(self, size: int) -> Buffer:
        """Memory for some bytes, uninitialised, and aligned as the memory plan wants it."""
        ...

    def write(self, array: Array, buffer: Buffer) -> None:
        """Copy an array, which may change at once afterwards, to the start of a buffer."""
        ...

    def read(self, buffer: Buffer, array: Array) -> None:
        """Wait for all that was asked for before, and copy the start of a buffer to an array."""
        ...

    def copy(self, source: Buffer, target: Buffer, size: int) -> None:
        """Put a copy of the first bytes of a buffer on the queue."""
        ...

    def wait(self) -> None:
        """Wait for all that was asked for before."""
        ...

    def load(self, sources: Sequence[KernelSource]) -> Kernels:
        """Compile kernels for the device.

        Raises:
            BackendError: the device does not take them.
        """
        ...

    def prepare(
        self, kernels: Kernels, steps: Sequence[Step], buffers: Sequence[Buffer]
    ) -> PreparedSteps:
        """Steps that can be put on the queue at once, again and again."""
        ...


def no_streams(name: str) -> InputError:
    """Return the error for a caller's stream on a device that has none."""
    return InputError(f"{name} has no CUDA streams", hint="leave stream out")


def lost(name: str, cause: str) -> DeviceLostError:
    """Return the error of every call after the one that lost a device.

    Args:
        cause: the message of the first error.
    """
    return DeviceLostError(
        f"{name} cannot be used any more in this process: {cause}",
        hint="start a new process; with a timeout, `run` waits for each kernel and names the one "
        "that fails",
    )


class PreparedSteps(Protocol):
    """Launches and copies on certain buffers."""

    def start(self) -> None:
        """Put all steps on the queue."""
        ...

    def start_checked(self, check: Callable[[], None]) -> None:
        """Do all steps, and call a function between them, which raises if they are to end."""
        ...

    def seconds(self, runs: int) -> float:
        """How long a run takes of so many one after the other."""
        ...

    def times(self) -> Times:
        """Run once; when each step starts and ends, [steps, 2], nanoseconds."""
        ...
