"""Execution of an accelerator program, step by step, by the behaviours of its intrinsics.

Memory entries that have not been written are poisoned: reading them is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import AffineMapAttr, IndexType, MemRefType, TensorType
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.utils.hints import isa

from tcopt.dialects.accelerator import Place, ProgramOp, RunOp
from tcopt.dialects.accelerator.instructions import entries_of
from tcopt.dialects.accelerator.reading import where_of
from tcopt.dialects.intrinsics import Intrinsic, Operand
from tcopt.dialects.target import AcceleratorFacts
from tcopt.dialects.te import ComputeOp, FuncOp, ReadOp
from tcopt.interpreters.te import run_func
from tcopt.support.data.dtypes import numpy_dtype
from tcopt.support.errors import InputError, VerificationError
from tcopt.support.ir.literals import number_list
from tcopt.support.processes.stop_checks import check_stop

Array = NDArray[Any]
Indices = NDArray[np.int64]

_POISON = 0x5A


def run_program(
    program: ProgramOp,
    facts: AcceleratorFacts,
    buffers: Sequence[Array],
    order: Iterable[int] | None = None,
) -> None:
    """Execute a program on buffers, which it updates in place.

    Args:
        buffers: contiguous arrays for the program's arguments.
        order: the execution order of its steps, by index; None for program order.
    Raises:
        InputError: an array does not match its buffer.
        VerificationError: a step reads an entry that has not been written.
    """
    steps = program.steps
    memories = Memories(program, facts, buffers)
    for number in range(len(steps)) if order is None else order:
        step = steps[number]
        check_stop()
        if isinstance(step, RunOp):
            memories.run(step, number)


class Memories:
    """The memories of an accelerator, as bytes, and the buffers of a program."""

    def __init__(self, program: ProgramOp, facts: AcceleratorFacts, buffers: Sequence[Array]):
        self.facts = facts
        self.bytes = {
            scope: np.full((memory.entries, memory.entry_bytes), _POISON, np.uint8)
            for scope, memory in facts.memories.items()
        }
        self.written = {
            scope: np.zeros(memory.entries, np.bool_) for scope, memory in facts.memories.items()
        }
        self.buffers = _flat(program, buffers)

    def run(self, step: RunOp, number: int) -> None:
        """Execute all iterations of an instruction."""
        declared, extents = step.declared, step.nest.extents
        inside = _inside(step)
        places = [entries_of(place, [(0, extent) for extent in extents]) for place in step.places]
        for chosen in independent(declared, step.places, places, self.sizes(step)):
            first = [where[chosen] for where in places]
            operands = list(zip(declared.operands, step.places, first, strict=True))
            tiles: dict[str, Array] = {}
            for position, (operand, place, where) in enumerate(operands):
                if position or declared.changes:
                    mask = inside[chosen] if operand.is_padded else None
                    tiles[operand.name] = self.read(step, number, operand, place, where, mask)
            names = ["out" if name == declared.old else name for name in declared.inputs]
            (result,) = run_func(batched(declared, len(chosen)), [tiles[name] for name in names])
            if declared.adds:
                result = _added(tiles["out"], result, first[0])
            operand, place, where = operands[0]
            self.write(operand, place, where, result)

    def sizes(self, step: RunOp) -> list[int]:
        """Return the size of each operand's tile, in entries or elements."""
        found: list[int] = []
        for operand, place in zip(step.declared.operands, step.places, strict=True):
            size = prod(operand.shape)
            if place.buffer is None:
                itemsize = numpy_dtype(operand.element).itemsize
                size = size * itemsize // self.facts.memories[place.memory].entry_bytes
            found.append(size)
        return found

    def read(
        self,
        step: RunOp,
        number: int,
        operand: Operand,
        place: Place,
        where: Indices,
        inside: NDArray[np.bool_] | None,
    ) -> Array:
        """Return the tiles of an operand, one per iteration; out of bounds, its default."""
        dtype = numpy_dtype(operand.element)
        shape = (len(where), *operand.shape)
        if place.buffer is not None:
            at = where[:, None] + np.arange(prod(operand.shape))
            if inside is None:
                return self.buffers[place.buffer][at].reshape(shape)
            values = np.full(at.shape, operand.outside, dtype)
            values[inside] = self.buffers[place.buffer][at[inside]]
            return values.reshape(shape)
        memory = self.bytes[place.memory]
        count = prod(operand.shape) * dtype.itemsize // memory.shape[1]
        at = where[:, None] + np.arange(count)
        missing = np.flatnonzero(~self.written[place.memory][at.reshape(-1)])
        if len(missing):
            raise VerificationError(
                f"entry {at.reshape(-1)[missing[0]]} of {place.memory} is read, but nothing has "
                "written it",
                op=step,
                where=where_of(step, number),
            )
        return np.ascontiguousarray(memory[at]).reshape(len(where), -1).view(dtype).reshape(shape)

    def write(self, operand: Operand, place: Place, where: Indices, tiles: Array) -> None:
        dtype = numpy_dtype(operand.element)
        flat = np.ascontiguousarray(tiles.astype(dtype)).reshape(len(where), -1)
        if place.buffer is not None:
            self.buffers[place.buffer][where[:, None] + np.arange(flat.shape[1])] = flat
            return
        memory = self.bytes[place.memory]
        rows = flat.view(np.uint8).reshape(len(where), -1, memory.shape[1])
        at = where[:, None] + np.arange(rows.shape[1])
        memory[at], self.written[place.memory][at] = rows, True


def independent(
    declared: Intrinsic, places: Sequence[Place], first: Sequence[Indices], sizes: Sequence[int]
) -> Iterator[Indices]:
    """Split the iterations into groups without dependences between their members.

    Iterations that accumulate integers into the same tiles are one group: `_added` adds them up.
    """
    count = len(first[0])
    written = (first[0][:, None] + np.arange(sizes[0])).reshape(-1)
    others = [
        np.isin((where[:, None] + np.arange(size)).reshape(-1), written).any()
        for place, where, size in zip(places[1:], first[1:], sizes[1:], strict=True)
        if (place.memory, place.buffer) == (places[0].memory, places[0].buffer)
    ]
    apart = len(np.unique(written)) == len(written)
    exact = declared.adds and numpy_dtype(declared.operands[0].element).kind in "iu"
    tiles_apart = len(np.unique(written)) == len(np.unique(first[0])) * sizes[0]
    if not any(others) and (apart or (exact and tiles_apart)):
        yield np.arange(count)
        return
    for number in range(count):
        yield np.array([number])


def _added(old: Array, terms: Array, places: Indices) -> Array:
    """Return, for each iteration, its tile with the terms of all iterations that write it added."""
    _, first, group = np.unique(places, return_index=True, return_inverse=True)
    if len(first) == len(places):
        return (old + terms).astype(old.dtype)
    sums = old[first].copy()
    np.add.at(sums, group.reshape(-1), terms.astype(old.dtype))
    return sums[group.reshape(-1)]


def _inside(step: RunOp) -> NDArray[np.bool_]:
    loops = step.nest
    found = np.ones(1, np.bool_)
    for extent, (low, high) in zip(loops.extents, loops.inside, strict=True):
        at = np.arange(extent)
        found = (found[:, None] & (low <= at) & (at < high)).reshape(-1)
    return found


@lru_cache(maxsize=1024)
def batched(declared: Intrinsic, count: int) -> FuncOp:
    """Return the behaviour of an intrinsic on `count` tiles at once, with a new leading axis."""
    function = declared.function.clone()
    block = function.body.block
    for argument in block.args:
        argument._type = _longer(argument.type, count)  # pyright: ignore[reportPrivateUsage]
    for stage in function.stages:
        _add_axis(stage, count)
    return function


def _add_axis(stage: ComputeOp, count: int) -> None:
    body = stage.body.block
    axis = body.insert_arg(IndexType(), 0)
    for op in body.walk():
        if isinstance(op, ReadOp):
            indices = list(op.indices)
            map = op.map.data
            results = (AffineDimExpr(len(indices)), *map.results)
            op.properties["map"] = AffineMapAttr(AffineMap(len(indices) + 1, 0, results))
            op.operands = [op.source, *indices, axis]
    stage.properties["extents"] = number_list(count, *stage.spatial_extents)
    stage.result._type = _longer(stage.result.type, count)  # pyright: ignore[reportPrivateUsage]


def _longer(type_: Any, count: int) -> TensorType[Any]:
    assert isa(type_, TensorType)
    return TensorType(type_.get_element_type(), [count, *type_.get_shape()])


def _flat(program: ProgramOp, buffers: Sequence[Array]) -> dict[SSAValue, Array]:
    arguments = program.body.block.args
    name = program.sym_name.data
    if len(buffers) != len(arguments):
        raise InputError(f"program @{name} takes {len(arguments)} buffers, not {len(buffers)}")
    found: dict[SSAValue, Array] = {}
    for value, array in zip(arguments, buffers, strict=True):
        assert isa(value.type, MemRefType)
        dtype, shape = numpy_dtype(value.type.element_type), value.type.get_shape()
        if array.shape != shape or array.dtype != dtype or not array.flags.c_contiguous:
            raise InputError(
                f"expected contiguous {dtype}{list(shape)}, got {array.dtype}{list(array.shape)}",
                where=value.name_hint or "a buffer",
            )
        found[value] = array.reshape(-1)
    return found
