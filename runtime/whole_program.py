"""Interface of compiled programs for running, saving and profiling, independent of the target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.profile import TimedKernel
from tcopt.runtime.run_options import DeviceName, RunOptions
from tcopt.runtime.signature import Signature
from tcopt.runtime.specs import TensorSpec
from tcopt.runtime.stopping import Control
from tcopt.support.arithmetic.size_terms import Symbol
from tcopt.support.remarks import Remark

Array = NDArray[Any]


class WholeProgram(Protocol):
    """A model compiled for fixed shapes, or for ranges of sizes.

    Attributes:
        inputs, outputs: its tensors.
        signature: how these form the model's inputs and outputs; None if they are the same.
        workspace_bytes: size of the memory for intermediates.
        report: facts about the compile, for information.
        timed: facts of each kernel call; None for a program that is not profiled.
        times: their starts and ends in the last run, [calls, 2], nanoseconds.
        compile_times: seconds of each step of the compile.
        remarks: decisions of a compile with clocks; empty otherwise.
        kernels_compiled: number of kernels that were not found in the cache.
        cached: whether the whole program came from the cache.
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
    def sizes(self) -> Sequence[Symbol]:
        """The sizes that follow from the shapes of its inputs."""
        ...

    @property
    def symbols(self) -> Sequence[Symbol]:
        """All sizes that extents of its inputs and outputs have."""
        ...

    @property
    def checked_sizes(self) -> Sequence[Symbol]:
        """Sizes that it computes, and whose ranges a run has to check."""
        ...

    @property
    def kind(self) -> str:
        """The name of its target kind."""
        ...

    @property
    def size(self) -> int:
        """Approximate bytes of its code and weights."""
        ...

    @property
    def parts(self) -> Sequence[WholeProgram]:
        """The program itself, as its only stage."""
        ...

    def run(
        self,
        feeds: Sequence[Array],
        threads: int | None = None,
        control: Control | None = None,
        options: RunOptions | None = None,
    ) -> list[Any]:
        """Run on checked inputs, in order; not thread-safe."""
        ...

    def session(self, device: DeviceName | None = None) -> Any:
        """Return a session with device memory for one run at a time.

        Raises:
            UnsupportedError: there is no device.
        """
        ...
