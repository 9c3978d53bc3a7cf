"""Placement of buffers in the memories of an accelerator.

A walk by hand: the address of each buffer depends on all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import FixedBitwidthType, MemRefType, ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.dialects.loop.memory import PLACES
from tcopt.dialects.target import target_facts_of
from tcopt.dialects.target.interface import PlacedMemory
from tcopt.support.errors import UnsupportedError
from tcopt.support.ir.literals import number_list
from tcopt.support.ir.quick_ir import walk_ops


@dataclass(frozen=True)
class PlaceSramPass(ModulePass):
    """Assign addresses to the buffers in an accelerator's memories.

    A buffer is live from the first op of its block that uses it to the last. Buffers with
    overlapping live ranges do not overlap in memory. A buffer with several slots is live during the
    outermost loop around it, as iterations overlap. The largest buffers are placed first, each at
    the lowest free address. Addresses count entries of the memory, whose size the target defines.

        loop.for %k = 0 to 4 {
          %a = loop.alloc acc_input {slots = 2 : i64} : memref<9x30x16xi8>
        ->
        loop.for %k = 0 to 4 {
          %a = loop.alloc acc_input {slots = 2 : i64, places = [0, 270]} : memref<9x30x16xi8>

    Modules whose target has no such memories are not changed.
    """

    name = "place-sram"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_facts_of(op)
        if target is None:
            return
        for function in op.ops:
            if isinstance(function, loop.FuncOp):
                for scope, memory in target.memories.items():
                    _place(_lives(function, scope, memory), scope, memory)


@dataclass(frozen=True)
class _Life:
    """A buffer and its live range.

    Attributes:
        size: entries of one slot.
        first, last: indices of the first and last op, in program order.
    """

    alloc: loop.AllocOp
    size: int
    first: int
    last: int

    @property
    def label(self) -> str:
        """The buffer and its size in bytes, for messages."""
        type_ = self.alloc.result.type
        slots = f"{self.alloc.slots} times " if self.alloc.slots > 1 else ""
        name = self.alloc.result.name_hint or "a buffer"
        return f"%{name} ({slots}{_bytes_of(type_):,} bytes)"

    def meets(self, other: _Life) -> bool:
        """Whether the live ranges of both overlap."""
        return self.first <= other.last and other.first <= self.last


def _lives(function: loop.FuncOp, scope: str, memory: PlacedMemory) -> list[_Life]:
    numbers = {op: number for number, op in enumerate(walk_ops(function))}
    found: list[_Life] = []
    for op in numbers:
        if isinstance(op, loop.AllocOp) and op.scope.data.value == scope:
            size = _bytes_of(op.result.type)
            if size % memory.entry_bytes:
                raise UnsupportedError(
                    f"%{op.result.name_hint} has {size:,} bytes, which are not whole entries of "
                    f"{scope} of {memory.entry_bytes} bytes",
                    op=op,
                )
            first, last = _alive(op, numbers)
            found.append(_Life(op, size // memory.entry_bytes, first, last))
    return found


def _alive(alloc: loop.AllocOp, numbers: dict[Operation, int]) -> tuple[int, int]:
    holder = alloc.parent
    assert holder is not None
    around = list(loop.enclosing_loops(alloc))
    if alloc.slots > 1 and around:
        return numbers[around[-1]], _end(around[-1], numbers)
    users = {holder.find_ancestor_op_in_block(use.operation) for use in alloc.result.uses}
    ops = [user for user in users if user is not None]
    first = min((numbers[op] for op in ops), default=numbers[alloc])
    return first, max((_end(op, numbers) for op in ops), default=first)


def _end(op: Operation, numbers: dict[Operation, int]) -> int:
    """Return the index of the last op in another one, itself included."""
    return max(numbers[inner] for inner in op.walk())


def _place(lives: Sequence[_Life], scope: str, memory: PlacedMemory) -> None:
    done: list[tuple[_Life, list[int]]] = []
    for life in sorted(lives, key=lambda each: -each.size * each.alloc.slots):
        near = [(other, place) for other, found in done if other.meets(life) for place in found]
        taken = sorted((place, place + other.size) for other, place in near)
        places: list[int] = []
        for _ in range(life.alloc.slots):
            place = _lowest(taken, life.size)
            if place + life.size > memory.entries:
                raise _full(life, [other for other, _ in near], scope, memory)
            places.append(place)
            taken = sorted([*taken, (place, place + life.size)])
        life.alloc.attributes[PLACES] = number_list(*places)
        done.append((life, places))


def _lowest(taken: Sequence[tuple[int, int]], size: int) -> int:
    """Return the lowest address with `size` free entries."""
    place = 0
    for first, end in taken:
        if place + size <= first:
            break
        place = max(place, end)
    return place


def _full(
    life: _Life, others: Sequence[_Life], scope: str, memory: PlacedMemory
) -> UnsupportedError:
    beside = ", ".join(dict.fromkeys(other.label for other in others))
    return UnsupportedError(
        f"{life.label} does not fit {scope}, which has "
        f"{memory.entries * memory.entry_bytes:,} bytes"
        + (f" and holds {beside}" if beside else ""),
        op=life.alloc,
        hint="smaller tiles, or fewer slots, need less",
    )


def _bytes_of(type_: object) -> int:
    assert isa(type_, MemRefType)
    element = type_.get_element_type()
    assert isinstance(element, FixedBitwidthType)
    return type_.element_count() * element.bitwidth // 8
