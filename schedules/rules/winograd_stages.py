"""Identify the blocks of a Winograd convolution by what they compute."""

from __future__ import annotations

from dataclasses import dataclass

from tcopt.schedules.analysis.patterns import match_block, scales
from tcopt.schedules.api.handles import Block
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.epilogue import blocks_behind, follows_pointwise
from tcopt.schedules.rules.rule import Declined


@dataclass(frozen=True)
class Stages:
    """Blocks of a transformed convolution, in program order.

    Attributes:
        pad: the padded input, if the input has no room for all tiles.
        left, data: the input transform: of rows, then of columns.
        products: the contraction over channels.
        right, result: the output transform: of rows, then of columns, with the beginning of the
            epilogue.
        epilogue: the remaining pointwise blocks.
        others: other pointwise blocks: additional inputs of the epilogue, or consumers that read
            the result in another order.
    """

    pad: Block | None
    left: Block
    data: Block
    products: Block
    right: Block
    result: Block
    epilogue: tuple[Block, ...] = ()
    others: tuple[Block, ...] = ()

    @property
    def last(self) -> Block:
        """The block that stores the results."""
        return (self.result, *self.epilogue)[-1]


def find_stages(sch: Schedule) -> Stages | Declined:
    """Identify the blocks of a function, or decline."""
    blocks = sch.blocks()
    patterns = {block: match_block(sch.block_op(block)) for block in blocks}
    sums = [b for b, p in patterns.items() if p is not None and p.is_contraction]
    if not any(scales(sch.block_op(block)) for block in blocks):
        return Declined("no block multiplies by a constant table", quiet=True)
    if len(sums) != 1:
        return Declined(f"{len(sums)} blocks add products of two loaded values, one is wanted")
    products = sums[0]
    data = _only(sch, sch.producers(products))
    right = _only(sch, sch.consumers(products))
    left = None if data is None else _only(sch, sch.producers(data))
    result = None if right is None else _only(sch, sch.consumers(right))
    if data is None or right is None or left is None or result is None:
        return Declined("the contraction is not between two pairs of transforms")
    if sch.block_op(result).is_reduction:
        return Declined("the last transform is part of a reduction")
    before = sch.producers(left)
    pad = before[0] if len(before) == 1 else None
    behind = blocks_behind(sch, result)
    epilogue = behind if follows_pointwise(sch, result, behind) else []
    known = [pad, left, data, products, right, result, *epilogue]
    others = [block for block in blocks if block not in known]
    if any(sch.block_op(block).is_reduction for block in others):
        return Declined("a block other than the transforms reduces")
    return Stages(pad, left, data, products, right, result, tuple(epilogue), tuple(others))


def _only(sch: Schedule, blocks: list[Block]) -> Block | None:
    """Return the only block if it is a transform; None otherwise."""
    return blocks[0] if len(blocks) == 1 and scales(sch.block_op(blocks[0])) else None
