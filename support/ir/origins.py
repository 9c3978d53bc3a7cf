"""Origin of a kernel call: ONNX nodes, operators and the amount of work.

`lower-graph-to-te{origins=true}` records it on each call of the host function, where it is kept
down to the kernel level:

    func.call @fused_conv_relu(...) {tcopt.origin = {
        nodes = ["Conv_3", "Relu_4"], ops = ["conv", "relu"], results = ["1x8x56x56xf32"],
        work = 2408448 : i64}} : ...
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    DictionaryAttr,
    FusedLoc,
    IntegerAttr,
    NameLoc,
    StringAttr,
    i64,
)
from xdsl.ir import Attribute, Operation
from xdsl.utils.hints import isa

from tcopt.support.locations import describe_location, nearest_location

ORIGIN = "tcopt.origin"
"""Attribute of a call with its origin."""


@dataclass(frozen=True)
class Origin:
    """Origin of a kernel call.

    Attributes:
        nodes: names of the ONNX nodes, or source lines, without duplicates.
        ops: names of the graph ops without `graph.`, in order.
        results: types of the results, such as `1x4x56x56x16xf32`, including blocked channels.
        work: number of scalar operations, as counted by `GraphOp.work`.
    """

    nodes: tuple[str, ...]
    ops: tuple[str, ...]
    results: tuple[str, ...]
    work: int

    def attribute(self) -> DictionaryAttr:
        """Return the origin as an attribute."""
        return DictionaryAttr(
            {
                "nodes": ArrayAttr(StringAttr(name) for name in self.nodes),
                "ops": ArrayAttr(StringAttr(name) for name in self.ops),
                "results": ArrayAttr(StringAttr(text) for text in self.results),
                "work": IntegerAttr(self.work, i64),
            }
        )

    @classmethod
    def of(cls, attribute: DictionaryAttr) -> Origin:
        """Decode an attribute; unknown entries are ignored."""
        work = attribute.data.get("work")
        return cls(
            strings(attribute.data.get("nodes")),
            strings(attribute.data.get("ops")),
            strings(attribute.data.get("results")),
            work.value.data if isa(work, IntegerAttr) else 0,
        )


def call_origin(call: Operation) -> Origin:
    """Return the origin recorded on a call, or the nodes of its location."""
    attribute = call.attributes.get(ORIGIN)
    if isinstance(attribute, DictionaryAttr):
        return Origin.of(attribute)
    return Origin(node_names(nearest_location(call)), (), (), 0)


def strings(attribute: Attribute | None) -> tuple[str, ...]:
    """Return the strings of an array attribute."""
    return tuple(s.data for s in attribute) if isa(attribute, ArrayAttr[StringAttr]) else ()


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
