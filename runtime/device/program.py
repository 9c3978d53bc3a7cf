"""A model compiled for fixed shapes, whose kernels run on a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.device.interface import Device
from tcopt.runtime.device.steps import Step
from tcopt.runtime.specs import TensorSpec
from tcopt.support.remarks import Remark

Array = NDArray[Any]


@dataclass
class DeviceProgram:
    """Kernels, and what is done with them.

    Attributes:
        source: the kernels, as the device's compiler takes them.
        steps: the launches and copies of one run.
        device: gives the device, at the first run.
        inputs, outputs, weights, workspace_bytes, report, compile_times, remarks,
        kernels_compiled: as in `runtime.program.Program`.
    """

    source: str
    steps: list[Step]
    device: Callable[[], Device]
    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    weights: NDArray[np.uint8]
    workspace_bytes: int
    report: dict[str, int] = field(default_factory=dict[str, int])
    compile_times: dict[str, float] = field(default_factory=dict[str, float])
    remarks: tuple[Remark, ...] = ()
    timed: None = None
    kernels_compiled: int = 0

    def __post_init__(self) -> None:
        self._loaded: _Loaded | None = None

    def run(self, feeds: Sequence[Array], threads: int | None = None) -> list[Array]:
        """Run on checked inputs, in order; not from two threads at once."""
        if self._loaded is None:
            self._loaded = _Loaded(self)
        return self._loaded.run(feeds)


class _Loaded:
    """A program on its device: memory and compiled kernels, weights in their place."""

    def __init__(self, program: DeviceProgram):
        self.device = program.device()
        self.outputs = program.outputs
        sizes = [_bytes_of(spec) for spec in (*program.inputs, *program.outputs)]
        self.buffers = [
            self.device.allocate(size)
            for size in (*sizes, program.weights.nbytes, program.workspace_bytes)
        ]
        self.device.write(program.weights, self.buffers[len(sizes)])
        self.start = self.device.prepare(program.source, program.steps, self.buffers)

    def run(self, feeds: Sequence[Array]) -> list[Array]:
        for array, buffer in zip(feeds, self.buffers, strict=False):
            self.device.write(array, buffer)
        self.start()
        results: list[Array] = []
        for spec, buffer in zip(self.outputs, self.buffers[len(feeds) :], strict=False):
            array = np.empty(_shape_of(spec), spec.dtype)
            self.device.read(buffer, array)
            results.append(array)
        return results


def _shape_of(spec: TensorSpec) -> tuple[int, ...]:
    return tuple(d for d in spec.shape if isinstance(d, int))


def _bytes_of(spec: TensorSpec) -> int:
    return int(np.prod(_shape_of(spec), dtype=np.int64)) * spec.dtype.itemsize
