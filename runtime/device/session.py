"""A program on its device: memory that a caller may keep, and runs that copy nothing.

```python
session = model.session()
session.inputs["x"].write(x)
session.start()
y = session.outputs["y"].read()
```
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.checks import refuse_if_any
from tcopt.runtime.device.interface import Buffer, Device, Kernels, Times
from tcopt.runtime.feeds import array_of
from tcopt.runtime.specs import TensorSpec
from tcopt.support.errors import InputError
from tcopt.support.random_keys import new_key

if TYPE_CHECKING:
    from tcopt.runtime.device.program import DeviceProgram

Array = NDArray[Any]


class DeviceArray:
    """A tensor in a device's memory.

    Attributes:
        buffer: the memory, as the device's runtime has it.
    """

    def __init__(self, device: Device, spec: TensorSpec):
        self.name = spec.name
        self.shape = tuple(d for d in spec.shape if isinstance(d, int))
        self.dtype = spec.dtype
        self.size = int(np.prod(self.shape, dtype=np.int64)) * spec.dtype.itemsize
        self.buffer: Buffer = device.allocate(self.size)
        self._device = device

    def write(self, array: Array) -> None:
        """Copy an array of the same shape and type here.

        Raises:
            InputError: the shape or the type is another one.
        """
        array = array_of(f'"{self.name}"', self.dtype, array)
        self._check(array.shape, array.dtype)
        self._device.write(np.ascontiguousarray(array), self.buffer)

    def read(self) -> Array:
        """Wait for all that was started, and copy the tensor to an array."""
        array = np.empty(self.shape, self.dtype)
        self._device.read(self.buffer, array)
        return array

    def copy_from(self, other: DeviceArray) -> None:
        """Copy another tensor of the same device here, after all that was started.

        Raises:
            InputError: the shape or the type is another one.
        """
        self._check(other.shape, other.dtype)
        self._device.copy(other.buffer, self.buffer, self.size)

    def _check(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        if (shape, dtype) != (self.shape, self.dtype):
            raise InputError(
                f'"{self.name}" is {self.dtype}{list(self.shape)}, '
                f"and was given {dtype}{list(shape)}"
            )


class Resident:
    """What all sessions of a program share: compiled kernels, and weights in their place."""

    def __init__(self, program: DeviceProgram, device: Device):
        self.device = device
        self.kernels: Kernels = device.load(program.sources)
        self.weights: Buffer = device.allocate(program.weights.nbytes)
        device.write(program.weights, self.weights)


class DeviceSession:
    """Memory for one run at a time of a program.

    Attributes:
        inputs, outputs: tensors by name, in the model's order.
    """

    def __init__(self, program: DeviceProgram, resident: Resident):
        self.device = resident.device
        self.inputs = {spec.name: DeviceArray(self.device, spec) for spec in program.inputs}
        self.outputs = {spec.name: DeviceArray(self.device, spec) for spec in program.outputs}
        self._specs = program.checks
        self._checks = [DeviceArray(self.device, spec) for spec in program.checks]
        self._keys = [DeviceArray(self.device, spec) for spec in program.keys]
        arrays = (*self.inputs.values(), *self._keys, *self.outputs.values(), *self._checks)
        workspace = self.device.allocate(program.workspace_bytes)
        # Steps know the places of buffers, which stay as long as somebody holds on to them.
        self._buffers = [*(array.buffer for array in arrays), resident.weights, workspace]
        self._steps = self.device.prepare(resident.kernels, program.steps, self._buffers)

    def __del__(self) -> None:
        # Memory is given back at once, whatever still runs on it.
        with suppress(Exception):
            self.device.wait()

    def start(self) -> None:
        """Run on what the inputs hold; returns when everything is asked for."""
        self._draw()
        self._steps.start()

    def wait(self) -> None:
        """Wait for all that was started."""
        self.device.wait()

    def run(self, feeds: Sequence[Array], check: Callable[[], None] | None = None) -> list[Array]:
        """Run on checked inputs, in order.

        Args:
            check: is called between steps, as far as the device can be asked, and raises to end
                the run.
        Raises:
            InputError: the data is refused, see `check_data`.
        """
        self._write(feeds)
        if check is None:
            self._steps.start()
        else:
            self._steps.start_checked(check)
        self.check_data()
        return [output.read() for output in self.outputs.values()]

    def check_data(self) -> None:
        """See whether the data of the last run is what the model may be given.

        Raises:
            InputError: it is not; the message names the node.
        """
        refuse_if_any(self._specs, [check.read() for check in self._checks])

    def run_timed(self, feeds: Sequence[Array]) -> tuple[list[Array], Times]:
        """Run, with the start and end of each step."""
        self._write(feeds)
        times = self._steps.times()
        return [output.read() for output in self.outputs.values()], times

    def seconds(self, runs: int = 1) -> float:
        """How long a run takes of so many one after the other, without copies to and fro."""
        return self._steps.seconds(runs)

    def _draw(self) -> None:
        """Give the next run a random key of its own."""
        for key in self._keys:
            self.device.write(new_key(), key.buffer)

    def _write(self, feeds: Sequence[Array]) -> None:
        self._draw()
        for array, place in zip(feeds, self.inputs.values(), strict=True):
            self.device.write(array, place.buffer)
