"""Programs of a model with open shapes: one per combination of shapes and values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TypeAlias

from tcopt.runtime.signature import Feed
from tcopt.runtime.staged import StagedProgram
from tcopt.runtime.whole_program import WholeProgram

AnyProgram: TypeAlias = "WholeProgram | StagedProgram"


class Specialization(ABC):
    """Compile a model for the shapes, and if necessary the values, of a run's feeds."""

    @abstractmethod
    def key(self, feeds: Mapping[str, Feed]) -> tuple[object, ...]:
        """Return the part of the feeds that the code depends on; equal keys share a program."""

    @abstractmethod
    def compile(self, feeds: Mapping[str, Feed]) -> AnyProgram:
        """Compile the model for these feeds."""

    @property
    @abstractmethod
    def needs_values(self) -> bool:
        """Whether keys depend on values of the feeds, in addition to their shapes."""
