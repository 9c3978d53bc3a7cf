"""Candidate kernels and their memory on OpenCL and CUDA devices."""

from __future__ import annotations

import zlib
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.device.interface import Device, KernelSource, PreparedSteps
from tcopt.runtime.device.steps import BufferOffset, Launch, Step
from tcopt.tuner.arguments import INPUT, OUTPUT, WEIGHT, Argument, dtype_of
from tcopt.tuner.measure.device_memory import CANARY, CANARY_BYTES
from tcopt.tuner.measure.held_arguments import HeldArguments
from tcopt.tuner.measure.values import poison
from tcopt.tuner.measure.workload import Code, Workload

Array = NDArray[Any]


class LaunchedBuffer:
    """A device buffer with canaries on both sides, and a host array with its contents."""

    def __init__(self, device: Device, argument: Argument):
        self.argument = argument
        self._device = device
        self.bytes = np.full(argument.size + 2 * CANARY_BYTES, CANARY, np.uint8)
        inner = self.bytes[CANARY_BYTES : CANARY_BYTES + argument.size]
        self.array: Array = inner.view(dtype_of(argument.dtype)).reshape(argument.shape)
        self.buffer = device.allocate(self.bytes.nbytes)
        self._digest = 0

    def commit(self) -> None:
        """Copy the array to the device, with its canaries."""
        self._digest = zlib.crc32(self.bytes.data)
        self._device.write(self.bytes, self.buffer)

    def read(self) -> None:
        """Copy the device's contents to the array."""
        self._device.read(self.buffer, self.bytes)

    def changed(self) -> bool:
        """Whether the contents read differ from those written."""
        return zlib.crc32(self.bytes.data) != self._digest

    def damaged(self) -> str | None:
        """Return the side on which a canary was overwritten, or None."""
        sides = (self.bytes[:CANARY_BYTES], self.bytes[CANARY_BYTES + self.argument.size :])
        for side, where in zip(sides, ("before", "after"), strict=True):
            if np.any(side != CANARY):
                return where
        return None


class LaunchedMemory(HeldArguments[LaunchedBuffer]):
    """A workload's buffers in a device's memory."""

    def __init__(self, device: Device, workload: Workload):
        self.device = device
        super().__init__(workload, lambda argument: LaunchedBuffer(device, argument))

    def load(self, code: Code) -> LaunchedKernel:
        """Compile code with the device's compiler."""
        return LaunchedKernel(self, code)

    def damage(self) -> str | None:
        """Describe the first illegal write; None if there is none."""
        for number, buffer in enumerate(self.arguments):
            buffer.read()
            side, role = buffer.damaged(), buffer.argument.role
            if side is not None:
                return f"the code writes {side} argument {number}, of role {role}"
            if role in (INPUT, WEIGHT) and buffer.changed():
                return f"the code writes to argument {number}, of role {role}"
        return None

    def outputs(self) -> list[Array]:
        """Return the contents of the outputs."""
        outputs = [b for b in self.arguments if b.argument.role == OUTPUT]
        for buffer in outputs:
            buffer.read()
        return [buffer.array for buffer in outputs]

    def close(self) -> None:
        """Free the memory."""
        self.clear()


class LaunchedKernel:
    """Code compiled by a device's compiler, and its launches on the buffers."""

    def __init__(self, memory: LaunchedMemory, code: Code):
        self._device = memory.device
        names = tuple(str(launch["kernel"]) for launch in code.launches)
        kernels = self._device.load([KernelSource(code.data.decode(), names)])
        self._workspace = [LaunchedBuffer(self._device, a) for a in code.workspace]
        rows = [[*row, *self._workspace] for row in memory.rows()]
        self._rows = len(rows)
        steps: list[Step] = []
        for number, row in enumerate(rows):
            first = number * len(row)
            steps += [_launch(launch, first) for launch in code.launches]
        buffers = [b.buffer for row in rows for b in row]

        def prepare(count: int) -> PreparedSteps:
            return self._device.prepare(kernels, steps[: count * len(code.launches)], buffers)

        self._prepare = cache(prepare)

    def call(self, threads: int) -> None:
        """Run the kernel once."""
        self._prepare(1).start()
        self._device.wait()

    def time(self, calls: int, threads: int) -> float:
        """Return the nanoseconds per call; with more calls than copies of weights, whole rotations
        are run.
        """
        count = min(calls, self._rows)
        return self._prepare(count).seconds(round(calls / count)) * 1e9 / count

    def poison(self) -> None:
        """Fill the workspace with values that no kernel computes."""
        for buffer in self._workspace:
            poison(buffer.array)
            buffer.commit()

    def damage(self) -> str | None:
        """Describe what was written outside of the workspace; None if nothing."""
        for buffer in self._workspace:
            buffer.read()
            side = buffer.damaged()
            if side is not None:
                return f"the code writes {side} the memory for intermediate values"
        return None


def _launch(facts: Any, first: int) -> Launch:
    grid, block = tuple(facts["grid"]), tuple(facts["block"])
    places = (BufferOffset(first + int(position), CANARY_BYTES) for position in facts["arguments"])
    return Launch(str(facts["kernel"]), grid, block, tuple(places))
