"""Origins of kernel calls, as attributes.

`lower-graph-to-te{origins=true}` records the origin of each call of the host function, where it is
kept down to the kernel level:

    func.call @fused_conv_relu(...) {tcopt.origin = {
        nodes = ["Conv_3", "Relu_4"], ops = ["conv", "relu"], results = ["1x8x56x56xf32"],
        work = 2408448 : i64}} : ...

The work of a program for a range of sizes is a size: `work = #size.dims<301056 * n[1:8]>`.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, Operation
from xdsl.utils.hints import isa

from tcopt.dialects.size import DimsAttr, dims_attr
from tcopt.support.arithmetic.sizes import Extent, upper_bound
from tcopt.support.ir.origins import Origin, node_names
from tcopt.support.locations import nearest_location

ORIGIN = "tcopt.origin"
"""Attribute of a call with its origin."""


def origin_attribute(origin: Origin) -> DictionaryAttr:
    """Return an origin as an attribute."""
    return DictionaryAttr(
        {
            "nodes": _array(origin.nodes),
            "ops": _array(origin.ops),
            "results": _array(origin.results),
            "work": number_attribute(origin.work),
        }
    )


def origin_in(attribute: DictionaryAttr) -> Origin:
    """Decode an attribute; unknown entries are ignored."""
    nodes, ops, results = (_strings(attribute.data.get(k)) for k in ("nodes", "ops", "results"))
    work = attribute.data.get("work")
    return Origin(nodes, ops, results, 0 if work is None else number_in(work))


def call_origin(call: Operation) -> Origin:
    """Return the origin recorded on a call, or the nodes of its location."""
    attribute = call.attributes.get(ORIGIN)
    if isinstance(attribute, DictionaryAttr):
        return origin_in(attribute)
    return Origin(node_names(nearest_location(call)), (), (), 0)


def number_attribute(number: Extent) -> Attribute:
    """Return the attribute of a number, which may be a size."""
    return dims_attr([number]) or IntegerAttr(upper_bound(number), i64)


def number_in(attribute: Attribute) -> Extent:
    """Return the number or size in an attribute."""
    if isinstance(attribute, DimsAttr):
        return attribute.extents[0]
    assert isa(attribute, IntegerAttr)
    return attribute.value.data


def _array(texts: tuple[str, ...]) -> ArrayAttr[StringAttr]:
    return ArrayAttr(StringAttr(text) for text in texts)


def _strings(attribute: Attribute | None) -> tuple[str, ...]:
    return tuple(s.data for s in attribute) if isa(attribute, ArrayAttr[StringAttr]) else ()
