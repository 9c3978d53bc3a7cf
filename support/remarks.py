"""What passes and rules decided, and why: the material of `explain`.

A pass calls `remark` where it made, or did not make, a choice that a user may ask about: a
convolution given Winograd, a group not fused. Nothing is kept unless someone listens:

    with collect_remarks() as remarks:
        lower(module, phases)
    for remark in remarks:
        print(remark)
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tcopt.support.collecting import collecting

if TYPE_CHECKING:
    from xdsl.ir import Operation


@dataclass(frozen=True)
class Remark:
    """One decision.

    Attributes:
        by: the pass or rule that took it, by its name.
        subject: the op or function it is about, as `graph.conv` or `@conv_relu`.
        where: the ONNX node or source line that the subject came from; empty if unknown.
        message: what was decided, and for which reason or figures.
        missed: whether it tells of something left undone.
        slow: whether a kernel takes many times what its target allows because of it.
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


_LISTENER: ContextVar[list[Remark] | None] = ContextVar("remarks", default=None)


@contextmanager
def collect_remarks() -> Generator[list[Remark]]:
    """Gather the remarks made inside, in order; the innermost collector receives them."""
    with collecting(_LISTENER) as remarks:
        yield remarks


_SLOW: ContextVar[list[Remark] | None] = ContextVar("slow", default=None)


@contextmanager
def collect_slow() -> Generator[list[Remark]]:
    """Gather what is said of slow kernels that are compiled or looked up inside, and no more:
    other than by `collect_remarks`, programs are looked up and kept as ever."""
    with collecting(_SLOW) as remarks:
        yield remarks


def listening() -> bool:
    """Whether a remark would be kept, for those that cost something to word."""
    return _LISTENER.get() is not None


def remark(
    by: str, op: Operation, message: str, *, missed: bool = False, slow: bool = False
) -> None:
    """Say what `by` decided about an op; free when nobody listens. What is slow is missed, too."""
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
    """Say what `by` decided about something that is not an op, such as the cache."""
    listener = _LISTENER.get()
    if listener is not None:
        listener.append(Remark(by, subject, "", message, missed))


def replay(remarks: list[Remark]) -> None:
    """Pass on remarks that were gathered elsewhere, as in another process."""
    listener, slow = _LISTENER.get(), _SLOW.get()
    if listener is not None:
        listener.extend(remarks)
    if slow is not None:
        slow.extend(remark for remark in remarks if remark.slow)
