"""Registry of operator handlers.

A handler turns one ONNX node into graph ops:

    @handler("Softsign")
    def softsign(ctx: NodeContext) -> SSAValue:
        x = ctx.input(0)
        ...

A handler that returns None leaves the node to the operator's function in ONNX's schema. A handler
is registered for opset versions with `since` <= version < `until`, so an operator whose
semantics changed has a handler for each version. All modules of `tcopt.frontends.onnx.handlers` are
imported automatically: a new operator is a new file there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from xdsl.ir import SSAValue

from tcopt.support.errors import InputError
from tcopt.support.registries.registration import Registry

if TYPE_CHECKING:
    from tcopt.frontends.onnx.context.context import NodeContext

HandlerResult = SSAValue | Sequence[SSAValue | None] | None
Handler = Callable[["NodeContext"], HandlerResult]
HandlerT = TypeVar("HandlerT", bound=Handler)

_FOREVER = 1 << 30


@dataclass(frozen=True)
class _Entry:
    since: int
    until: int
    run: Handler


HANDLERS: Registry[tuple[str, int], _Entry] = Registry("handler of operator")
"""Handlers by operator and first supported opset version."""

_versions: dict[str, list[int]] = {}
"""First opset versions by operator; foreign handlers come first."""


def handler(
    *op_types: str, since: int = 1, until: int | None = None
) -> Callable[[HandlerT], HandlerT]:
    """Register the decorated function for `op_types` at opsets with since <= version < until."""

    def register(function: HandlerT) -> HandlerT:
        for op_type in op_types:
            register_handler(op_type, function, since=since, until=until)
        return function

    return register


def register_handler(
    op_type: str, function: Handler, *, since: int = 1, until: int | None = None
) -> None:
    """Register a function as a handler; see `handler`.

    Raises:
        InputError: another handler covers some of these versions.
    """
    entry = _Entry(since, until or _FOREVER, function)
    foreign = HANDLERS.add((op_type, since), entry, by=function)
    versions = _versions.setdefault(op_type, [])
    for other in versions:
        known = HANDLERS.get((op_type, other))
        if known is None or known is entry or HANDLERS.is_foreign((op_type, other)) != foreign:
            continue
        if known.since < entry.until and entry.since < known.until:
            del HANDLERS[op_type, since]
            raise InputError(f"two handlers for {op_type} cover opset {max(since, known.since)}")
    versions.insert(0 if foreign else len(versions), since)


def find_handler(op_type: str, opset: int) -> Handler | None:
    """Return the handler of an operator at an opset version; None if there is none."""
    handlers = HANDLERS.values_by_key()
    for version in _versions.get(op_type, ()):
        entry = handlers.get((op_type, version))
        if entry is not None and entry.since <= opset < entry.until:
            return entry.run
    return None


def handled_since(op_type: str) -> list[int]:
    """Return the first opset version of each handler of an operator."""
    handlers = HANDLERS.values_by_key()
    return [v for v in _versions.get(op_type, ()) if (op_type, v) in handlers]
