"""A program in two parts, the second compiled for the shapes that the first computes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy as np

from tcopt.runtime.run_options import RunOptions, deliver
from tcopt.runtime.signature import Feed, Signature, group
from tcopt.runtime.specs import TensorSpec
from tcopt.runtime.stopping import Control
from tcopt.runtime.whole_program import Array, WholeProgram
from tcopt.support.data.structures import tensor_names
from tcopt.support.errors import SizeRangeError, UnsupportedError


class Part(Protocol):
    """A program that is the first part of a staged program."""

    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    signature: Signature | None

    @property
    def parts(self) -> Sequence[WholeProgram]: ...
    def run(
        self,
        feeds: Sequence[Array],
        threads: int | None = None,
        control: Control | None = None,
        options: RunOptions | None = None,
    ) -> list[Array]: ...


class Later(Protocol):
    """A model that compiles itself for the shapes of its feeds."""

    inputs: list[TensorSpec]
    outputs: list[TensorSpec]

    @property
    def threads(self) -> int | None: ...
    @threads.setter
    def threads(self, number: int | None) -> None: ...
    @property
    def parts(self) -> Sequence[WholeProgram]: ...
    def run_under(
        self,
        control: Control | None,
        feeds: Mapping[str, Array],
        outputs: Sequence[str] | None = None,
        options: RunOptions | None = None,
    ) -> list[Feed]: ...


class StagedProgram:
    """A model whose shapes depend on data, compiled for fixed shapes of its inputs.

    Args:
        first: computes the part that does not depend on such shapes.
        bounded: its outputs that are buffers of the maximum shape, each with the name of the output
            that has the extents of the valid part.
        later: computes the rest from its outputs and the model's inputs; None if there is none.
        outputs: those of the model.

    Attributes:
        signature: of the inputs; None if they are tensors. Results already have the form of the
            outputs.
    """

    def __init__(
        self,
        first: Part,
        bounded: Mapping[str, str],
        later: Later | None,
        outputs: Sequence[TensorSpec],
    ):
        self.first = first
        self.bounded = dict(bounded)
        self.later = later
        self.inputs = first.inputs
        self.outputs = list(outputs)
        self.signature = first.signature
        self._found = [spec.name for spec in first.outputs]
        self._names = [spec.name for spec in self.outputs]
        self._gives_all = later is None and first.signature is None
        self._gives_all &= set(self._names) <= set(self._found)

    @property
    def parts(self) -> Sequence[WholeProgram]:
        """The programs of the last run, in order; before a run, only the first."""
        return [*self.first.parts, *(() if self.later is None else self.later.parts)]

    def run(
        self,
        feeds: Sequence[Array],
        threads: int | None = None,
        control: Control | None = None,
        options: RunOptions | None = None,
    ) -> list[Feed]:
        """Run on checked inputs, in order; not thread-safe."""
        if options is None:
            return self._run(feeds, threads, control, None)
        if options.on_device:
            raise UnsupportedError(
                "results of a model whose shapes depend on data are on the host",
                hint="leave on_device out",
            )
        own = RunOptions(options.device, options.stream)
        return deliver(self.outputs, self._run(feeds, threads, control, own), options.out)

    def _run(
        self,
        feeds: Sequence[Array],
        threads: int | None,
        control: Control | None,
        options: RunOptions | None,
    ) -> list[Feed]:
        first = self.first.run(feeds, threads, control, options)
        found = dict(zip(self._found, first, strict=True))
        for name, place in self.bounded.items():
            found[name] = _cut(found[name], found[place].tolist())
        if self._gives_all:
            return [found[name] for name in self._names]
        given = self._given(found)
        if self.later is not None:
            for spec, array in zip(self.inputs, feeds, strict=True):
                found[spec.name] = array
            self.later.threads = threads
            known = {spec.name: found[spec.name] for spec in self.later.inputs}
            results = self.later.run_under(control, known, None, options)
            later = (spec.name for spec in self.later.outputs)
            given.update(zip(later, results, strict=True))
        return [given[spec.name] for spec in self.outputs]

    def _given(self, found: Mapping[str, Array]) -> dict[str, Feed]:
        """Return the model's outputs that the first program computes, by name."""
        counts = {} if self.signature is None else self.signature.output_counts
        given: dict[str, Feed] = {}
        for spec in self.outputs:
            if spec.name in counts:
                count = counts[spec.name]
                parts = [found[name] for name in tensor_names(spec.name, spec.kind, count)]
                (given[spec.name],) = group([spec], counts, parts)
            elif spec.name in found:
                given[spec.name] = found[spec.name]
        return given


def _cut(array: Array, extents: Sequence[int]) -> Array:
    """Return the valid part of a buffer, as a contiguous array."""
    if array.shape[1:] == tuple(extents[1:]):
        return array[: extents[0]]
    return np.ascontiguousarray(array[tuple(map(slice, extents))])


AnyProgram: TypeAlias = "WholeProgram | StagedProgram"


class Specialization(ABC):
    """Compile a model for the shapes, and if necessary the values, of a run's feeds."""

    @abstractmethod
    def key(self, feeds: Mapping[str, Feed]) -> tuple[object, ...]:
        """Return the part of the feeds that the code depends on; equal keys share a program."""

    @abstractmethod
    def compile(self, feeds: Mapping[str, Feed]) -> AnyProgram:
        """Compile the model for these feeds."""

    @abstractmethod
    def fitting(self, error: SizeRangeError, *, is_final: bool) -> Specialization:
        """Return the specialization whose programs serve the run that failed by an error.

        Args:
            is_final: whether another range of the size did not serve it.
        Raises:
            SizeRangeError: there is none, as the range was given.
        """

    @property
    @abstractmethod
    def needs_values(self) -> bool:
        """Whether keys depend on values of the feeds, in addition to their shapes."""
