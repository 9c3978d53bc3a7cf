"""Space of rules with a launch for each reduction: how threads share the longest reduction."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tcopt.schedules.analysis.patterns import BlockPattern
from tcopt.schedules.rules.gpu.reduction_plan import (
    MOST_PARTS,
    Sharing,
    choose_sharing,
    power_of_two,
    sharing_cycles,
    term_lanes,
)
from tcopt.schedules.rules.gpu.thread_levels import deal
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
)
from tcopt.support.arithmetic.columns import most
from tcopt.support.machines.thread_blocks import ThreadBlocks


class SharingSpace(Space):
    """Rows of a block, threads and blocks for each row, and vectors.

    Args:
        pattern: the longest reduction; others are shared by their estimates.
    """

    def __init__(self, pattern: BlockPattern, facts: ThreadBlocks):
        self.pattern, self.facts = pattern, facts
        self.first = choose_sharing(pattern, facts)
        self.count = prod(pattern.extents[v] for v in pattern.spatial)
        self.length = prod(pattern.extents[v] for v in pattern.reduce)
        usual = self.first
        rows = {n for n in _powers(facts.max_threads) if n <= power_of_two(max(self.count, 1))}
        threads = {n for n in _powers(facts.max_threads) if n <= max(self.length, 1)}
        parts = {n for n in _powers(MOST_PARTS) if n <= max(self.length // 2, 1)}
        # Vectors are loaded if there are enough terms, even for one thread alone.
        lanes = {1, usual.lanes, term_lanes(pattern, facts, 1)}
        super().__init__(
            [
                Knob("rows", tuple(sorted({*rows, usual.rows}))),
                Knob("threads", tuple(sorted({*threads, usual.threads}))),
                Knob("parts", tuple(sorted({*parts, usual.parts}))),
                Knob("lanes", tuple(sorted(lanes))),
            ]
        )

    def sharing(self, choice: Choice) -> Sharing:
        """Return how threads share the reduction for a choice."""
        rows, threads, parts, lanes = (choice[n] for n in ("rows", "threads", "parts", "lanes"))
        return Sharing(rows, threads, self.first.is_across, parts, lanes)

    def default(self) -> dict[str, int]:
        usual = self.first
        return {
            "rows": usual.rows,
            "threads": usual.threads,
            "parts": usual.parts,
            "lanes": usual.lanes,
        }

    def valid(self, k: Point) -> Column:
        fine = k.rows * k.threads <= self.facts.max_threads
        fine = fine & (k.rows < 2 * most(self.count, 1))
        together = k.threads * k.parts * k.lanes
        # Each thread of each part has at least one term.
        fine = fine & ((together == 1) | (together <= self.length))
        # A single thread iterates over its row with the original loops.
        fine = fine & ((k.threads > 1) | ((k.lanes == 1) & (k.parts == 1)))
        usual = self.default()
        is_usual: Column = True
        for name, value in usual.items():
            is_usual = is_usual & (getattr(k, name) == value)
        return fine | is_usual

    def estimate(self, k: Point) -> Column:
        """Estimate the cycles of its launches."""
        sharing = {name: getattr(k, name) for name in ("rows", "threads", "parts", "lanes")}
        return sharing_cycles(self.pattern, self.facts, **sharing)

    def nest(self, k: Point) -> Sequence[LoopLevel]:
        pattern = self.pattern
        left: dict[int, Column] = dict(enumerate(pattern.extents))
        lanes = deal(pattern.reduce[-1:], left, k.lanes, NestKind.VECTOR)
        terms = deal(pattern.reduce, left, k.threads, NestKind.THREAD)
        parts = deal(pattern.reduce, left, k.parts, NestKind.BLOCK)
        rows = deal(pattern.spatial, left, k.rows, NestKind.THREAD)
        blocks = [LoopLevel(v, left[v], NestKind.BLOCK) for v in pattern.spatial]
        serial = [LoopLevel(v, left[v]) for v in pattern.reduce]
        return [*blocks, *parts, *rows, *terms, *serial, *lanes]

    def operands(self) -> Sequence[Operand]:
        return operands_of(self.pattern)


def _powers(largest: int) -> list[int]:
    return [1 << n for n in range(largest.bit_length()) if 1 << n <= largest]
