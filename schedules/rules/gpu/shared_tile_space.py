"""Space of `gpu-shared-tile`: tiles of threads and blocks, parts of sums, and unrolling."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tcopt.schedules.analysis.patterns import BlockPattern
from tcopt.schedules.rules.gpu.register_tile import WRITTEN_CHOICES, WRITTEN_OUT
from tcopt.schedules.rules.gpu.shared_tile_choice import (
    STEPS,
    SharedTile,
    SharedTileRoles,
    TileCosts,
)
from tcopt.schedules.rules.gpu.split_sum import beside_time
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
from tcopt.support.arithmetic.columns import ceil_div, is_column
from tcopt.support.machines.thread_blocks import ThreadBlocks

_Ask = Callable[[TileCosts, SharedTile], Column]


class SharedTileSpace(Space):
    """Tiles of a contraction with operands in shared memory.

    Args:
        tile: the tile with the lowest estimated time.
        parts: parts of each sum with the lowest estimated time.
        counts: candidate numbers of parts.
    """

    def __init__(
        self,
        pattern: BlockPattern,
        roles: SharedTileRoles,
        facts: ThreadBlocks,
        tile: SharedTile,
        parts: int,
        counts: Sequence[int],
    ):
        self.pattern, self.roles, self.facts = pattern, roles, facts
        self._first, self._parts = tile, parts
        self._costs: dict[int, TileCosts] = {}
        super().__init__(self._make_knobs(sorted({1, parts, *counts})))

    def _make_knobs(self, counts: Sequence[int]) -> list[Knob]:
        extents, roles, first = self.pattern.extents, self.roles, self._first
        group = roles.dot.group if roles.dot is not None else 1
        spans = 1 if roles.spans is None else extents[roles.spans]

        def some(name: str, values: Sequence[int], most: int) -> Knob:
            fitting = {n for n in values if n <= most}
            return Knob(name, tuple(sorted({*fitting, getattr(first, name)})))

        height, width = extents[roles.rows], extents[roles.columns]
        lanes = first.lanes if roles.lane is None else 1
        return [
            some("rows", (1, 2, 4, 8), height),
            some("spans", (1, 2, 4, 7), spans),
            some("columns", (lanes, 2 * lanes, 4 * lanes), width),
            some("down", (1, 2, 4, 8, 16, 32), height),
            some("across", (1, 2, 4, 7, 8, 14, 16, 28, 32), width),
            some("steps", [group * n for n in STEPS], extents[roles.depth]),
            Knob("parts", tuple(counts)),
            Knob("written", WRITTEN_CHOICES),
        ]

    @property
    def leading(self) -> tuple[str, ...]:
        return tuple(knob.name for knob in self.knobs if knob.name != "written")

    def tile(self, k: Point) -> SharedTile:
        """Return the tile of a choice."""
        first = self._first
        return SharedTile(
            k.rows, k.spans, k.columns, first.lanes, k.down, k.across, k.steps, first.results
        )

    def valid(self, k: Point) -> Column:
        tile, extents, roles = self.tile(k), self.pattern.extents, self.roles
        threads = tile.threads <= self.facts.usual_threads
        sums = tile.sums <= self.facts.accumulators
        rows = k.rows * k.down < 2 * extents[roles.rows]
        columns = (k.columns * k.across < 2 * extents[roles.columns]) | (k.across == 1)
        spans = k.spans <= (1 if roles.spans is None else extents[roles.spans])
        depth = k.steps <= ceil_div(extents[roles.depth], k.parts)
        fits = self._by_parts(k, TileCosts.shared_bytes) <= self.facts.shared
        dot = roles.dot
        if dot is not None and dot.variable == roles.depth:
            depth = depth & (k.steps % dot.group == 0)
        return threads & sums & rows & columns & spans & depth & fits

    def estimate(self, k: Point) -> Column:
        """Estimate the cycles of all launches."""
        return self._by_parts(k, self._time)

    def default(self) -> dict[str, int]:
        tile = self._first
        return {
            "rows": tile.rows,
            "spans": tile.spans,
            "columns": tile.columns,
            "down": tile.down,
            "across": tile.across,
            "steps": tile.steps,
            "parts": self._parts,
            "written": WRITTEN_OUT,
        }

    def complete(self, leading: Choice) -> dict[str, int]:
        return dict(leading) | {"written": WRITTEN_OUT}

    def nest(self, k: Point) -> Sequence[LoopLevel]:
        roles, pattern, tile = self.roles, self.pattern, self.tile(k)
        extents = pattern.extents
        placed = (roles.rows, roles.columns, roles.spans, roles.lane)
        block, thread, unrolled = NestKind.BLOCK, NestKind.THREAD, NestKind.UNROLLED
        levels = [LoopLevel(v, extents[v], block) for v in pattern.spatial if v not in placed]
        down, across = k.rows * k.down, k.columns * k.across
        levels.append(LoopLevel(roles.depth, k.parts, block))
        levels.append(LoopLevel(roles.rows, ceil_div(extents[roles.rows], down), block))
        if roles.spans is not None:
            levels.append(LoopLevel(roles.spans, ceil_div(extents[roles.spans], k.spans), block))
        levels.append(LoopLevel(roles.columns, ceil_div(extents[roles.columns], across), block))
        levels.append(LoopLevel(roles.rows, k.down, thread))
        levels.append(LoopLevel(roles.columns, k.across, thread))
        rounds = ceil_div(ceil_div(extents[roles.depth], k.parts), k.steps)
        levels.append(LoopLevel(roles.depth, rounds))
        levels.append(LoopLevel(roles.depth, k.steps))
        levels += [LoopLevel(v, extents[v]) for v in pattern.reduce if v != roles.depth]
        levels.append(LoopLevel(roles.rows, k.rows, unrolled))
        if roles.spans is not None:
            levels.append(LoopLevel(roles.spans, k.spans, unrolled))
        levels.append(LoopLevel(roles.columns, k.columns // tile.lanes, unrolled))
        last = roles.columns if roles.lane is None else roles.lane
        lanes = tile.lanes if roles.lane is None else tile.results
        return [*levels, LoopLevel(last, lanes, NestKind.VECTOR)]

    def operands(self) -> Sequence[Operand]:
        return operands_of(self.pattern)

    def _by_parts(self, k: Point, ask: _Ask) -> Column:
        """Evaluate the cost model for each number of parts, on the choices with this number."""
        if not is_column(k.parts):
            return ask(self._costs_of(int(k.parts)), self.tile(k))
        found = np.zeros(len(k.parts))
        names = ("rows", "spans", "columns", "down", "across", "steps")
        for parts in np.unique(np.asarray(k.parts, np.int64)).tolist():
            own = k.parts == parts
            some = Point({name: getattr(k, name)[own] for name in names})
            found[own] = ask(self._costs_of(parts), self.tile(some))
        return found

    def _time(self, costs: TileCosts, tile: SharedTile) -> Column:
        return costs.time(tile) + beside_time(self.pattern, costs.parts, self.facts)

    def _costs_of(self, parts: int) -> TileCosts:
        if parts not in self._costs:
            self._costs[parts] = TileCosts(self.pattern, self.roles, self.facts, parts)
        return self._costs[parts]
