"""Donated inputs: results of a model that may use, or use, the memory of an input.

The module attribute `graph.donated = {past = "present"}` permits @main to overwrite the input
`past` with the result `present`. Bufferization decides where it does so: a host function on buffers
has `graph.in_place = {present = "past"}` for each result that is in the buffer of an input. The
buffer argument of such a result is not accessed.

An input that grows, such as the keys of a decoder, is in a room: its type has the shape of the
room, and `graph.rooms = {past = #size.dims<2, n[0:9], 8>, present = #size.dims<2, n[0:9] + 1, 8>}`
gives the shapes of the tensors. Each is a slice of the room from index 0 on, with the same strides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    i64,
)
from xdsl.utils.hints import isa

from tcopt.dialects.graph.core.attributes import Extents, extents_attr, extents_in
from tcopt.support.arithmetic.intervals import Range

DONATED = "graph.donated"
IN_PLACE = "graph.in_place"
ROOMS = "graph.rooms"

SIZE_RANGES = "graph.size_ranges"
"""Lower and upper bound of sizes whose values are results (`graph.sizes`), by name; a run fails if
one is outside of its range.
"""


def set_pairs(module: ModuleOp, key: str, pairs: Mapping[str, str]) -> None:
    """Set a module attribute to pairs of names; remove it if there are none."""
    if pairs:
        module.attributes[key] = DictionaryAttr({a: StringAttr(b) for a, b in pairs.items()})
    else:
        module.attributes.pop(key, None)


def pairs_of(module: ModuleOp, key: str) -> dict[str, str]:
    """Return the pairs of names in a module attribute; {} without it."""
    found = module.attributes.get(key)
    if not isinstance(found, DictionaryAttr):
        return {}
    return {a: b.data for a, b in found.data.items() if isinstance(b, StringAttr)}


def names_in(module: ModuleOp, key: str) -> list[str]:
    """Return the names in the module attribute `graph.inputs` or `graph.outputs`; [] without."""
    found = module.attributes.get(key)
    return [name.data for name in found] if isa(found, ArrayAttr[StringAttr]) else []


def count_in(module: ModuleOp, key: str) -> int:
    """Return the number in the module attribute `graph.keys`, `graph.sizes` or `graph.checks`: the
    inputs or results that are added to the model's own; 0 without it."""
    found = module.attributes.get(key)
    return found.value.data if isa(found, IntegerAttr) else 0


def set_rooms(module: ModuleOp, extents: Mapping[str, Sequence[int]]) -> None:
    """Set the extents of the inputs and results that are in rooms, by name."""
    if extents:
        attributes = {name: extents_attr(shape) for name, shape in extents.items()}
        module.attributes[ROOMS] = DictionaryAttr(attributes)


def rooms_of(module: ModuleOp) -> dict[str, tuple[int, ...]]:
    """Return the extents of the inputs and results that are in rooms, by name."""
    found = module.attributes.get(ROOMS)
    if not isinstance(found, DictionaryAttr):
        return {}
    return {name: extents_in(a) for name, a in found.data.items() if isa(a, Extents)}


def set_size_ranges(module: ModuleOp, ranges: Mapping[str, Range]) -> None:
    """Set the module attribute `graph.size_ranges`, if there are any."""
    if ranges:
        limits = {name: DenseArrayBase.from_list(i64, range_) for name, range_ in ranges.items()}
        module.attributes[SIZE_RANGES] = DictionaryAttr(limits)


def size_ranges(module: ModuleOp) -> dict[str, Range]:
    """Return the ranges in the module attribute `graph.size_ranges`; {} without it."""
    found = module.attributes.get(SIZE_RANGES)
    if not isinstance(found, DictionaryAttr):
        return {}
    ranges: dict[str, Range] = {}
    for name, limits in found.data.items():
        assert isinstance(limits, DenseArrayBase)
        low, high = (int(limit) for limit in limits.get_values())
        ranges[name] = low, high
    return ranges


def in_place_results(module: ModuleOp) -> dict[int, int]:
    """Return the number of the input whose buffer a result is in, by the number of the result."""
    inputs, outputs = names_in(module, "graph.inputs"), names_in(module, "graph.outputs")
    pairs = pairs_of(module, IN_PLACE)
    return {outputs.index(result): inputs.index(name) for result, name in pairs.items()}
