"""Schedule rule for sums over overlapping windows, such as depthwise convolutions, on GPUs.

    each thread
      window = its part of the data, including padding     in registers, each element loaded once
      sums = 0                                             rows x lanes
      for each tap:  multiply-add the tile                 unrolled
      epilogue and store

A thread computes several rows of one column, or of a vector of columns, as their windows overlap.
Adjacent threads load and store adjacent elements. Padding is inlined into the loads, so it needs no
launch of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tcopt.dialects.graph.core.forms import CONTRACTION
from tcopt.schedules.analysis.dots import dot_of
from tcopt.schedules.analysis.patterns import BlockPattern, StridedAccess, element_bits
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.epilogue import blocks_beside, take_epilogue
from tcopt.schedules.rules.gpu.injective import schedule_injective
from tcopt.schedules.rules.gpu.register_tile import (
    UNEVEN,
    columns_of,
    finish,
    only_contraction,
    rows_of,
    write_out_tile,
)
from tcopt.schedules.rules.gpu.shared_tile import makes_operand
from tcopt.schedules.rules.gpu.threads import spread, write_out
from tcopt.schedules.rules.nests import variable_loops
from tcopt.schedules.rules.operands import operands_of
from tcopt.schedules.rules.rule import Declined, schedule_rule
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
from tcopt.schedules.state.state import buffers_read
from tcopt.support.arithmetic.columns import ceil_div, least, where
from tcopt.support.machines.thread_blocks import LaunchWork, ThreadBlocks
from tcopt.support.remarks import remark

MOST_ROWS = 8
"""Maximum number of rows of a tile."""

MOST_PRODUCTS = 512
"""Maximum number of multiply-adds that are unrolled in a thread."""


@schedule_rule(target="gpu", priority=90)
class WindowTiles:
    """Rule for sums over overlapping windows that cannot be tiled like a matrix product."""

    name = "gpu-window-tile"
    provides = (CONTRACTION,)

    def space(self, sch: Schedule, facts: ThreadBlocks) -> WindowSpace | Declined:
        if not facts.in_lockstep:
            return Declined("threads are loops, whose vectors read neighbours", quiet=True)
        pattern = only_contraction(sch)
        if isinstance(pattern, Declined):
            return Declined(pattern.reason, quiet=True)
        if dot_of(pattern, facts.capabilities) is not None:
            return Declined("products are those of groups of bytes", quiet=True)
        window = find_window(pattern)
        return window if isinstance(window, Declined) else WindowSpace(pattern, window, facts)

    def apply(
        self, sch: Schedule, facts: ThreadBlocks, space: WindowSpace, choice: Choice
    ) -> Declined | None:
        for each in schedule_window(sch, space, choice["rows"], choice["lanes"], facts):
            schedule_injective(sch, each, facts)
        return None


@dataclass(frozen=True)
class TileWindow:
    """Operand that is read in overlapping windows.

    Attributes:
        data: the operand.
        columns: the variable that is contiguous in the output.
        rows: a variable other than `columns` along which windows overlap; None if there is none.
        taps: reduction variables that index the elements of a window, outermost first.
        is_across: whether windows of adjacent columns overlap, so that a thread cannot load
            vectors of columns.
    """

    data: StridedAccess
    columns: int
    rows: int | None
    taps: tuple[int, ...]
    is_across: bool


def find_window(pattern: BlockPattern) -> TileWindow | Declined:
    """Return the operand with overlapping windows, or the reason why the rule does not apply."""
    columns = columns_of(pattern)
    if columns is None:
        return Declined("no variable is contiguous in the output", quiet=True)
    if rows_of(pattern, columns) is not None:
        return Declined("an operand serves several rows", quiet=True)
    for data in pattern.terms:
        if any(data.steps[v] is None for v in pattern.variables):
            continue
        pairs = [
            (v, tap)
            for v in pattern.spatial
            for tap in pattern.reduce
            if pattern.extents[v] > 1 and pattern.extents[tap] > 1 and _overlap(data, v, tap)
        ]
        if pairs:
            rows = [v for v, _ in pairs if v != columns]
            taps = tuple(tap for tap in pattern.reduce if any(tap == each for _, each in pairs))
            across = any(v == columns for v, _ in pairs)
            return TileWindow(data, columns, max(rows, default=None), taps, across)
    return Declined("results share no elements of a window", quiet=True)


def _overlap(data: StridedAccess, spatial: int, tap: int) -> bool:
    """Whether two variables index the same dimension of the data."""
    pair = zip(data.steps[spatial] or (), data.steps[tap] or (), strict=False)
    return any(a and b for a, b in pair)


class WindowSpace(Space):
    """Search space for the tile of a thread: rows of overlapping windows, and lanes of a vector."""

    def __init__(self, pattern: BlockPattern, window: TileWindow, facts: ThreadBlocks):
        self.pattern, self.window, self.facts = pattern, window, facts
        lanes = facts.lanes(element_bits(pattern.block), pattern.extents[window.columns])
        if not all(t.is_unit(window.columns) for t in pattern.terms if t.uses(window.columns)):
            lanes = 1
        highest = 1 if window.rows is None else min(pattern.extents[window.rows], MOST_ROWS)
        knobs = [
            Knob("rows", tuple(range(1, highest + 1))),
            Knob("lanes", tuple(sorted({1, lanes}))),
        ]
        super().__init__(knobs)

    def loaded(self, rows: Column, lanes: Column, inner: Sequence[int]) -> Column:
        """Return the number of elements of the data that a thread holds in registers.

        Args:
            inner: reduction variables inside the loaded window.
        """
        sizes: dict[int | None, Column] = {v: self.pattern.extents[v] for v in inner}
        sizes |= {self.window.rows: rows, self.window.columns: lanes}
        total: Column = 1
        for dim in range(len(self.window.data.steps[self.window.columns] or ())):
            reach: Column = 1
            for v, size in sizes.items():
                steps = None if v is None else self.window.data.steps[v]
                if steps and steps[dim]:
                    reach = reach + abs(steps[dim]) * (size - 1)
            total = total * reach
        return total

    def inner(self, rows: int, lanes: int) -> tuple[int, ...]:
        """Return the innermost taps, as many as fit in a thread's registers."""
        taps = self.window.taps
        while taps and not self._fits(rows, lanes, taps):
            taps = taps[1:]
        return taps

    def _fits(self, rows: Column, lanes: Column, inner: Sequence[int]) -> Column:
        products = prod(self.pattern.extents[v] for v in inner) * rows * lanes
        held = self.loaded(rows, lanes, inner) + rows * lanes
        return (held <= self.facts.accumulators) & (products <= MOST_PRODUCTS)

    def _loads(self, rows: Column, lanes: Column) -> Column:
        """Return the number of elements that a thread loads: its window in each outer iteration."""
        taps = self.window.taps
        around = prod(self.pattern.extents[v] for v in self.pattern.reduce if v not in taps)
        total: Column = 0
        for first in reversed(range(len(taps) + 1)):
            steps = around * prod(self.pattern.extents[v] for v in taps[:first])
            own = steps * self.loaded(rows, lanes, taps[first:])
            total = where(self._fits(rows, lanes, taps[first:]), own, total)
        return total

    def valid(self, k: Point) -> Column:
        last = self.window.taps[-1:]
        return self._fits(k.rows, k.lanes, last) | (k.rows * k.lanes == 1)

    def estimate(self, k: Point) -> Column:
        """Estimate the cycles of the launch."""
        pattern, window = self.pattern, self.window
        sizes = {window.rows: k.rows, window.columns: k.lanes}
        threads: Column = 1
        for v in pattern.spatial:
            threads = threads * ceil_div(pattern.extents[v], sizes.get(v, 1))
        terms = prod(pattern.extents[v] for v in pattern.reduce)
        # A vector is a single load. Overlapping columns are loaded element by element, and the
        # threads of a warp access memory with a stride of `lanes`.
        loads = self._loads(k.rows, k.lanes)
        loads = loads * k.lanes if window.is_across else loads / k.lanes
        uneven: Column = 1.0
        if window.rows is not None:
            uneven = where(pattern.extents[window.rows] % k.rows == 0, 1.0, UNEVEN)
        work = LaunchWork(
            blocks=ceil_div(threads, self.facts.usual_threads),
            threads=least(threads, self.facts.usual_threads),
            operations=uneven * terms * k.rows * k.lanes,
            loads=uneven * (loads + terms),
        )
        return self.facts.launch(work).total

    def nest(self, k: Point) -> Sequence[LoopLevel]:
        pattern, window = self.pattern, self.window
        sizes = {window.rows: k.rows, window.columns: k.lanes}
        levels = [
            LoopLevel(v, ceil_div(pattern.extents[v], sizes.get(v, 1)), NestKind.THREAD)
            for v in pattern.spatial
        ]
        levels += [LoopLevel(v, pattern.extents[v], NestKind.UNROLLED) for v in pattern.reduce]
        if window.rows is not None:
            levels.append(LoopLevel(window.rows, k.rows, NestKind.UNROLLED))
        return [*levels, LoopLevel(window.columns, k.lanes, NestKind.VECTOR)]

    def operands(self) -> Sequence[Operand]:
        return operands_of(self.pattern)


def schedule_window(
    sch: Schedule, space: WindowSpace, rows: int, lanes: int, facts: ThreadBlocks
) -> list[Block]:
    """Tile the sum, and load the window of each tile into registers.

    Returns:
        The remaining blocks, which need separate launches.
    """
    pattern, window = space.pattern, space.window
    block = sch.get_block(pattern.block.block_name.data)
    text = f"windows of {rows} rows x {lanes} columns a thread, in registers"
    remark("schedule", sch.block_op(block), text)
    epilogue = take_epilogue(sch, block)
    left = blocks_beside(sch, block, epilogue)
    loops = variable_loops(sch, block)
    tile: list[Loop] = []
    for variable, size in ((window.rows, rows), (window.columns, lanes)):
        if variable is not None and size > 1:
            loops[variable], part = sch.split(loops[variable], factors=[None, size])
            tile.append(part)
    inner = space.inner(rows, lanes)
    outer = [loops[v] for v in pattern.reduce if v in loops and v not in inner]
    unrolled = [loops[v] for v in inner if v in loops]
    spatial = [loops[v] for v in pattern.spatial if v in loops]
    sch.reorder(*spatial, *outer, *unrolled, *tile)
    thread = spread(sch, spatial, facts)
    made = next((each for each in left if makes_operand(sch, each, window.data, block)), None)
    if made is None:
        number = buffers_read(sch.block_op(block)).index(window.data.buffer)
        made = sch.cache_read(block, number, "register")
    else:
        left.remove(made)
        sch.set_scope(made, "register")
    around = outer[-1] if outer else thread
    sch.compute_at(made, around)
    own = sch.get_loops(made)
    own = own[own.index(around) + 1 :]
    if own:
        write_out(sch, own, 1 if window.is_across else lanes)
    for each in unrolled:
        sch.unroll(each)
    if outer:
        init = sch.decompose_reduction(block, outer[0])
        write_out_tile(sch, init, thread, lanes)
    sch.set_scope(block, "register")
    if tile:
        write_out(sch, tile, lanes)
    finish(sch, epilogue, thread, lanes)
    return left
