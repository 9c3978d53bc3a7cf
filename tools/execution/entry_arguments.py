"""Arguments of functions on buffers: inputs, results, sizes, weights and workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import func
from xdsl.dialects.builtin import DictionaryAttr, IndexType, ModuleOp
from xdsl.ir import Operation
from xdsl.utils.hints import isa

from tcopt.dialects.graph.core.donation import in_place_results
from tcopt.dialects.graph.core.weights import weights_of
from tcopt.dialects.size import buffer_types, extents_of, sized
from tcopt.support.arithmetic.sizes import substitute, upper_bound
from tcopt.support.errors import UnsupportedError
from tcopt.support.ir.literals import Integers, integers
from tcopt.tools.execution.executors import WEIGHTS, outputs_of, signature
from tcopt.tools.execution.host_program import array_type, unwritten

Array = NDArray[Any]


class EntryArguments(NamedTuple):
    """Arrays for the arguments of a function, and those of them that are its results."""

    arrays: list[Array]
    results: list[Array]


def entry_arguments(
    module: ModuleOp,
    entry: Operation,
    feeds: Sequence[Array],
    sizes: Mapping[str, int] | None = None,
    known: Sequence[Array] = (),
) -> EntryArguments:
    """Return arguments for a run of a function on buffers.

    Args:
        feeds: values of the first arguments.
        sizes: the number of each size, by name; results have room for the upper bounds of others.
        known: arrays with the shapes of the first results, for those with unknown extents.
    """
    arguments = entry.regions[0].block.args
    count, outputs = len(arguments), outputs_of(module)
    is_planned = isinstance(entry, func.FuncOp) and WEIGHTS in entry.attributes
    own = count - 2 if is_planned else count
    end = next((a.index for a in arguments[:own] if isinstance(a.type, IndexType)), own)
    arrays = [np.array(feed, copy=True) for feed in feeds]
    arrays += _new_arrays(entry, len(arrays), own, sizes or {}, known)
    if isinstance(entry, func.FuncOp) and is_planned:
        arrays += _planned(module, entry)
        return EntryArguments(
            arrays, _results(module, arrays, end - outputs if outputs else 0, end)
        )
    return EntryArguments(arrays, _results(module, arrays, len(feeds), end) or arrays)


def _results(module: ModuleOp, arrays: Sequence[Array], first: int, end: int) -> list[Array]:
    """Return the arrays of results: arguments from `first` to `end`, or inputs that they are in."""
    in_place = in_place_results(module)
    return [arrays[in_place.get(n - first, n)] for n in range(first, end)]


def _new_arrays(
    entry: Operation, first: int, end: int, numbers: Mapping[str, int], known: Sequence[Array]
) -> list[Array]:
    """Return arrays for the arguments from `first` to `end`: uninitialised buffers, and sizes."""
    types = buffer_types(entry) if isinstance(entry, func.FuncOp) else []
    specs = signature(entry).arguments
    found: list[Array] = []
    for position in range(first, end):
        spec = specs[position]
        if isinstance(entry.regions[0].block.args[position].type, IndexType):
            if spec.name not in numbers:
                raise UnsupportedError(f"size '{spec.name}' has no value here", op=entry)
            found.append(np.array(numbers[spec.name]))
            continue
        shape = [size for size in spec.shape or () if isinstance(size, int)]
        if position < len(types) and sized(types[position]) is not None:
            extents = extents_of(types[position])
            shape = [upper_bound(substitute(extent, numbers)) for extent in extents]
        elif None in (spec.shape or ()) and position - first < len(known):
            shape = known[position - first].shape
        found.append(unwritten(shape, spec.dtype))
    return found


def _planned(module: ModuleOp, main: func.FuncOp) -> list[Array]:
    """Return the weights and the workspace of a planned @main: its last two arguments."""
    weights, workspace = main.body.block.args[-2:]
    layout, store = main.attributes[WEIGHTS], weights_of(module) or {}
    assert isinstance(layout, DictionaryAttr)
    block = np.zeros(array_type(weights.type)[0], np.uint8)
    for name, place in layout.data.items():
        assert isa(place, Integers)
        offset, size = integers(place)
        if name not in store:
            raise UnsupportedError(f"the module's weight @{name} is not available", op=main)
        block[offset : offset + size] = np.ascontiguousarray(store[name]).reshape(-1).view(np.uint8)
    shape, dtype = array_type(workspace.type)
    return [block.view(np.int8), np.full(shape, 0xA5, np.uint8).view(dtype)]
