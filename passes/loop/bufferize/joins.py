"""In-place concatenation: values that are written directly into another value's buffer."""

from __future__ import annotations

from collections.abc import Container

from xdsl.dialects.builtin import UnrealizedConversionCastOp
from xdsl.ir import Block, SSAValue

from tcopt.dialects import te
from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.dialects.graph.opaque import OpaqueOp
from tcopt.dialects.graph.scan import ScanOp
from tcopt.dialects.graph.types import bytes_of, type_of


def origin_of(value: SSAValue) -> SSAValue:
    """Return the value that `value` is a view of, or the value itself."""
    owner = value.owner
    while isinstance(owner, UnrealizedConversionCastOp) or (
        isinstance(owner, GraphOp) and owner.is_view
    ):
        value = owner.operands[0]
        owner = value.owner
    return value


def source_of(value: SSAValue) -> SSAValue:
    """Return the value whose data contains that of `value`, as a view or a part."""
    value = origin_of(value)
    owner = value.owner
    while isinstance(owner, GraphOp) and owner.subview_offset is not None:
        value = origin_of(owner.operands[0])
        owner = value.owner
    return value


def producer_of(value: SSAValue) -> SSAValue | None:
    """What computes the value that `value` is a view of; None for inputs and constants."""
    value = origin_of(value)
    owner = value.owner
    return value if isinstance(owner, te.CallOp | ScanOp | OpaqueOp) else None


def is_read_whole(value: SSAValue) -> bool:
    """Whether no op reads a part of a value, or may do so in a loop of its own, as a buffer.

    Kernels assume that the address of a buffer is a multiple of what divides its size and
    `ALIGNMENT`. Slices of any size are at such addresses, and parts of them need not be.
    """
    for use in value.uses:
        reader = use.operation
        if isinstance(reader, ScanOp):
            return False
        if isinstance(reader, GraphOp) and reader.subview_offset is not None:
            return False
        is_view = isinstance(reader, UnrealizedConversionCastOp) or (
            isinstance(reader, GraphOp) and reader.is_view
        )
        if is_view and not all(map(is_read_whole, reader.results)):
            return False
    return True


def is_join(value: SSAValue) -> bool:
    """Whether a value's data is the concatenation of an op's operands."""
    return isinstance(value.owner, GraphOp) and value.owner.is_joined


class Joins:
    """Offsets of values that are stored inside other values.

    The result of a call that is part of such a value is written there directly; the parts of a
    nested concatenation are too. A value has a single location: if it is part of several values,
    the others get a copy.
    """

    def __init__(self) -> None:
        self.places: dict[SSAValue, tuple[SSAValue, int]] = {}
        self.known: set[SSAValue] = set()

    def add(self, block: Block, taken: Container[SSAValue]) -> None:
        """Assign locations to the values that a block computes, except those in `taken`."""
        for op in reversed(list(block.ops)):
            if not op.results or not is_join(op.results[0]) or op.results[0] in self.known:
                continue
            assert isinstance(op, GraphOp)
            self.known.add(op.results[0])
            for operand, offset in zip(op.operands, part_offsets(op), strict=True):
                origin = origin_of(operand)
                free = origin not in taken and origin not in self.places
                if free and _is_written(origin, block):
                    self.places[origin] = (op.results[0], offset)

    def is_placed(self, value: SSAValue, whole: SSAValue, offset: int) -> bool:
        """Whether a value's data is written to `offset` of another value's."""
        return self.places.get(origin_of(value)) == (whole, offset)

    def place(self, value: SSAValue) -> tuple[SSAValue, int]:
        """Return the value whose buffer contains another value's data, and its byte offset."""
        offset = 0
        while value in self.places:
            value, start = self.places[value]
            offset += start
        return value, offset


def part_offsets(op: GraphOp) -> list[int]:
    """Return the byte offset of each operand's data in the data of an op that joins them."""
    offsets: list[int] = []
    end = 0
    for operand in op.operands:
        offsets.append(end)
        end += bytes_of(type_of(operand))
    return offsets


def _is_written(origin: SSAValue, block: Block) -> bool:
    """Whether a value is computed in the block by an op that can write to any buffer."""
    owner = origin.owner
    if isinstance(owner, Block) or owner.parent is not block or isinstance(owner, ScanOp):
        return False
    return isinstance(owner, te.CallOp) or (isinstance(owner, GraphOp) and owner.is_joined)
