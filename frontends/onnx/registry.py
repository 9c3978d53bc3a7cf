"""The table of operator handlers.

A handler turns one ONNX node into graph ops:

    @handler("Softsign")
    def softsign(ctx: NodeContext) -> SSAValue:
        x = ctx.input(0)
        ...

It is registered for the opset versions `since` to before `until`, so an operator whose
meaning changed has one handler for each meaning. Every module in
`tcopt.frontends.onnx.handlers` is found by itself: a new operator is a new file there.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

if TYPE_CHECKING:
    from tcopt.frontends.onnx.context import NodeContext

HandlerResult = SSAValue | Sequence[SSAValue | None]
Handler = Callable[["NodeContext"], HandlerResult]
HandlerT = Callable[[Handler], Handler]

_FOREVER = 1 << 30


@dataclass(frozen=True)
class _Entry:
    since: int
    until: int
    run: Handler


_entries: dict[str, list[_Entry]] = {}


def handler(*op_types: str, since: int = 1, until: int | None = None) -> HandlerT:
    """Register the decorated function for `op_types` at opsets since <= version < until."""

    def register(function: Handler) -> Handler:
        for op_type in op_types:
            register_handler(op_type, function, since=since, until=until)
        return function

    return register


def register_handler(
    op_type: str, function: Handler, *, since: int = 1, until: int | None = None
) -> None:
    """As `handler`, for functions made in a loop.

    Raises:
        ValueError: another handler covers some of the same versions.
    """
    entry = _Entry(since, until or _FOREVER, function)
    known = _entries.setdefault(op_type, [])
    for other in known:
        if other.since < entry.until and entry.since < other.until:
            raise ValueError(f"two handlers for {op_type} cover opset {max(since, other.since)}")
    known.append(entry)


def registered() -> list[Handler]:
    """The handlers that were registered so far."""
    return [entry.run for entries in _entries.values() for entry in entries]


def find_handler(op_type: str, opset: int) -> Handler | None:
    """The handler of a standard operator at an opset version, None if there is none."""
    load_handlers()
    for entry in _entries.get(op_type, ()):
        if entry.since <= opset < entry.until:
            return entry.run
    return None


def handled_operators() -> Iterable[str]:
    """Every operator with a handler, sorted."""
    load_handlers()
    return sorted(_entries)


@cache
def load_handlers() -> None:
    """Import every module of the handlers package."""
    package = importlib.import_module("tcopt.frontends.onnx.handlers")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
