"""Analysis of promote-registers: the parts of stack buffers that can be in registers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects import memref, scf, vector
from xdsl.dialects.builtin import MemRefType, NoneAttr, VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.transforms.canonicalization_patterns.utils import const_evaluate_operand
from xdsl.utils.hints import isa

from tcopt.support.ir.quick_ir import ops_of

_MOST_SLOTS = 512
"""Maximum number of separately accessed parts of a promoted buffer."""


@dataclass(eq=False)
class Slot:
    """A part of a buffer that is always accessed as a whole or in parts: one SSA value."""

    alloca: memref.AllocaOp
    start: int
    """First element, in row-major order."""
    type: Attribute
    """A scalar, or a vector of one dimension."""

    @property
    def name_hint(self) -> str | None:
        """Name hint of the slot's values: the buffer's name."""
        return self.alloca.memref.name_hint


@dataclass
class SlotAccess:
    """A load or store: its slot, and the accessed part of it."""

    slot: Slot
    offset: int
    """First lane within the slot."""
    type: Attribute


@dataclass
class Promotion:
    """The promotable buffers of a function, and their accesses."""

    slots: dict[Operation, list[Slot]] = field(default_factory=dict[Operation, list[Slot]])
    """The slots of each promoted alloca."""
    accesses: dict[Operation, SlotAccess] = field(default_factory=dict[Operation, SlotAccess])
    stored_inside: dict[Operation, dict[Slot, None]] = field(
        default_factory=dict[Operation, dict[Slot, None]]
    )
    """The slots stored to in each loop or branch, in order of first access."""
    used_inside: set[Operation] = field(default_factory=set[Operation])
    """Ops with regions that contain an access or a promoted alloca."""


_CONTROL = (scf.ForOp, scf.IfOp)
_STORES = (memref.StoreOp, vector.StoreOp, vector.MaskedStoreOp)


def access_parts(op: Operation) -> tuple[SSAValue, Sequence[SSAValue], Attribute] | None:
    """Return buffer, indices and accessed type of a load or store; None for other ops."""
    kind, operands = type(op), tuple(op.operands)
    if kind is memref.LoadOp or kind is vector.LoadOp:
        return operands[0], operands[1:], op.results[0].type
    if kind is memref.StoreOp or kind is vector.StoreOp:
        return operands[1], operands[2:], operands[0].type
    if kind is vector.MaskedLoadOp:
        return operands[0], operands[1:-2], op.results[0].type
    if kind is vector.MaskedStoreOp:
        return operands[0], operands[1:-2], operands[-1].type
    return None


def analyse(region_owner: Operation) -> Promotion:
    """Find the promotable buffers inside an op, and all their accesses."""
    promotion = Promotion()
    for op in ops_of(region_owner, memref.AllocaOp):
        if _is_elsewhere(op):
            continue
        found = _slots_of(op)
        if found is None:
            continue
        slots, accesses = found
        promotion.slots[op] = slots
        promotion.accesses.update(accesses)
        _mark_ancestors(promotion, op, region_owner)
        for access_op, access in accesses.items():
            _mark_ancestors(promotion, access_op, region_owner)
            if isinstance(access_op, _STORES):
                for owner in _regions_between(access_op, op.parent):
                    promotion.stored_inside.setdefault(owner, {})[access.slot] = None
    return promotion


def _is_elsewhere(op: memref.AllocaOp) -> bool:
    """Whether the buffer is in a special memory, such as memory shared by threads."""
    type_ = op.memref.type
    return isa(type_, MemRefType) and not isinstance(type_.memory_space, NoneAttr)


def _mark_ancestors(promotion: Promotion, op: Operation, top: Operation) -> None:
    parent = op.parent_op()
    while parent is not None and parent is not top and parent not in promotion.used_inside:
        promotion.used_inside.add(parent)
        parent = parent.parent_op()


def _regions_between(op: Operation, block: Block | None) -> Iterator[Operation]:
    """Yield the ops around `op`, from the inside out, up to one in `block`."""
    while op.parent is not block:
        parent = op.parent_op()
        if parent is None:
            return
        yield parent
        op = parent


def _slots_of(alloca: memref.AllocaOp) -> tuple[list[Slot], dict[Operation, SlotAccess]] | None:
    """Return the slots and accesses of a buffer, or None if it must stay in memory."""
    buffer = alloca.memref.type
    assert isa(buffer, MemRefType)
    if not buffer.has_static_shape() or buffer.get_strides() is None:
        return None
    ranges: list[tuple[int, int, Attribute, Operation]] = []
    for use in alloca.memref.uses:
        op = use.operation
        parts = access_parts(op)
        if parts is None or parts[0] is not alloca.memref or _stores_buffer(op, alloca.memref):
            return None
        if not all(type(owner) in _CONTROL for owner in _regions_between(op, alloca.parent)):
            return None
        span = _span(buffer, parts[1], parts[2])
        if span is None:
            return None
        ranges.append((*span, parts[2], op))
    return _group(alloca, ranges)


def _stores_buffer(op: Operation, buffer: SSAValue) -> bool:
    return isinstance(op, memref.StoreOp) and op.value is buffer


def _span(
    buffer: MemRefType[Attribute], indices: Sequence[SSAValue], type: Attribute
) -> tuple[int, int] | None:
    """Return the first and last-plus-one element of an access at constant indices."""
    shape = buffer.get_shape()
    start = 0
    for index, extent in zip(indices, shape, strict=True):
        number = const_evaluate_operand(index)
        if number is None:
            return None
        start = start * extent + number
    if not isa(type, VectorType):
        return start, start + 1
    if type.get_num_dims() != 1:
        return None
    end = start + type.get_shape()[0]
    return (start, end) if start >= 0 and end <= prod(shape) else None


def _group(
    alloca: memref.AllocaOp,
    ranges: list[tuple[int, int, Attribute, Operation]],
) -> tuple[list[Slot], dict[Operation, SlotAccess]] | None:
    """Group overlapping accesses into slots; each must be covered by its widest access."""
    slots: list[Slot] = []
    accesses: dict[Operation, SlotAccess] = {}
    slot_end = -1
    for start, end, type, op in sorted(ranges, key=lambda r: (r[0], -r[1])):
        if start >= slot_end:
            slots.append(Slot(alloca, start, type))
            slot_end = end
        elif end > slot_end:
            return None
        accesses[op] = SlotAccess(slots[-1], start - slots[-1].start, type)
    for access in accesses.values():
        # A scalar access and a one-lane vector access cover each other; the slot has the vector
        # type.
        if isa(access.type, VectorType) and not isa(access.slot.type, VectorType):
            access.slot.type = access.type
    return (slots, accesses) if len(slots) <= _MOST_SLOTS else None
