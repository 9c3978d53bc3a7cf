"""Space of `cpu-contraction`: register tiles, loop order, unrolling, and threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import Any

import numpy as np

from tcopt.schedules.analysis.dots import Dot
from tcopt.schedules.analysis.patterns import (
    BlockPattern,
    StridedAccess,
    access_bytes,
    buffer_bits,
    element_bits,
    stored_bits,
)
from tcopt.schedules.api.handles import Block
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.cpu.deep_reduction import (
    divide,
    in_parts,
    part_counts,
    plan_parts,
)
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.cpu.granularity import blocks_cycles, has_enough_tasks, parallel_loops
from tcopt.schedules.rules.cpu.written_taps import WrittenTaps, written_taps
from tcopt.schedules.rules.epilogue import pointwise_consumer, stores_apart
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
from tcopt.support.machines.alignment import ALIGNMENT
from tcopt.support.machines.register_tiles import (
    MAX_ROWS,
    MAX_SPANS,
    MAX_VECTORS,
    Tile,
    TileProblem,
    estimate,
    fits,
)

UNROLLED_PRODUCTS = 108
"""Maximum multiply-adds for which the innermost reduce loops are unrolled. Larger tiles gain
little, and with 32 registers LLVM groups loads of several steps, which spills."""

SQUARE_BITS = 128
"""Width of the parts of vectors that are transposed if each lane stores to a different row."""

MOST_PRODUCTS = 1024
"""Maximum multiply-adds of unrolled code in a schedule search: limits the size of a kernel's
code."""

STEPS = (1, 2, 4, 8)
"""Candidate numbers of iterations to unroll of the innermost loop that is not unrolled
completely."""

COLUMNS_OUTSIDE, ROWS_OUTSIDE = 0, 1
"""Which of the loops between tiles is outside of the other."""

AS_ORDERED, WHOLE_FIRST, LONGEST_FIRST = 0, 1, 2
"""Which loops come outermost: as `order` says, those whose tiles all have the same size, or the
longest loop whose last tile is smaller."""


@dataclass(frozen=True)
class TileRoles:
    """Roles of the iteration variables, by position.

    Attributes:
        columns: the variable along which vectors run.
        more_columns: a second variable to take vectors from, if `columns` fills only one.
        rows: each loaded vector is used for all rows.
        spans: a second variable for rows, outside of the first.
    """

    columns: int
    more_columns: int | None
    rows: int | None = None
    spans: int | None = None


def vector_lanes(pattern: BlockPattern, facts: CpuFacts, dot: Dot | None) -> int:
    """Return the elements of a vector: those of a register, or as many as an intrinsic needs."""
    if dot is not None and dot.lanes is not None:
        return dot.lanes
    return facts.lanes(element_bits(pattern.block))


class TileSpace(Space):
    """Tiles of a reduction with rows and columns, and the loops around them."""

    def __init__(
        self,
        sch: Schedule,
        pattern: BlockPattern,
        roles: TileRoles,
        facts: CpuFacts,
        dot: Dot | None = None,
    ):
        self.pattern, self.roles, self.facts, self.dot = pattern, roles, facts, dot
        self.lanes = vector_lanes(pattern, facts, dot)
        block = sch.get_block(pattern.block.block_name.data)
        self.taps = None if roles.rows is None else written_taps(pattern, roles.rows)
        problem = _problem(pattern, roles, facts, self.taps, dot)
        epilogue = pointwise_consumer(sch, block)
        square = 0
        if epilogue is not None and stores_apart(sch, epilogue):
            square = max(1, SQUARE_BITS // stored_bits(sch.block_op(epilogue)))
        self._reduce = self._reduce_loops(sch, block)
        shared = any(self._slides(variable) for variable, _ in self._reduce)
        self.problem = replace(
            problem,
            square=square,
            written_out=0 if shared or not problem.broadcasts else UNROLLED_PRODUCTS,
            slides=any(_moves_on(t, roles.rows, v) for t in pattern.terms for v in pattern.reduce),
        )
        # If each lane stores to a different row, a few rows are finished before the next ones.
        self.rows_last = self.taps is not None or square > 0
        work = 2 * pattern.work
        if dot is not None and dot.weights is None:
            work = dot.operations * pattern.work // dot.group
        self.time = blocks_cycles([pattern.block], work, facts)
        moving = set(loop_variables(sch, block))
        done = {roles.columns} if self._takes_all_columns else set[int]()
        self._moving = [v for v in pattern.spatial if v in moving and v not in done]
        extents = pattern.extents
        rows = prod(extents[v] for v in self.row_variables)
        first = self._reduce[0][1] if self._reduce else 1
        self._part_counts = part_counts(self.problem, first, rows, facts)
        self._plan, self._parts = plan_parts(self.problem, self._part_counts, facts)
        super().__init__(self._make_knobs())

    def _make_knobs(self) -> list[Knob]:
        problem, tile = self.problem, self._plan.tile
        count = ceil(problem.columns / self.lanes)
        wide = {v for v in range(1, min(MAX_VECTORS, count) + 1)} | {tile.vectors}
        high = {r for r in range(1, min(MAX_ROWS, problem.rows) + 1)} | {tile.rows}
        apart = {s for s in range(1, min(MAX_SPANS, problem.spans) + 1)} | {tile.spans}
        between = len(self._orders[0]) - (self.taps is not None)
        return [
            Knob("vectors", tuple(sorted(wide))),
            Knob("rows", tuple(sorted(high))),
            Knob("spans", tuple(sorted(apart))),
            Knob("order", (COLUMNS_OUTSIDE, ROWS_OUTSIDE), ("columns outside", "rows outside")),
            Knob(
                "outermost",
                (AS_ORDERED, WHOLE_FIRST, LONGEST_FIRST),
                ("as ordered", "whole first", "longest first"),
            ),
            Knob("parallel", tuple(range(between + 1))),
            Knob("unroll", tuple(range(len(self._reduce) + 1))),
            Knob("steps", STEPS),
            Knob("parts", tuple(self._part_counts)),
        ]

    @property
    def column_loops(self) -> int:
        """Number of innermost loops of a tile that move its columns."""
        return 1 + (self.roles.more_columns is not None or not self._takes_all_columns)

    @property
    def column_variable(self) -> int:
        """Variable of the loop over tiles of columns."""
        roles = self.roles
        return roles.columns if roles.more_columns is None else roles.more_columns

    @property
    def row_variables(self) -> list[int]:
        """Variables along which the same vectors are reused."""
        own = self.roles.columns
        vectors = [t for t in self.pattern.terms if t.uses(own)]
        scalars = [t for t in self.pattern.terms if not t.uses(own)]
        return [
            v
            for v in self._moving
            if any(t.uses(v) for t in scalars) and not any(t.uses(v) for t in vectors)
        ]

    def tiles_along(self, variable: int, k: Point) -> Column:
        """Return the trip count of the loop between tiles that moves a variable."""
        return self._loop(variable, k)[0]

    @property
    def leading(self) -> tuple[str, ...]:
        return ("vectors", "rows", "spans", "order")

    @property
    def untold(self) -> tuple[str, ...]:
        return ()

    def valid(self, k: Point) -> Column:
        tile = self._tile(k)
        operations = self.problem.operations
        limit = max(MOST_PRODUCTS, self._plan.tile.accumulators * operations)
        products: Column = tile.accumulators * k.steps * operations
        extents: list[Column] = [extent for _, extent in self._reduce]
        extents[:1] = [extent // k.parts for extent in extents[:1]]
        split: Column = k.steps == 1
        for number, extent in enumerate(reversed(extents), start=1):
            products = products * where(k.unroll >= number, extent, 1)
            split = split | ((k.unroll == number - 1) & (extent % k.steps == 0))
        short = (products <= limit) | ((k.unroll == 0) & (k.steps == 1))
        whole = (k.spans == 1) | (k.rows == self.problem.rows)
        in_order = (k.order == COLUMNS_OUTSIDE) & (k.outermost == AS_ORDERED)
        whole = whole & ((k.parts == 1) | in_order)
        return fits(self.problem, tile, self.facts) & short & split & whole

    def estimate(self, k: Point) -> Column:
        """Estimate the cycles of the whole problem, see `register_tiles.py`."""
        outside = k.order == COLUMNS_OUTSIDE
        return estimate(in_parts(self.problem, k.parts), self._tile(k), outside, self.facts)

    def default(self) -> dict[str, int]:
        """Return the tile chosen by `plan_tile`, completed."""
        tile = self._plan.tile
        order = COLUMNS_OUTSIDE if self._plan.columns_outside else ROWS_OUTSIDE
        sizes = {"vectors": tile.vectors, "rows": tile.rows, "spans": tile.spans}
        return self.complete(sizes | {"order": order})

    def complete(self, leading: Choice) -> dict[str, int]:
        choice = dict(leading)
        k = Point(choice)
        if self._parts > 1 and choice["order"] == COLUMNS_OUTSIDE:
            return self._complete_in_parts(choice)
        loops = [(v, *self._loop(v, k)) for v in self._orders[choice["order"]]]
        if self.taps is not None:
            loops.pop()
        tails = [tail for _, _, tail in loops]
        count = tails.index(True) if True in tails else len(loops)
        extents = [extent for _, extent, _ in loops]
        arranged = AS_ORDERED
        if count < len(loops) and not has_enough_tasks(extents[:count], self.time, self.facts):
            whole = [extent for extent, tail in zip(extents, tails, strict=True) if not tail]
            longest = max(extent for extent, tail in zip(extents, tails, strict=True) if tail)
            arranged = WHOLE_FIRST
            if longest > prod(whole):
                arranged, whole = LONGEST_FIRST, [longest]
            extents, count = whole, len(whole)
        parallel = parallel_loops(extents[:count], self.time, self.facts)
        unroll = self._written_out(self._tile(k).accumulators)
        chosen = {"outermost": arranged, "parallel": parallel, "unroll": unroll}
        return choice | chosen | {"steps": 1, "parts": 1}

    def _complete_in_parts(self, leading: Choice) -> dict[str, int]:
        """Complete the choice for a tile whose reduction is divided into parts."""
        k = Point(dict(leading))
        chosen = {"outermost": AS_ORDERED, "steps": 1, "parts": self._parts}
        choice = dict(leading) | chosen | {"unroll": self._written_out(self._tile(k).accumulators)}
        division = divide(self, choice)
        extents = {v: ceil_div(self.tiles_along(v, k), n) for v, n in division.chunks.items()}
        outer = [extents.get(v) or self.tiles_along(v, k) for v in division.outer_variables]
        parallel = parallel_loops(map(int, outer), self.time, self.facts)
        return choice | {"parallel": parallel}

    def _written_out(self, accumulators: int) -> int:
        """Return the number of innermost reduce loops to unroll within the limit on code size.

        Loops along which rows slide are not unrolled: a step would reuse what earlier ones have
        broadcast, which would be kept although accumulators fill the registers.
        """
        products, count = accumulators * self.problem.operations, 0
        for variable, extent in reversed(self._reduce):
            products *= extent
            if products > UNROLLED_PRODUCTS or self._slides(variable):
                break
            count += 1
        return count

    def order(self, choice: Choice) -> list[int]:
        """Return the variables of the loops between tiles, outermost first."""
        k = Point(dict(choice))
        loops = [(v, *self._loop(v, k)) for v in self._orders[choice["order"]]]
        last = [loops.pop()] if self.taps is not None else []
        if choice["outermost"] == WHOLE_FIRST:
            loops.sort(key=lambda each: each[2])
        elif choice["outermost"] == LONGEST_FIRST and any(tail for *_, tail in loops):
            longest = max((each for each in loops if each[2]), key=lambda each: each[1])
            loops.sort(key=lambda each: each is not longest)
        return [variable for variable, *_ in (*loops, *last)]

    def nest(self, k: Point) -> Sequence[LoopLevel]:
        levels = self._between(k)
        written = self.taps.variables if self.taps is not None else ()
        levels += [LoopLevel(v, self.pattern.extents[v], NestKind.UNROLLED) for v in written]
        count = len(self._reduce)
        if count:
            levels.append(LoopLevel(self._reduce[0][0], k.parts))
        for number, (variable, whole) in enumerate(self._reduce):
            inside, extent = count - number, ceil_div(whole, 1 if number else k.parts)
            kind = where(k.unroll >= inside, int(NestKind.UNROLLED), int(NestKind.SERIAL))
            rounds = where(k.unroll == inside - 1, ceil_div(extent, k.steps), extent)
            levels.append(LoopLevel(variable, rounds, kind))
        for number, (variable, _) in enumerate(self._reduce):
            split = where(k.unroll == count - number - 1, k.steps, 1)
            levels.append(LoopLevel(variable, split, NestKind.UNROLLED))
        roles, unrolled = self.roles, NestKind.UNROLLED
        if roles.spans is not None:
            levels.append(LoopLevel(roles.spans, k.spans, unrolled))
        if roles.rows is not None:
            levels.append(LoopLevel(roles.rows, k.rows, unrolled))
        along = roles.columns if roles.more_columns is None else roles.more_columns
        levels.append(LoopLevel(along, k.vectors, unrolled))
        if self.dot is not None:
            levels.append(LoopLevel(self.dot.variable, self.dot.group, unrolled))
        lanes = min(self.lanes, self.pattern.extents[roles.columns])
        return [*levels, LoopLevel(roles.columns, lanes, NestKind.VECTOR)]

    def operands(self) -> Sequence[Operand]:
        return operands_of(self.pattern)

    def _between(self, k: Point) -> list[LoopLevel]:
        """Return the loops between tiles, whose order depends on the choice."""
        numbers = not isinstance(k.rows, np.ndarray)
        columns = {name: np.atleast_1d(np.asarray(value)) for name, value in k.__dict__.items()}
        at = Point(columns)
        places, count = np.array(self._orders), len(columns["rows"])
        if not places.size:
            return []
        variables = places[columns["order"]]
        extents, tails = np.ones_like(variables), np.zeros(variables.shape, dtype=bool)
        for v in self._moving:
            extent, tail = self._loop(v, at)
            own = variables == v
            extents = np.where(own, np.broadcast_to(extent, (count,))[:, None], extents)
            tails = np.where(own, np.broadcast_to(tail, (count,))[:, None], tails)
        free = variables.shape[1] - (self.taps is not None)
        first = np.tile(np.arange(variables.shape[1], dtype=np.int64), (count, 1))
        late = variables.shape[1] * (tails & (columns["outermost"] == WHOLE_FIRST)[:, None])
        late[:, free:] = variables.shape[1]
        clipped = np.where(tails, extents, 0)[:, :free]
        if free:
            longest = np.argmax(clipped, axis=1)
            moved = (columns["outermost"] == LONGEST_FIRST) & clipped.any(axis=1)
            first[np.arange(count), longest] -= np.where(moved, variables.shape[1], 0)
        ranks = np.argsort(first + late, axis=1, kind="stable")
        variables = np.take_along_axis(variables, ranks, axis=1)
        extents = np.take_along_axis(extents, ranks, axis=1)
        levels: list[LoopLevel] = []
        for n in range(variables.shape[1]):
            kind = parallel_where(columns["parallel"] > n)
            level: list[Any] = [variables[:, n], extents[:, n], kind]
            levels.append(LoopLevel(*([int(each[0]) for each in level] if numbers else level)))
        return levels

    def _tile(self, k: Point) -> Tile:
        return Tile(k.rows, k.vectors, self.lanes, k.spans)

    @property
    def _takes_all_columns(self) -> bool:
        """Whether a single vector covers all columns."""
        extent = self.pattern.extents[self.roles.columns]
        return self.roles.more_columns is not None or extent <= self.lanes

    def _loop(self, variable: int, k: Point) -> tuple[Column, Column]:
        """Return the trip count of a loop between tiles, and whether its last tile is smaller."""
        roles, extent = self.roles, self.pattern.extents[variable]
        size: Column = 1
        if variable == roles.rows:
            size = k.rows
        elif variable == roles.spans:
            size = k.spans
        elif variable == roles.more_columns:
            size = k.vectors
        elif variable == roles.columns:
            size = k.vectors * self.lanes
        # A single tile has no smaller last tile.
        return ceil_div(extent, size), (extent % size != 0) & (extent > size)

    @property
    def _orders(self) -> list[list[int]]:
        """Spatial variables in the order of the loops between tiles, by the value of `order`.

        Variables on which both factors depend come first: nothing is reused along them.
        """
        scalars = [t for t in self.pattern.terms if not t.uses(self.roles.columns)]
        vectors = [t for t in self.pattern.terms if t.uses(self.roles.columns)]
        orders: list[list[int]] = []
        for columns_outside in (True, False):

            def place(variable: int, outside: bool = columns_outside) -> int:
                in_scalars = any(t.uses(variable) for t in scalars)
                in_vectors = any(t.uses(variable) for t in vectors)
                if in_scalars == in_vectors:
                    return 0
                return 1 if in_vectors == outside else 2

            order = sorted(self._moving, key=place)
            if self.rows_last and self.roles.rows in order:
                order.remove(self.roles.rows)
                order.append(self.roles.rows)
            orders.append(order)
        return orders

    def _reduce_loops(self, sch: Schedule, block: Block) -> list[tuple[int, int]]:
        """Return variable and trip count of the reduce loops that may be unrolled or not."""
        written = self.taps.variables if self.taps is not None else ()
        found: list[tuple[int, int]] = []
        for variable in loop_variables(sch, block):
            if variable in self.pattern.reduce and variable not in written:
                extent = self.pattern.extents[variable]
                if self.dot is not None and variable == self.dot.variable:
                    extent = ceil(extent / self.dot.group)
                found.append((variable, extent))
        return found

    def _slides(self, variable: int) -> bool:
        """Whether a row broadcasts elements along a reduce variable that the next rows reuse."""
        roles, pattern = self.roles, self.pattern
        if roles.rows is None:
            return False
        for term in pattern.terms:
            rows, steps = term.steps[roles.rows], term.steps[variable]
            if term.uses(roles.columns) or rows is None or steps is None:
                continue
            for row, step in zip(rows, steps, strict=True):
                if row and step and row % step == 0 and row // step < pattern.extents[variable]:
                    return True
        return False


def _moves_on(term: StridedAccess, rows: int | None, variable: int) -> bool:
    """Whether a step along a variable reads the elements that the next row has read."""
    if rows is None or not term.uses(rows):
        return False
    return term.steps[rows] is not None and term.steps[rows] == term.steps[variable]


def _problem(
    pattern: BlockPattern,
    roles: TileRoles,
    facts: CpuFacts,
    taps: WrittenTaps | None,
    dot: Dot | None,
) -> TileProblem:
    """Return the problem for which the tile is chosen."""
    extents, lanes = pattern.extents, vector_lanes(pattern, facts, dot)
    scalars = [t for t in pattern.terms if not t.uses(roles.columns)]
    vectors = [t for t in pattern.terms if t.uses(roles.columns)]
    columns = extents[roles.columns]
    if roles.more_columns is not None:
        columns = lanes * extents[roles.more_columns]
    placed = (roles.columns, roles.more_columns, roles.rows, roles.spans)
    problem = TileProblem(
        rows=1 if roles.rows is None else extents[roles.rows],
        spans=1 if roles.spans is None else extents[roles.spans],
        columns=columns,
        lanes=lanes,
        element_bytes=max(map(access_bytes, vectors), default=access_bytes(pattern.store)),
        steps=prod(extents[v] for v in pattern.reduce),
        repeats=prod(extents[v] for v in pattern.spatial if v not in placed),
        scalar_bytes=sum(_read_bytes(term, pattern) for term in scalars),
        vector_bytes=_bytes(vectors),
        seen=() if taps is None else taps.seen,
    )
    if dot is None:
        return problem
    registers = ceil(lanes / facts.lanes(element_bits(pattern.block)))
    if dot.weights is None:
        # A step reads one element of each plane, and of each table.
        problem = replace(problem, element_bytes=sum(map(access_bytes, vectors)))
    return replace(
        problem,
        steps=problem.steps // dot.group,
        operations=dot.operations,
        registers=registers,
        is_dot=True,
    )


def _read_bytes(term: StridedAccess, pattern: BlockPattern) -> int:
    """Return the bytes of the cache lines that are read of an operand.

    Windows with a stride may skip lines.
    """
    extents = pattern.extents
    used = [v for v in pattern.variables if term.uses(v)]
    run = max((extents[v] for v in used if term.is_unit(v)), default=1)
    runs = prod(extents[v] for v in used) // run
    line = max(ceil(run * access_bytes(term)), ALIGNMENT)
    return min(buffer_bits(term.buffer) // 8, runs * line)


def _bytes(terms: list[StridedAccess]) -> int:
    return sum(buffer_bits(t.buffer) // 8 for t in terms)
