"""Analysis of operators that may overwrite an operand with their result."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import UnrealizedConversionCastOp
from xdsl.ir import Block, Operation, SSAValue

from tcopt.dialects import te
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.opaque import OpaqueOp
from tcopt.passes.loop.bufferize.joins import origin_of


def find_overwrites(block: Block) -> dict[Operation, SSAValue]:
    """Return the ops of a block that may overwrite an operand, with the value to overwrite.

    The operand must be computed in the block, and the op must be the last reader of it or of any
    view of it. Arguments and weights are never overwritten.
    """
    positions = {op: i for i, op in enumerate(block.ops)}
    found: dict[Operation, SSAValue] = {}
    for op in positions:
        if not isinstance(op, OpaqueOp) or op.OVERWRITES is None:
            continue
        origin = origin_of(op.operands[op.OVERWRITES])
        owner = origin.owner
        if not isinstance(owner, te.CallOp | OpaqueOp) or owner.parent is not block:
            continue
        others = list(_readers(origin))
        others.remove(op)
        # An op in a region, or one that reads the value twice, is not an earlier reader.
        if all(positions.get(other, len(positions)) < positions[op] for other in others):
            found[op] = origin
    return found


def _readers(value: SSAValue) -> Iterator[Operation]:
    """Yield the ops that read a value's data, directly or through views, once for each operand."""
    for use in value.uses:
        reader = use.operation
        is_view = isinstance(reader, GraphOp) and (
            reader.is_view or reader.subview_offset is not None
        )
        if is_view or isinstance(reader, UnrealizedConversionCastOp):
            for result in reader.results:
                yield from _readers(result)
        else:
            yield reader
