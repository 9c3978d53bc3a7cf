"""Remarks about the decisions of passes and rules, shown by `explain`, and placement warnings.

A pass calls `remark` when it makes or rejects a choice that a user may ask about, such as using
Winograd for a convolution. Remarks are only created if they are collected:

    with collect_remarks() as remarks:
        lower(module, phases)
    for remark in remarks:
        print(remark)
"""

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from xdsl.ir import Operation


@dataclass(frozen=True)
class Remark:
    """A decision of a pass or rule.

    Attributes:
        by: name of the pass or rule.
        subject: op or function concerned, such as `graph.conv` or `@conv_relu`.
        where: ONNX node or source line of the subject; empty if unknown.
        message: the decision, and the reason or figures behind it.
        missed: whether an optimisation was not applied.
        slow: whether it makes a kernel many times slower than the target allows.
    """

    by: str
    subject: str
    where: str
    message: str
    missed: bool = False
    slow: bool = False

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        kind = "slow" if self.slow else "missed" if self.missed else "done"
        return f"{kind}: {self.by}: {self.subject}{place}: {self.message}"


_T = TypeVar("_T")


@contextmanager
def collecting(variable: ContextVar[list[_T] | None]) -> Generator[list[_T]]:
    """Set a context variable to a new list and yield the list."""
    found: list[_T] = []
    token = variable.set(found)
    try:
        yield found
    finally:
        variable.reset(token)


_LISTENER: ContextVar[list[Remark] | None] = ContextVar("remarks", default=None)


@contextmanager
def collect_remarks() -> Generator[list[Remark]]:
    """Collect remarks within the context, in order; inner contexts take precedence."""
    with collecting(_LISTENER) as remarks:
        yield remarks


_SLOW: ContextVar[list[Remark] | None] = ContextVar("slow", default=None)


@contextmanager
def collect_slow() -> Generator[list[Remark]]:
    """Collect remarks about slow kernels that are compiled or found in the cache.

    Unlike `collect_remarks`, this does not bypass the program cache.
    """
    with collecting(_SLOW) as remarks:
        yield remarks


def listening() -> bool:
    """Whether remarks are collected, to skip the cost of creating their text."""
    return _LISTENER.get() is not None


def remark(
    by: str, op: Operation, message: str, *, missed: bool = False, slow: bool = False
) -> None:
    """Report a decision about an op, if remarks are collected. Slow implies missed."""
    listener = _LISTENER.get()
    if listener is None:
        return
    from tcopt.support.locations import describe_location, nearest_location

    symbol = op.attributes.get("sym_name") or op.properties.get("sym_name")
    data = getattr(symbol, "data", None)
    subject = f"@{data}" if isinstance(data, str) else op.name
    where = (describe_location(nearest_location(op)) or "").strip('"')
    listener.append(Remark(by, subject, where, message, missed or slow, slow))


def notice(by: str, subject: str, message: str, *, missed: bool = True) -> None:
    """Report a decision about something other than an op, such as the cache."""
    listener = _LISTENER.get()
    if listener is not None:
        listener.append(Remark(by, subject, "", message, missed))


def replay(remarks: list[Remark]) -> None:
    """Report remarks that were collected elsewhere, for example in another process."""
    listener, slow = _LISTENER.get(), _SLOW.get()
    if listener is not None:
        listener.extend(remarks)
    if slow is not None:
        slow.extend(remark for remark in remarks if remark.slow)


_PLACEMENT: ContextVar[list[str] | None] = ContextVar("placement", default=None)


class PlacementWarning(UserWarning):
    """A model was compiled for an accelerator, but none of its operators runs there."""


def warn_of_placement(message: str) -> None:
    """Issue a `PlacementWarning`, which is repeated when the model's program is cached."""
    collected = _PLACEMENT.get()
    if collected is not None:
        collected.append(message)
    warnings.warn(message, PlacementWarning, stacklevel=3)


@contextmanager
def collect_placement_warnings() -> Generator[list[str]]:
    """Collect the messages of the placement warnings issued within the context."""
    with collecting(_PLACEMENT) as messages:
        yield messages
