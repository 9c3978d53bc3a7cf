"""Space of `gpu-reduction`: one thread or block per row, and which elements it keeps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod

from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.schedules.analysis.patterns import BlockPattern, element_bits, match_block, total_cost
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.gpu.injective_space import thread_counts
from tcopt.schedules.rules.gpu.launches import is_update, repeat_elements
from tcopt.schedules.rules.gpu.reduction_plan import (
    STEPS,
    neighbour_step,
    row_threads,
    term_bits,
    term_lanes,
)
from tcopt.schedules.rules.gpu.thread_levels import deal
from tcopt.schedules.rules.gpu.vector_rows import row_lanes
from tcopt.schedules.rules.nests import variable_loops
from tcopt.schedules.rules.operands import BYTE, operands_of
from tcopt.schedules.rules.rows import Rows
from tcopt.schedules.rules.rule import Declined
from tcopt.schedules.spaces.space import (
    Column,
    Knob,
    LoopLevel,
    NestKind,
    Operand,
    Point,
    Space,
)
from tcopt.support.arithmetic.columns import ceil_div, least, where
from tcopt.support.machines.thread_blocks import LaunchWork, ThreadBlocks

THREAD, BLOCK = 0, 1
"""Whether a thread or a block computes a row."""

KEPT, AGAIN = 0, 1
"""Whether elements are kept between passes over a row, or recomputed."""

SHORT_ROW = 32
"""Maximum elements of a row for which no threads share it."""

FEW_NUMBERS = 16
"""Maximum elements of a row that a block keeps, whatever memory they are in."""

ENOUGH = 4
"""Fraction of the concurrent threads (1/n) from which adjacent rows count as many."""

LONG_COLUMN = 128
"""Length of adjacent rows from which one thread is too slow."""


class ReductionSpace(Space):
    """How rows are mapped to threads, and whether elements are kept between passes over a row.

    Args:
        sch: a schedule of a copy of the function, with the loops over rows outermost.
        final: its last block.
        rows: the loops over rows.
    """

    def __init__(self, sch: Schedule, final: Block, rows: Sequence[Loop], facts: ThreadBlocks):
        self.facts, self._sch, self._final = facts, sch, final
        reductions = [block for block in sch.blocks() if sch.block_op(block).is_reduction]
        found = {block: match_block(sch.block_op(block)) for block in reductions}
        patterns = {block: pattern for block, pattern in found.items() if pattern is not None}
        self._lengths = {block: _length(pattern) for block, pattern in patterns.items()}
        self.length = max([*self._lengths.values(), *[0] * (len(patterns) < len(reductions))])
        last = match_block(sch.block_op(final))
        assert last is not None
        self.pattern = max(patterns.values(), key=_length, default=last)
        self.count, self.steps = prod(map(sch.extent, rows)), len(reductions)
        self.reason = _no_block(sch, reductions, patterns, self.count)
        self._has_rows = bool(rows)
        is_short = self.length <= SHORT_ROW or self._are_neighbours(list(rows))
        self._usual_row = THREAD if rows and is_short else BLOCK
        bits = element_bits(sch.block_op(final))
        self._room = {
            THREAD: facts.accumulators,
            BLOCK: max(facts.shared * 8 // bits - facts.max_threads, 0),
        }
        self.kept = _kept(sch, self.count, final)
        self._usual_elements = AGAIN if self.kept > self._room[self._usual_row] else KEPT
        self._lanes = max(
            term_lanes(self.pattern, facts, 1), *(_row_lanes(sch, b, facts) for b in sch.blocks())
        )
        self._usual_threads = {
            THREAD: facts.block_threads(self.count),
            BLOCK: row_threads(self.length, facts, self.count, self._lanes),
        }
        super().__init__(self._make_knobs())

    def _make_knobs(self) -> list[Knob]:
        usual = self._usual_threads.values()
        threads = {n for each in usual for n in thread_counts(each, self.facts)}
        kept = (KEPT, AGAIN) if self.kept else (KEPT,)
        vectors = (0, 1) if self._lanes > 1 else (1,)
        return [
            Knob("row", (THREAD, BLOCK), ("a thread", "a block")),
            Knob("threads", tuple(sorted(threads))),
            Knob("elements", kept, ("kept", "again")[: len(kept)]),
            Knob("vectors", vectors, ("no", "yes")[-len(vectors) :]),
        ]

    @cached_property
    def kept_again(self) -> int:
        """Number of elements that are kept of a row if cheap ones are recomputed."""
        return _kept(self._repeated, self.count, self._final)

    def refusal(self) -> str | None:
        """Return why the default choice is illegal; None if it is legal."""
        again = self._usual_elements == AGAIN
        kept, block = self.kept_again if again else self.kept, self._usual_row == BLOCK
        if not block and kept > self.facts.accumulators:
            return f"a thread would keep {kept} numbers of its row"
        if block and kept > max(self._room[BLOCK], FEW_NUMBERS):
            return f"a row's {kept} numbers do not fit shared memory"
        return self.reason if block else None

    def valid(self, k: Point) -> Column:
        again = self.kept_again if self.kept else 0
        kept = where(k.elements == AGAIN, again, self.kept)
        room = where(k.row == BLOCK, max(self._room[BLOCK], FEW_NUMBERS), self._room[THREAD])
        able = where(k.row == BLOCK, self.reason is None, self._has_rows)
        usual = where(k.row == BLOCK, *(self._usual_threads[row] for row in (BLOCK, THREAD)))
        # With twice as many threads as rows or elements, some threads never run.
        busy = k.threads < 2 * where(k.row == BLOCK, self.length, self.count)
        fits = (k.threads == usual) | (busy & (k.threads <= self.facts.max_threads))
        # A thread that computes a whole row uses no vectors.
        plain = (k.row == BLOCK) | (k.vectors == max(self.knobs[-1].values))
        # `again` must reduce the number of kept elements.
        other = (k.elements == KEPT) | (again < self.kept)
        return (kept <= room) & able & fits & plain & other

    def estimate(self, k: Point) -> Column:
        """Estimate the cycles of the launch."""
        facts, pattern, alone = self.facts, self.pattern, k.row == THREAD
        size = term_bits(pattern) / BYTE
        lanes = where(alone | (k.vectors == 0), 1, least(self._lanes, facts.words))
        rows = where(alone, k.threads, 1)
        loaded = self.length * rows * size
        again = loaded * (self.steps - 1 + int(self.kept > 0))
        is_kept = (k.elements == KEPT) & (self.kept > 0)
        across, along = (neighbour_step(pattern, v) for v in (pattern.spatial, pattern.reduce))
        step, blocks = where(alone, across, along), ceil_div(self.count, rows)
        costs = where(k.elements == AGAIN, *(self._row_costs[way] for way in (AGAIN, KEPT)))
        work = LaunchWork(
            blocks=blocks,
            threads=k.threads,
            operations=costs * rows / k.threads,
            barriers=where(alone, 0, self.steps),
            near=where(is_kept, again, 0),
            far=(loaded + where(is_kept, 0, again)) * facts.scattered(step, size),
            in_flight=least(lanes * facts.in_flight, STEPS) * size,
            moved=blocks * loaded,
        )
        return facts.start + facts.launch(work).total

    @cached_property
    def _row_costs(self) -> dict[int, float]:
        """Operations of a row, with elements kept or recomputed."""
        ways = {KEPT: self._sch, AGAIN: self._repeated}
        return {way: _row_cost(sch, self.count) for way, sch in ways.items()}

    @cached_property
    def _repeated(self) -> Schedule:
        """The schedule with cheap elements recomputed by their readers."""
        copy = Schedule(self._sch.func.clone())
        repeat_elements(copy)
        return copy

    def default(self) -> dict[str, int]:
        """Return the choice that the length and layout of rows suggest."""
        return {
            "row": self._usual_row,
            "threads": self._usual_threads[self._usual_row],
            "elements": self._usual_elements,
            "vectors": max(self.knobs[-1].values),
        }

    def nest(self, k: Point) -> Sequence[LoopLevel]:
        pattern, alone = self.pattern, k.row == THREAD
        left: dict[int, Column] = dict(enumerate(pattern.extents))
        own = where(alone | (k.vectors == 0), 1, term_lanes(pattern, self.facts, 1))
        lanes = deal(pattern.reduce[-1:], left, own, NestKind.VECTOR)
        terms = deal(pattern.reduce, left, where(alone, 1, k.threads), NestKind.THREAD)
        rows = deal(pattern.spatial, left, where(alone, k.threads, 1), NestKind.THREAD)
        blocks = [LoopLevel(v, left[v], NestKind.BLOCK) for v in pattern.spatial]
        serial = [LoopLevel(v, left[v]) for v in pattern.reduce]
        return [*blocks, *rows, *terms, *serial, *lanes]

    def operands(self) -> Sequence[Operand]:
        return operands_of(self.pattern)

    def _are_neighbours(self, rows: list[Loop]) -> bool:
        """Whether rows are adjacent in memory element by element, and many or short."""
        pattern = match_block(self._sch.block_op(self._final))
        if pattern is None or not pattern.spatial:
            return False
        if self.count * ENOUGH < self.facts.running and self.length > LONG_COLUMN:
            return False
        loops = variable_loops(self._sch, self._final)
        last = pattern.spatial[-1]
        return loops.get(last) in rows and Rows(self._sch).is_contiguous(self._final, last)


def row_loops(sch: Schedule, final: Block) -> list[Loop] | Declined:
    """Return the loops of the last block over rows, moved outermost."""
    pattern = match_block(sch.block_op(final))
    if pattern is None:
        return Declined("the last block does not store once")
    loops = variable_loops(sch, final)
    dataflow = Rows(sch)
    rows: list[Loop] = []
    rest: list[Loop] = []
    for variable in (v for v in pattern.spatial if v in loops):
        shared = dataflow.kept(final, variable)
        if shared is None:
            rest.append(loops[variable])
        elif shared > 1:
            outer, inner = sch.split(loops[variable], factors=[None, shared])
            rows.append(outer)
            rest.append(inner)
        else:
            rows.append(loops[variable])
    if rows and rest:
        sch.reorder(*rows, *rest)
    return rows


def _length(pattern: BlockPattern) -> int:
    return prod(pattern.extents[v] for v in pattern.reduce)


def _no_block(
    sch: Schedule,
    reductions: Sequence[Block],
    patterns: dict[Block, BlockPattern],
    count: int,
) -> str | None:
    """Return why the threads of a block cannot share a row; None if they can."""
    for block in reductions:
        pattern = patterns.get(block)
        if pattern is not None and _length(pattern) > 1:
            if _row_elements(pattern, count) > 1:
                return "a row has several results of a reduction"
            if not is_update(sch.block_op(block)):
                return f"{block.name} does not combine its result with one new term"
    return None


def _kept(sch: Schedule, count: int, final: Block) -> int:
    """Return the number of elements that are kept of a row between its first and last pass."""
    between = [b for b in sch.blocks() if b != final and not sch.block_op(b).is_reduction]
    patterns = [match_block(sch.block_op(each)) for each in between]
    return sum(_row_elements(each, count) for each in patterns if each is not None)


def _row_cost(sch: Schedule, count: int) -> float:
    """Return the operations for each row."""
    return sum(total_cost(sch.block_op(block)) for block in sch.blocks()) / count


def _row_elements(pattern: BlockPattern, count: int) -> int:
    """Return the number of elements that a block computes for each row."""
    return -(-prod(buffer_shape(pattern.store.buffer)) // count)


def _row_lanes(sch: Schedule, block: Block, facts: ThreadBlocks) -> int:
    pattern = match_block(sch.block_op(block))
    return 1 if pattern is None else row_lanes(pattern, facts)
