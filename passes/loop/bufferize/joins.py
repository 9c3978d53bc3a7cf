"""In-place concatenation: operands are written directly into the buffer of the result."""

from __future__ import annotations

from collections.abc import Container

from xdsl.dialects.builtin import UnrealizedConversionCastOp
from xdsl.ir import Block, SSAValue

from tcopt.dialects import te
from tcopt.dialects.graph.control.scan import ScanOp
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.opaque import OpaqueOp
from tcopt.dialects.graph.core.types import type_of
from tcopt.dialects.memory_sizes import element_bytes
from tcopt.dialects.size import extents_of
from tcopt.support.arithmetic.sizes import Extent, product


def origin_of(value: SSAValue) -> SSAValue:
    """Return the value that `value` is a view of, or the value itself."""
    owner = value.owner
    while isinstance(owner, UnrealizedConversionCastOp) or (
        isinstance(owner, GraphOp) and owner.is_view
    ):
        value = owner.operands[0]
        owner = value.owner
    return value


def producer_of(value: SSAValue) -> SSAValue | None:
    """Return the value that `value` is a view of, if a call, scan or opaque op computes it.

    None for inputs, constants and concatenations.
    """
    value = origin_of(value)
    owner = value.owner
    return value if isinstance(owner, te.CallOp | ScanOp | OpaqueOp) else None


def is_read_whole(value: SSAValue) -> bool:
    """Whether no op uses a part of a value as a buffer: neither a subview, nor a slice in a scan.

    Kernels assume that a buffer is aligned to the greatest common divisor of its size and
    `ALIGNMENT`. Slices of a buffer always have this alignment, but parts of slices may not.
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
    """Locations of values that are stored inside the results of concatenations.

    A call that computes an operand of a concatenation writes into the result's buffer directly,
    also through nested concatenations. A value has a single location: if it is an operand of
    several concatenations, the others copy it.

    Attributes:
        places: for each such value, the concatenation's result and the byte offset in it, which
            may be a size.
        known: results of all concatenations seen so far.
    """

    def __init__(self) -> None:
        self.places: dict[SSAValue, tuple[SSAValue, Extent]] = {}
        self.known: set[SSAValue] = set()

    def add(self, block: Block, taken: Container[SSAValue]) -> None:
        """Assign locations to the operands of a block's concatenations, except those in `taken`."""
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

    def is_placed(self, value: SSAValue, whole: SSAValue, offset: Extent) -> bool:
        """Whether a value is stored at byte `offset` of `whole`."""
        return self.places.get(origin_of(value)) == (whole, offset)

    def place(self, value: SSAValue) -> tuple[SSAValue, Extent]:
        """Return the outermost value whose buffer contains `value`, and its byte offset there."""
        offset: Extent = 0
        while value in self.places:
            value, start = self.places[value]
            offset += start
        return value, offset


def part_offsets(op: GraphOp) -> list[Extent]:
    """Return the byte offset of each operand of a concatenation in its result."""
    offsets: list[Extent] = []
    end: Extent = 0
    for operand in op.operands:
        offsets.append(end)
        type_ = type_of(operand)
        end = end + product(extents_of(type_)) * element_bytes(type_.element_type)
    return offsets


def _is_written(origin: SSAValue, block: Block) -> bool:
    """Whether a value is computed in the block by an op that can write to any buffer."""
    owner = origin.owner
    if isinstance(owner, Block) or owner.parent is not block or isinstance(owner, ScanOp):
        return False
    return isinstance(owner, te.CallOp) or (isinstance(owner, GraphOp) and owner.is_joined)
