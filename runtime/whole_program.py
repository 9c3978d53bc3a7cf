"""What a compiled program is to those who run, save and profile it, whatever it is for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.profile import TimedKernel
from tcopt.runtime.signature import Signature
from tcopt.runtime.specs import TensorSpec
from tcopt.runtime.stopping import Control
from tcopt.support.remarks import Remark

Array = NDArray[Any]


class WholeProgram(Protocol):
    """A model compiled for fixed shapes.

    Attributes:
        inputs, outputs: its tensors.
        signature: what these are of the model's inputs and outputs; None if they are the same.
        workspace_bytes: size of the memory for intermediates.
        report: facts about the compile, for people.
        timed: what is known of each kernel call; None for a program that is not profiled.
        times: their starts and ends in the last run, [calls, 2], nanoseconds.
        compile_times: seconds of each step of the compile.
        remarks: what was decided when it was compiled with clocks; nothing otherwise.
        kernels_compiled: how many kernels were not found in the cache.
        cached: whether nothing was compiled, as the cache had the whole program.
    """

    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    signature: Signature | None
    weights: NDArray[np.uint8]
    workspace_bytes: int
    report: dict[str, int]
    timed: list[TimedKernel] | None
    times: NDArray[np.int64]
    compile_times: dict[str, float]
    remarks: tuple[Remark, ...]
    kernels_compiled: int
    cached: bool

    @property
    def kind(self) -> str:
        """The name of its kind of target."""
        ...

    @property
    def size(self) -> int:
        """Bytes of its code and weights, about."""
        ...

    @property
    def parts(self) -> Sequence[WholeProgram]:
        """The program itself: one without stages."""
        ...

    def run(
        self, feeds: Sequence[Array], threads: int | None = None, control: Control | None = None
    ) -> list[Array]:
        """Run on checked inputs, in order; not from two threads at once."""
        ...

    def session(self) -> Any:
        """Memory on a device for one run at a time; UnsupportedError where there is no device."""
        ...
