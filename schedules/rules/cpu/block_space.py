"""Base of the spaces of rules that choose vectors and threads, but no tiles."""

from __future__ import annotations

from collections.abc import Sequence

from tcopt.schedules.analysis.patterns import BlockPattern, body_cost, element_bits, match_block
from tcopt.schedules.api.handles import Block
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.cpu.estimated import ESTIMATED
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.cpu.granularity import blocks_cycles, parallel_loops
from tcopt.schedules.rules.nests import loop_variables
from tcopt.schedules.rules.operands import operands_of
from tcopt.schedules.spaces.space import (
    Choice,
    Column,
    Knob,
    LoopLevel,
    NestKind,
    Operand,
    Point,
    Space,
    parallel_where,
)
from tcopt.support.arithmetic.columns import ceil_div, where

MOST_PARALLEL = 3
"""Maximum number of outer loops that are fused into one parallel loop."""


class BlockSpace(Space):
    """Vectors and threads of the most expensive block.

    Args:
        knobs: knobs of all blocks. For the most expensive block these may be `parallel` and
            `vectors`, prefixed with its name if there are several blocks.
    """

    def __init__(self, sch: Schedule, knobs: Sequence[Knob], facts: CpuFacts):
        self.facts = facts
        super().__init__(knobs)
        self.heaviest = max(sch.blocks(), key=lambda each: _cost(sch, each), default=None)
        self._pattern: BlockPattern | None = None
        self._time = 0.0
        if self.heaviest is not None:
            op = sch.block_op(self.heaviest)
            self._pattern = match_block(op)
            self._variables = loop_variables(sch, self.heaviest)
            self._time = blocks_cycles([op], _cost(sch, self.heaviest), facts)
            self._lanes = facts.lanes(element_bits(op))

    @property
    def leading(self) -> tuple[str, ...]:
        return ()

    def valid(self, k: Point) -> Column:
        del k
        return True

    def estimate(self, k: Point) -> Column:
        """Rank choices by the number of knobs that differ from their estimated values."""
        changed: Column = 0
        for knob in self.knobs:
            changed = changed + where(getattr(k, knob.name) != knob.values[0], 1, 0)
        return changed

    def default(self) -> dict[str, int]:
        """Return the first value of each knob, which leaves it to its estimate."""
        return {knob.name: knob.values[0] for knob in self.knobs}

    def complete(self, leading: Choice) -> dict[str, int]:
        return self.default() | dict(leading)

    def nest(self, k: Point) -> Sequence[LoopLevel]:
        pattern = self._pattern
        if pattern is None:
            return ()
        outer, along = self._variables, None
        spatial = [v for v in outer if v in pattern.spatial]
        if spatial and pattern.store.is_unit(spatial[-1]):
            along = spatial[-1]
            outer = [v for v in outer if v != along]
        extents = [pattern.extents[v] for v in outer]
        usual = parallel_loops(extents, self._time, self.facts)
        parallel = self._knob(k, "parallel", usual)
        levels = [
            LoopLevel(v, extent, parallel_where(parallel > n))
            for n, (v, extent) in enumerate(zip(outer, extents, strict=True))
        ]
        if along is not None:
            extent, group = pattern.extents[along], self._knob(k, "vectors", 1)
            levels += [
                LoopLevel(along, ceil_div(extent, group * self._lanes)),
                LoopLevel(along, group, NestKind.UNROLLED),
                LoopLevel(along, min(self._lanes, extent), NestKind.VECTOR),
            ]
        return levels

    def operands(self) -> Sequence[Operand]:
        return () if self._pattern is None else operands_of(self._pattern)

    def _knob(self, k: Point, name: str, usual: int) -> Column:
        """Return the value of a knob of the most expensive block; `usual` if it has none."""
        block = "" if self.heaviest is None else self.heaviest.name
        for full in (name, f"{block}.{name}"):
            if full in k.__dict__:
                value = getattr(k, full)
                return where(value == ESTIMATED, usual, value)
        return usual


def _cost(sch: Schedule, block: Block) -> int:
    pattern: BlockPattern | None = match_block(sch.block_op(block))
    return 0 if pattern is None else pattern.work * body_cost(pattern.block)
