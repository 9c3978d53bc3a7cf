"""Device programs: models compiled for fixed shapes or ranges of sizes, whose kernels run on a
device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.checks import split_added
from tcopt.runtime.device.interface import Device, KernelSource, Times
from tcopt.runtime.device.session import DeviceSession, Resident
from tcopt.runtime.device.steps import Step
from tcopt.runtime.feeds import Tensor
from tcopt.runtime.profile import TimedKernel
from tcopt.runtime.program_sizes import ProgramSizes
from tcopt.runtime.run_options import DeviceName, RunOptions
from tcopt.runtime.signature import Signature
from tcopt.runtime.specs import TensorSpec
from tcopt.runtime.stopping import Control
from tcopt.support.arithmetic.size_terms import Symbol
from tcopt.support.data.structures import Kind
from tcopt.support.machines.device_target import DeviceTarget
from tcopt.support.remarks import Remark

_DEFAULT = RunOptions()


@dataclass
class DeviceProgram:
    """Kernels of a model, and the launches and copies of a run.

    Attributes:
        target: the target that the kernels are compiled for.
        device: returns the device of a given name, or the default one; called at the first run.
        sources: kernel sources for the device's compiler.
        steps: the launches and copies of one run.
        inputs, outputs, weights, workspace_bytes, report, compile_times, remarks,
        kernels_compiled, cached, signature, checks: as in `runtime.program.Program`.
        timed: descriptions of the launches, a launch in a loop over time once; None for a
            program that is not profiled.
        entries: for each step its index in `timed`; None for a copy.
        sizes: sizes that extents of inputs and outputs, and numbers of steps, depend on.
    """

    target: DeviceTarget
    device: Callable[..., Device]
    sources: list[KernelSource]
    steps: list[Step]
    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    weights: NDArray[np.uint8]
    workspace_bytes: int
    report: dict[str, int] = field(default_factory=dict[str, int])
    compile_times: dict[str, float] = field(default_factory=dict[str, float])
    remarks: tuple[Remark, ...] = ()
    timed: list[TimedKernel] | None = None
    entries: list[int | None] = field(default_factory=list[int | None])
    kernels_compiled: int = 0
    signature: Signature | None = None
    cached: bool = False
    sizes: Sequence[Symbol] = ()

    def __post_init__(self) -> None:
        self._residents: dict[DeviceName | None, Resident] = {}
        self._sessions: dict[DeviceName | None, DeviceSession] = {}
        self.outputs, self.checks = split_added(self.outputs, Kind.CHECK)
        self.inputs, self.keys = split_added(self.inputs, Kind.KEY)
        self.times: Times = np.zeros((len(self.timed or ()), 2), np.int64)
        self._solver = ProgramSizes(self.sizes, self.inputs, self.outputs)

    @property
    def source(self) -> str:
        """All kernel sources as one text, for display."""
        return "\n".join(source.text for source in self.sources)

    def session(self, device: DeviceName | None = None) -> DeviceSession:
        """Allocate memory for inputs, outputs and intermediates of a run.

        Sessions on one device share kernels and weights.

        Raises:
            UnsupportedError: there is no such device.
            BackendError: the device rejects the kernels.
        """
        if device not in self._residents:
            opened = self.device() if device is None else self.device(device)
            same = (each for each in self._residents.values() if each.device is opened)
            self._residents[device] = next(same, None) or Resident(self, opened)
        return DeviceSession(self, self._residents[device])

    @property
    def kind(self) -> str:
        return self.target.kind

    @property
    def checked_sizes(self) -> Sequence[Symbol]:
        """None, as it computes no sizes."""
        return ()

    @property
    def symbols(self) -> Sequence[Symbol]:
        """All sizes that extents of its inputs and outputs have."""
        return self.sizes

    @property
    def size(self) -> int:
        return self.weights.nbytes + sum(len(source.text) for source in self.sources)

    @property
    def parts(self) -> Sequence[DeviceProgram]:
        """The program itself, as it is not divided into stages."""
        return [self]

    def run(
        self,
        feeds: Sequence[Tensor],
        threads: int | None = None,
        control: Control | None = None,
        options: RunOptions | None = None,
    ) -> list[Any]:
        """Run on checked inputs, given in the model's order; not thread-safe."""
        options = options or _DEFAULT
        session = self._sessions.get(options.device)
        if session is None:
            session = self._sessions[options.device] = self.session(options.device)
        if self.sizes:
            session.resize(self._solver.of(tuple(feed.shape for feed in feeds)).values)
        if self.timed is None:
            return session.run(feeds, None if control is None else control.check, options)
        results, times = session.run_timed(feeds)
        self._sum_up(times)
        return results

    def _sum_up(self, times: Times) -> None:
        """Add the step times to `times`: for each entry its first start and its total duration."""
        seen: set[int] = set()
        for (begin, end), entry in zip(times, self.entries, strict=True):
            if entry is None:
                continue
            if entry not in seen:
                seen.add(entry)
                self.times[entry] = begin
            self.times[entry, 1] += end - begin
