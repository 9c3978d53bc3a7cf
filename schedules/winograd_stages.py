"""The blocks of a convolution through small transforms, told apart by what they compute."""

from __future__ import annotations

from dataclasses import dataclass

from tcopt.dialects.loop import BlockOp
from tcopt.dialects.table import ScaleOp
from tcopt.schedules.api import Schedule
from tcopt.schedules.handles import Block
from tcopt.schedules.patterns import match_block
from tcopt.schedules.rules import Declined


@dataclass(frozen=True)
class Stages:
    """The blocks of a transformed convolution, in the order in which they run.

    Attributes:
        pad: the covered input, where the input has no room for all tiles.
        left, data: the transform of rows, then of columns.
        products: the contraction over channels.
        right, result: the transform back of rows, then of columns with the epilogue.
    """

    pad: Block | None
    left: Block
    data: Block
    products: Block
    right: Block
    result: Block


def find_stages(sch: Schedule) -> Stages | Declined:
    """Tell the blocks apart by what they compute."""
    blocks = sch.blocks()
    patterns = {block: match_block(sch.block_op(block)) for block in blocks}
    sums = [b for b, p in patterns.items() if p is not None and p.is_contraction]
    if not any(_scales(sch.block_op(block)) for block in blocks):
        return Declined("no block multiplies by a constant table", quiet=True)
    if len(sums) != 1:
        return Declined(f"{len(sums)} blocks add products of two loaded values, one is wanted")
    products = sums[0]
    data = _only(sch, sch.producers(products))
    right = _only(sch, sch.consumers(products))
    left = None if data is None else _only(sch, sch.producers(data))
    result = None if right is None else _only(sch, sch.consumers(right))
    if data is None or right is None or left is None or result is None:
        return Declined("the contraction does not lie between two pairs of transforms")
    rest = [b for b in blocks if b not in (left, data, products, right, result)]
    if len(rest) > 1 or rest != sch.producers(left):
        return Declined("blocks beside the transforms compute something else")
    return Stages(rest[0] if rest else None, left, data, products, right, result)


def _only(sch: Schedule, blocks: list[Block]) -> Block | None:
    """The only block, if it is a transform."""
    return blocks[0] if len(blocks) == 1 and _scales(sch.block_op(blocks[0])) else None


def _scales(block: BlockOp) -> bool:
    return any(isinstance(op, ScaleOp) for op in block.body.block.ops)
