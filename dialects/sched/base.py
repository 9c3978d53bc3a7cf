"""What all schedule ops share: a primitive of the `Schedule` API, written down."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation

Resolve: TypeAlias = Callable[[SSAValue], object]
"""Gives what a handle or knob of a sequence stands for while it is applied."""


class SchedOp(IRDLOperation, ABC):
    """One step of a `sched.sequence`.

    The op `sched.split` is a call of the method `split` of a `Schedule`: `arguments` gives what
    is passed to it, and the results stand for what it returns, one each.
    """

    @property
    def primitive(self) -> str:
        """The name of the primitive, and of the method of `Schedule`."""
        return self.name.removeprefix("sched.")

    @abstractmethod
    def arguments(self, resolve: Resolve) -> tuple[object, ...]:
        """The arguments of the call."""
