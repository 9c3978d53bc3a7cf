"""Source locations of ops, assigned by the parser and preserved by rewrites.

A message about an op is only useful with the op's location. xDSL's parser leaves locations unknown
and its rewriter drops them, so text is parsed by `LocatedParser` and patterns are applied by
`tcopt.support.ir.rewriting`.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    LocationAttr,
    NameLoc,
    UnknownLoc,
)
from xdsl.ir import Attribute, Operation
from xdsl.utils.hints import isa


def describe_location(location: Attribute) -> str | None:
    """Render a location for a message: `"node_name"` or `file:line:col`; None if unknown."""
    match location:
        case NameLoc():
            return f'"{location.desc.data}"'
        case FileLineColLoc():
            return f"{location.filename.data}:{location.line.data}:{location.column.data}"
        case CallSiteLoc():
            return describe_location(location.callee) or describe_location(location.caller)
        case FusedLoc():
            assert isa(location.locations, ArrayAttr[Attribute])
            known = [describe_location(loc) for loc in location.locations]
            return ", ".join(text for text in known if text) or None
        case _:
            return None


def is_known(location: LocationAttr) -> bool:
    """Whether a location is known."""
    return not isinstance(location, UnknownLoc)


def set_location(ops: Iterable[Operation], location: LocationAttr) -> None:
    """Set the location of every op in `ops` that has none, including nested ops."""
    for root in ops:
        for op in root.walk():
            if not is_known(op.location):
                op.location = location


def nearest_location(op: Operation) -> LocationAttr:
    """Return the location of an op, or of the closest enclosing op that has one."""
    current: Operation | None = op
    while current is not None:
        if is_known(current.location):
            return current.location
        current = current.parent_op()
    return op.location
