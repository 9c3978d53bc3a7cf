"""Select the most expensive block of a function, which templates schedule."""

from __future__ import annotations

from tcopt.schedules.analysis.patterns import BlockPattern, body_cost, match_block
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.nests import variable_loops
from tcopt.schedules.state.state import blocks_under


def heaviest(sch: Schedule) -> BlockPattern | None:
    """Return the most expensive block with a single store and a loop nest of its own.

    Reductions are preferred; None if there is no such block.
    """
    found: list[tuple[bool, int, int, BlockPattern]] = []
    for number, block in enumerate(sch.blocks()):
        op = sch.block_op(block)
        pattern, loops = match_block(op), sch.get_loops(block)
        if pattern is None or not loops or len(list(blocks_under(sch.loop_op(loops[0])))) > 1:
            continue
        moving = variable_loops(sch, block)
        if len(moving) == len(loops) and any(v in moving for v in pattern.spatial):
            found.append((op.is_reduction, pattern.work * body_cost(op), -number, pattern))
    return max(found, key=lambda each: each[:3])[3] if found else None
