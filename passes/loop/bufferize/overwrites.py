"""Analysis of operators that may overwrite an operand with their result."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from xdsl.dialects.builtin import UnrealizedConversionCastOp
from xdsl.ir import Block, Operation, OpResult, SSAValue

from tcopt.dialects import te
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.opaque import OpaqueOp
from tcopt.passes.loop.bufferize.joins import origin_of


def find_overwrites(block: Block, donated: Container[SSAValue] = ()) -> dict[Operation, SSAValue]:
    """Return the ops of a block that may overwrite an operand, with the value to overwrite.

    The operand must be computed in the block or donated, and the op must be the last reader of it
    or of any view of it. Weights and other arguments are never overwritten.

    Args:
        donated: arguments of the block that may be overwritten.
    """
    positions = {op: i for i, op in enumerate(block.ops)}
    found: dict[Operation, SSAValue] = {}
    for op in positions:
        if not isinstance(op, OpaqueOp) or op.OVERWRITES is None:
            continue
        origin = origin_of(op.operands[op.OVERWRITES])
        if origin not in donated and not _is_computed(origin, block):
            continue
        others = list(_readers(origin))
        others.remove(op)
        # An op in a region, or one that reads the value twice, is not an earlier reader.
        if all(positions.get(other, len(positions)) < positions[op] for other in others):
            found[op] = origin
    return found


def updated_argument(value: SSAValue, overwrites: Mapping[Operation, SSAValue]) -> SSAValue:
    """Return the value whose buffer holds `value` after a chain of overwrites, or its origin."""
    origin = origin_of(value)
    while isinstance(origin, OpResult) and origin.index == 0 and origin.op in overwrites:
        origin = origin_of(overwrites[origin.op])
    return origin


def _is_computed(value: SSAValue, block: Block) -> bool:
    """Whether a call or an opaque op of the block computes a value."""
    owner = value.owner
    return isinstance(owner, te.CallOp | OpaqueOp) and owner.parent is block


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
