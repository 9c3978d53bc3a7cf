"""Vectors along rows of elements."""

from __future__ import annotations

from tcopt.schedules.analysis.patterns import BlockPattern, StridedAccess, element_bits
from tcopt.support.machines.thread_blocks import ThreadBlocks


def row_lanes(pattern: BlockPattern, facts: ThreadBlocks) -> int:
    """Return the elements of a row that one thread may handle as a vector; 1 if it has no vectors.

    Rows must be whole vectors, possibly narrow ones, and each operand contiguous or constant along
    them.
    """
    moving = [v for v in pattern.spatial if pattern.extents[v] > 1]
    if not moving:
        return 1
    row = moving[-1]
    lanes = facts.lanes(element_bits(pattern.block), pattern.extents[row])
    terms = all(not term.uses(row) or _is_plain(term, row) for term in pattern.terms)
    return lanes if pattern.store.is_unit(row) and terms else 1


def _is_plain(term: StridedAccess, row: int) -> bool:
    """Whether a load is contiguous along the row and in bounds."""
    return term.is_unit(row) and getattr(term.op, "default", None) is None
