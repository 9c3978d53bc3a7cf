"""Interface of a device runtime: protocols for devices and for prepared steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.device.steps import Step
from tcopt.runtime.foreign import ForeignPlace, ForeignTensor
from tcopt.support.errors import DeviceLostError, InputError

if TYPE_CHECKING:
    from tcopt.runtime.device.arrays import DeviceArray

Array = NDArray[Any]
Times = NDArray[np.int64]
Buffer = Any
"""Memory of a device, opaque outside the device's runtime."""
Kernels = Any
"""Loaded kernels, opaque outside the device's runtime."""


@dataclass(frozen=True)
class KernelSource:
    """Source text for a device's compiler, and the names of the kernels in it."""

    text: str
    kernels: tuple[str, ...]


class Device(Protocol):
    """Device with one in-order queue.

    Methods raise BackendError if the driver reports an error, and DeviceLostError if the process
    can no longer use the device.
    """

    name: str

    @property
    def place(self) -> ForeignPlace:
        """Memory space of the device, for exchange with other libraries."""
        ...

    @property
    def stream(self) -> int | None:
        """Handle of the queue for other libraries; None if it has none."""
        ...

    def address(self, buffer: Buffer) -> int:
        """Return the address of a buffer's first byte."""
        ...

    def tensor(self, value: Any, *, writable: bool = False) -> DeviceArray:
        """Return a tensor in the device's memory, see `arrays.tensor_on`."""
        ...

    def borrow(self, tensor: ForeignTensor, *, writable: bool = False) -> Buffer:
        """Return another library's memory as a buffer; copy it if its layout is unsuitable.

        Raises:
            BufferError: the device cannot access it, or `writable` is set and it needs a copy.
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
        """Allocate uninitialised memory of `size` bytes, aligned as the memory plan requires."""
        ...

    def write(self, array: Array, buffer: Buffer) -> None:
        """Copy an array to the start of a buffer; the array may change once this returns."""
        ...

    def read(self, buffer: Buffer, array: Array) -> None:
        """Wait for all earlier work, and copy the start of a buffer to an array."""
        ...

    def copy(self, source: Buffer, target: Buffer, size: int) -> None:
        """Enqueue a copy of the first `size` bytes of a buffer."""
        ...

    def wait(self) -> None:
        """Wait for all earlier work."""
        ...

    def load(self, sources: Sequence[KernelSource]) -> Kernels:
        """Compile kernels for the device.

        Raises:
            BackendError: the device rejects the sources.
        """
        ...

    def prepare(
        self, kernels: Kernels, steps: Sequence[Step], buffers: Sequence[Buffer]
    ) -> PreparedSteps:
        """Bind steps to buffers, so that they can be enqueued repeatedly."""
        ...


def no_streams(name: str) -> InputError:
    """Return the error for a stream that is passed to a device without streams."""
    return InputError(f"{name} has no CUDA streams", hint="leave stream out")


def lost(name: str, cause: str) -> DeviceLostError:
    """Return the error for a call on a lost device.

    Args:
        cause: the message of the first error.
    """
    return DeviceLostError(
        f"{name} cannot be used any more in this process: {cause}",
        hint="start a new process; with a timeout, `run` waits for each kernel and names the one "
        "that fails",
    )


class PreparedSteps(Protocol):
    """Launches and copies bound to buffers."""

    def start(self) -> None:
        """Enqueue all steps."""
        ...

    def start_checked(self, check: Callable[[], None]) -> None:
        """Run all steps, and call `check` between them, which raises to end the run."""
        ...

    def seconds(self, runs: int) -> float:
        """Return the mean time of a run, measured over at least that many consecutive runs."""
        ...

    def times(self) -> Times:
        """Run once and return the start and end of each step in nanoseconds, [steps, 2]."""
        ...
