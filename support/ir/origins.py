"""Origin of a kernel call: ONNX nodes, operators and the amount of work.

`dialects/origins.py` has the attribute of calls.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, CallSiteLoc, FusedLoc, NameLoc
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from tcopt.support.arithmetic.sizes import Extent
from tcopt.support.locations import describe_location


@dataclass(frozen=True)
class Origin:
    """Origin of a kernel call.

    Attributes:
        nodes: names of the ONNX nodes, or source lines, without duplicates.
        ops: names of the graph ops without `graph.`, in order.
        results: types of the results, such as `1x4x56x56x16xf32`, including blocked channels.
        work: number of scalar operations, as counted by `GraphOp.work`; perhaps a size.
    """

    nodes: tuple[str, ...]
    ops: tuple[str, ...]
    results: tuple[str, ...]
    work: Extent


def node_names(location: Attribute) -> tuple[str, ...]:
    """Return the node names in a location, or its source line."""
    match location:
        case NameLoc():
            return (location.desc.data,)
        case FusedLoc():
            assert isa(location.locations, ArrayAttr[Attribute])
            names = (name for inner in location.locations for name in node_names(inner))
            return tuple(dict.fromkeys(names))
        case CallSiteLoc():
            return node_names(location.callee) or node_names(location.caller)
        case _:
            text = describe_location(location)
            return (text,) if text else ()
