"""Space of `cpu-winograd`: chunks of tiles, register tiles, transforms, and threads."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tcopt.schedules.analysis.dots import Dot, dot_of
from tcopt.schedules.analysis.patterns import match_block, stored_bits
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.cpu.granularity import (
    LEAST_TASKS_PER_CORE,
    blocks_cycles,
    parallel_loops,
)
from tcopt.schedules.rules.cpu.tile_space import MOST_PRODUCTS, STEPS, UNROLLED_PRODUCTS
from tcopt.schedules.rules.cpu.winograd_plan import (
    Problem,
    WinogradPlan,
    choose_plan,
    contraction_of,
    cycles,
    divisors,
)
from tcopt.schedules.rules.operands import operands_of
from tcopt.schedules.rules.winograd_stages import Stages
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
from tcopt.support.machines.register_tiles import MAX_ROWS, MAX_VECTORS, Tile, fits

TRANSFORM_WORK = 6
"""Approximate scalar operations per element of a transformed tile."""

MOST_CHANNELS = 2
"""Number of loops over input channels: over blocks, and within a block."""


class WinogradSpace(Space):
    """Chunks and tiles of a Winograd convolution."""

    def __init__(self, sch: Schedule, stages: Stages, facts: CpuFacts):
        self.stages, self.facts = stages, facts
        found = match_block(sch.block_op(stages.products))
        assert found is not None
        self.dot = dot_of(found, facts.capabilities)
        self.problem = problem = problem_of(sch, stages, self.dot)
        work = 2 * problem.places * problem.images * problem.rows * problem.columns
        work *= problem.inputs * problem.outputs * problem.lanes**2
        self.time = blocks_cycles([sch.block_op(stages.last)], work, facts)
        data = sch.block_op(stages.data)
        images = problem.images * problem.inputs
        transformed = problem.places * problem.lanes * images * problem.rows * problem.columns
        self.data_time = blocks_cycles([data], TRANSFORM_WORK * transformed, facts)
        self._tiles = problem.images * problem.rows * problem.columns
        self._pattern = found
        self._plan = choose_plan(problem, facts)
        super().__init__(self._make_knobs())

    def _make_knobs(self) -> list[Knob]:
        problem, plan = self.problem, self._plan
        wide = [v for v in range(1, MAX_VECTORS + 1) if problem.outputs % v == 0]
        high = range(1, min(MAX_ROWS, problem.rows * problem.columns) + 1)
        many = self._tiles > 1
        return [
            Knob("tile_rows", tuple(divisors(problem.rows))),
            Knob("tile_columns", tuple(divisors(problem.columns))),
            Knob("vectors", tuple(sorted({*wide, plan.tile.vectors}))),
            Knob("rows", tuple(sorted({*high, plan.tile.rows}))),
            Knob("groups", tuple(divisors(problem.outputs))),
            Knob("data", (0, 1)[: 1 + many], ("in chunks", "shared")[: 1 + many]),
            Knob("parallel", (0, 1, 2, 3, 4)),
            Knob("data_rows", tuple(divisors(problem.rows))),
            Knob("data_parallel", (0, 1, 2)),
            Knob("unroll", tuple(range(self._channel_loops + 1))),
            Knob("steps", STEPS),
            Knob("prefetch", (0, 1), ("no", "yes")),
        ]

    @property
    def leading(self) -> tuple[str, ...]:
        return ("tile_rows", "tile_columns", "vectors", "rows", "groups", "data")

    @property
    def _channel_loops(self) -> int:
        return MOST_CHANNELS if self.problem.inputs > 1 else 1

    def valid(self, k: Point) -> Column:
        problem, tile = self.problem, self._tile(k)
        count = k.tile_rows * k.tile_columns
        rows = (k.tile_columns == problem.columns) | (k.tile_rows == 1)
        channels = problem.outputs % (k.vectors * k.groups) == 0
        in_registers = fits(contraction_of(count, problem), tile, self.facts)
        depth = where(k.unroll >= 1, problem.steps, 1) * where(k.unroll >= 2, problem.inputs, 1)
        limit = max(MOST_PRODUCTS, self._plan.tile.accumulators)
        short = tile.accumulators * depth * k.steps <= limit
        rest = where(k.unroll == 0, problem.steps, problem.inputs)
        left = (k.unroll < self._channel_loops) & (rest % k.steps == 0)
        split = (k.steps == 1) | left
        threads = k.parallel <= where(k.data == 1, 4, 3)
        apart = (k.data == 1) | ((k.data_parallel == 0) & (k.data_rows == 1))
        shared = k.data_parallel <= 1 + int(problem.inputs > 1)
        high = k.rows <= count
        return rows & channels & in_registers & short & split & threads & apart & shared & high

    def estimate(self, k: Point) -> Column:
        """Estimate cycles, see `winograd_plan.py`."""
        plan = WinogradPlan(k.tile_rows, k.tile_columns, k.data == 1, self._tile(k), k.groups)
        return cycles(plan, self.problem, self.facts)

    def default(self) -> dict[str, int]:
        """Return the plan of `choose_plan`, completed."""
        plan = self._plan
        return self.complete(
            {
                "tile_rows": plan.rows,
                "tile_columns": plan.columns,
                "vectors": plan.tile.vectors,
                "rows": plan.tile.rows,
                "groups": plan.groups,
                "data": int(plan.shared),
            }
        )

    def complete(self, leading: Choice) -> dict[str, int]:
        choice, problem = dict(leading), self.problem
        k = Point(choice)
        shared = choice["data"] == 1
        extents = [extent for _, extent in self._between(k)]
        if not shared:
            extents = extents[1:]
        data_rows = self._data_rows() if shared else 1
        data = [problem.inputs] if problem.inputs > 1 else []
        data.append(problem.images * data_rows)
        blocks = choice["vectors"] * choice["groups"]
        return choice | {
            "parallel": parallel_loops(extents, self.time, self.facts),
            "data_rows": data_rows,
            "data_parallel": parallel_loops(data, self.data_time, self.facts) if shared else 0,
            "unroll": self._written_out(choice["rows"] * choice["vectors"]),
            "steps": 1,
            "prefetch": int(self._comes_from_afar(blocks)),
        }

    def nest(self, k: Point) -> Sequence[LoopLevel]:
        problem = self.problem
        serial, unrolled = int(NestKind.SERIAL), int(NestKind.UNROLLED)
        # Variables of the products: row and column in the tile, tiles, blocks of output channels,
        # lanes, and the reduce variables.
        levels: list[LoopLevel] = []
        (group_v, groups), *chunks = self._between(k)
        shared = k.data == 1
        levels.append(
            LoopLevel(
                group_v,
                where(shared, groups, 1),
                parallel_where(shared & (k.parallel > 0)),
            )
        )
        for number, (variable, extent) in enumerate(chunks):
            inside = where(shared, number + 1, number)
            kind = parallel_where(k.parallel > inside)
            levels.append(LoopLevel(variable, extent, kind))
        levels.append(LoopLevel(group_v, where(shared, 1, groups)))
        side = int(problem.places**0.5)
        levels += [LoopLevel(0, side), LoopLevel(1, side)]
        tiles = k.tile_rows * k.tile_columns
        levels += [LoopLevel(3, k.groups), LoopLevel(2, ceil_div(tiles, k.rows))]
        channels = [(5, problem.inputs), (6, problem.steps)]
        for number, (variable, extent) in enumerate(channels):
            inside = MOST_CHANNELS - number
            kind = where(k.unroll >= inside, unrolled, serial)
            rounds = where(k.unroll == inside - 1, ceil_div(extent, k.steps), extent)
            levels.append(LoopLevel(variable, rounds, kind))
            split = where(k.unroll == inside - 1, k.steps, 1)
            levels.append(LoopLevel(variable, split, unrolled))
        if problem.group > 1:
            levels.append(LoopLevel(6, problem.group, unrolled))
        return [
            *levels,
            LoopLevel(2, k.rows, unrolled),
            LoopLevel(3, k.vectors, unrolled),
            LoopLevel(4, problem.lanes, NestKind.VECTOR),
        ]

    def operands(self) -> Sequence[Operand]:
        return operands_of(self._pattern)

    def _between(self, k: Point) -> list[tuple[int, Column]]:
        """Return the loops over groups of channels and over chunks: variable and trip count."""
        problem = self.problem
        return [
            (3, ceil_div(problem.outputs, k.groups * k.vectors)),
            (2, problem.images),
            (2, ceil_div(problem.rows, k.tile_rows)),
            (2, ceil_div(problem.columns, k.tile_columns)),
        ]

    def _tile(self, k: Point) -> Tile:
        return Tile(k.rows, k.vectors, self.problem.lanes)

    def _data_rows(self) -> int:
        """Return the parts of an image's rows of tiles that are separate tasks of the data
        transform.

        This is for the choice in which all threads transform the data first.
        """
        problem = self.problem
        wanted, images = LEAST_TASKS_PER_CORE * self.facts.cores, problem.images * problem.inputs
        parts = divisors(problem.rows)
        return next(d for d in parts if images * d >= wanted or d == problem.rows)

    def _written_out(self, products: int) -> int:
        """Return the number of unrolled loops over input channels."""
        count = 0
        for extent in (self.problem.steps, self.problem.inputs)[: self._channel_loops]:
            products *= extent
            if products > UNROLLED_PRODUCTS:
                break
            count += 1
        return count

    def _comes_from_afar(self, blocks: int) -> bool:
        """Whether the weights exceed L2, while those of one element of the tile fit.

        Args:
            blocks: blocks of output channels that are contracted before the next element.
        """
        problem, facts = self.problem, self.facts
        block = problem.inputs * problem.steps * problem.lanes * problem.bytes
        whole = block * prod((problem.outputs, problem.places))
        return whole > facts.l2 and block * blocks <= facts.l2 // 4


def problem_of(sch: Schedule, stages: Stages, dot: Dot | None = None) -> Problem:
    """Return the sizes of the convolution, derived from its blocks."""
    group = 1 if dot is None else dot.group
    images, blocks, height, width, lanes = sch.block_op(stages.result).domain
    extent = sch.block_op(stages.right).domain[2]
    places, _, inputs, *_ = sch.block_op(stages.data).domain
    return Problem(
        images=images,
        rows=-(-height // extent),
        columns=-(-width // extent),
        places=places * places,
        inputs=inputs,
        outputs=blocks,
        lanes=lanes,
        bytes=stored_bits(sch.block_op(stages.data)) // 8 * group,
        group=group,
    )
