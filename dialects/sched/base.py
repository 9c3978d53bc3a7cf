"""Base of schedule ops, each of which records a call of the `Schedule` API."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation

Resolve: TypeAlias = Callable[[SSAValue], object]
"""Returns the value of a handle or knob of a sequence while it is applied."""


class SchedOp(IRDLOperation, ABC):
    """One step of a `sched.sequence`.

    The op `sched.split` is a call of the method `split` of a `Schedule`: `arguments` returns the
    arguments of the call, and the results stand for its return values.
    """

    @property
    def primitive(self) -> str:
        """The name of the primitive and of the method of `Schedule`."""
        return self.name.removeprefix("sched.")

    @abstractmethod
    def arguments(self, resolve: Resolve) -> tuple[object, ...]:
        """Return the arguments of the call."""
