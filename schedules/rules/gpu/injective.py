"""Elementwise, broadcast, copy and padding blocks: a vector a thread, an element where rows have
no vectors.

    y[block, thread, lane] = f(x[block, thread, lane])

Neighbouring threads have neighbouring vectors, so that a warp moves one piece of memory. Where
there are fewer vectors than threads run at once, each thread has one element.
"""

from __future__ import annotations

from tcopt.schedules.analysis.patterns import BlockPattern, StridedAccess, element_bits, match_block
from tcopt.schedules.api.handles import Block
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.gpu.facts import GpuFacts
from tcopt.schedules.rules.gpu.fallback import element_a_thread
from tcopt.schedules.rules.gpu.threads import spread
from tcopt.schedules.rules.rule import Declined, schedule_rule


@schedule_rule(target="gpu", priority=20)
class Injective:
    """Rule for functions whose blocks all compute each element on its own."""

    name = "gpu-injective"

    def apply(self, sch: Schedule, facts: GpuFacts) -> Declined | None:
        if any(sch.block_op(block).is_reduction for block in sch.blocks()):
            return Declined("a block reduces")
        for block in sch.blocks():
            schedule_injective(sch, block, facts)
        return None


def schedule_injective(sch: Schedule, block: Block, facts: GpuFacts) -> None:
    """Schedule one block in a launch of its own."""
    op = sch.block_op(block)
    pattern = match_block(op)
    loops = sch.get_loops(block)
    lanes = 1 if pattern is None or op.is_reduction or not loops else row_lanes(pattern, facts)
    if lanes == 1 or pattern is None or pattern.work < lanes * facts.running:
        element_a_thread(sch, block, facts)
        return
    *outer, last = loops
    if sch.extent(last) > lanes:
        last, lane = sch.split(last, factors=[None, lanes])
        outer.append(last)
    else:
        lane = last
    if outer:
        spread(sch, outer, facts)
    sch.vectorize(lane)


def row_lanes(pattern: BlockPattern, facts: GpuFacts) -> int:
    """Elements of a row that one thread may handle as a vector; 1 if it has no vectors.

    Rows are whole vectors, narrow ones if need be, and each operand's elements are neighbours or
    one and the same.
    """
    moving = [v for v in pattern.spatial if pattern.extents[v] > 1]
    if not moving:
        return 1
    row = moving[-1]
    lanes = facts.lanes(element_bits(pattern.block), pattern.extents[row])
    terms = all(not term.uses(row) or _is_plain(term, row) for term in pattern.terms)
    return lanes if pattern.store.is_unit(row) and terms else 1


def _is_plain(term: StridedAccess, row: int) -> bool:
    """Whether a load reads neighbours, all of which are there."""
    return term.is_unit(row) and getattr(term.op, "default", None) is None
