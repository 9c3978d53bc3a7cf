"""Matrix-vector products: each element of the matrix is used once.

    each block                                          adjacent columns x threads
      each thread: its share of a column's products     loaded from memory
      threads of a column: combine their shares

There is no reuse, and memory bandwidth is the limit. Threads and blocks share the sums, as in other
reductions (`shared_reduction.py`), so that the whole device loads.
"""

from __future__ import annotations

from math import prod

from tcopt.dialects.graph.core.forms import CONTRACTION
from tcopt.schedules.analysis.dots import dot_of
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.gpu.launches import launches_space, schedule_launches
from tcopt.schedules.rules.gpu.register_tile import columns_of, only_contraction, rows_of
from tcopt.schedules.rules.gpu.sharing_space import SharingSpace
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.spaces.space import Choice
from tcopt.support.machines.thread_blocks import ThreadBlocks

LEAST_TERMS = 64
"""Minimum number of terms of a sum to share it."""


@schedule_rule(target="gpu", priority=105)
class VectorProducts:
    """Rule for contractions without operand reuse and with few results."""

    name = "gpu-vector-product"
    provides = (CONTRACTION,)

    def space(self, sch: Schedule, facts: ThreadBlocks) -> SharingSpace | Declined:
        pattern = only_contraction(sch)
        if isinstance(pattern, Declined):
            return Declined(pattern.reason, quiet=True)
        columns = columns_of(pattern)
        if columns is not None and rows_of(pattern, columns) is not None:
            return Declined("an operand serves several rows", quiet=True)
        if dot_of(pattern, facts.capabilities) is not None:
            return Declined("products are those of groups of bytes")
        if prod(pattern.extents[v] for v in pattern.spatial) >= facts.running:
            return Declined("there are as many results as threads run at once")
        if prod(pattern.extents[v] for v in pattern.reduce) < LEAST_TERMS:
            return Declined("sums are too short to be shared")
        return launches_space(sch, facts)

    def apply(
        self, sch: Schedule, facts: ThreadBlocks, space: SharingSpace, choice: Choice
    ) -> Declined | None:
        schedule_launches(sch, facts, space, choice)
        return None
