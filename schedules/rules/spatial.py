"""Queries for loops that move only spatial variables."""

from __future__ import annotations

from tcopt.dialects import loop
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule


def is_spatial(sch: Schedule, each: Loop, block: loop.BlockOp) -> bool:
    """Whether a loop moves only spatial variables of a block."""
    variable = sch.loop_op(each).induction_variable
    positions = {i for i, v in enumerate(block.operands) if v is variable}
    bindings = zip(block.bindings.data.results, block.iter_kinds, strict=True)
    return all(
        kind is loop.IterKind.SPATIAL or positions.isdisjoint(binding.used_dims())
        for binding, kind in bindings
    )


def spatial_loops(sch: Schedule, block: Block) -> list[Loop]:
    """Return the outermost loops of a block, as long as they move only spatial variables."""
    op = sch.block_op(block)
    found: list[Loop] = []
    for each in sch.get_loops(block):
        if not is_spatial(sch, each, op):
            break
        found.append(each)
    return found
