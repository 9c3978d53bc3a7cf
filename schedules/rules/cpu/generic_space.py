"""Space of `cpu-generic`: tiles of four levels, and the placement of other blocks.

Each spatial variable of the main block is split into four loops, each reduce variable into two. The
levels are S S R S R S, outermost first, as in Ansor's sketches (Zheng et al., 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from tcopt.schedules.analysis.patterns import BlockPattern, element_bits
from tcopt.schedules.api.handles import Block
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.cpu.granularity import blocks_cycles, parallel_loops
from tcopt.schedules.rules.nests import loop_variables
from tcopt.schedules.rules.operands import operands_of
from tcopt.schedules.spaces.footprints import footprint
from tcopt.schedules.spaces.sizes import sizes_up_to
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
from tcopt.support.arithmetic.columns import ceil_div, most, where
from tcopt.support.machines.machine import LOOP

SPATIAL_LEVELS = 4
"""Number of loops of a spatial variable."""

MOST_CODE = 256
"""Maximum number of unrolled copies of a block's body."""

MOST_UNROLLED = 6
"""Maximum number of unrolled loops, not counting the vector loop."""

MOST_VECTOR = 4
"""Maximum width of the vector loop, as a multiple of the machine's vectors."""

MEMORY, REGISTERS = 0, 1
"""Where accumulators are kept during the sum."""

AT_ROOT, AT_OUTER, AT_INNER, AT_SUM = 0, 1, 2, 3
"""Where another block is computed: in a separate nest, in the loops of the first or second level,
or in the outer level of the reduce loops."""


class GenericSpace(Space):
    """Tiles of a block, and the placement of the blocks around it.

    Args:
        pattern: the main block.
        producers: blocks whose only consumer is the main block.
    """

    def __init__(
        self,
        sch: Schedule,
        pattern: BlockPattern,
        producers: Sequence[Block],
        facts: CpuFacts,
    ):
        self.pattern, self.producers, self.facts = pattern, tuple(producers), facts
        block = sch.get_block(pattern.block.block_name.data)
        moving = loop_variables(sch, block)
        self.spatial = [v for v in moving if v in pattern.spatial]
        self.reduce = [v for v in moving if v in pattern.reduce]
        self.lanes = facts.lanes(element_bits(pattern.block))
        self.time = blocks_cycles([pattern.block], 2 * pattern.work, facts)
        super().__init__(self._make_knobs())

    def _make_knobs(self) -> list[Knob]:
        extents = self.pattern.extents
        knobs: list[Knob] = []
        for v in self.spatial:
            sizes = sizes_up_to(extents[v])
            knobs += [Knob(f"s{v}.{level}", sizes) for level in range(1, SPATIAL_LEVELS)]
        knobs += [Knob(f"r{v}", sizes_up_to(extents[v])) for v in self.reduce]
        count = len(self.spatial)
        inner = min(MOST_UNROLLED, 2 * count + len(self.reduce) - 1)
        knobs += [
            Knob("vector", tuple(self.spatial), tuple(f"variable {v}" for v in self.spatial)),
            Knob("first", tuple(range(count))),
            Knob("parallel", tuple(range(count + 1))),
            Knob("unroll", tuple(range(max(inner, 0) + 1))),
        ]
        if self.reduce:
            knobs.append(Knob("sums", (MEMORY, REGISTERS), ("in memory", "in registers")))
            knobs.append(Knob("epilogue", (AT_OUTER, AT_INNER), ("at outer", "at inner")))
        places = (AT_ROOT, AT_OUTER, AT_INNER, AT_SUM)[: 4 if self.reduce else 3]
        words = ("at root", "at outer", "at inner", "at sum")[: len(places)]
        knobs += [Knob(f"{each.name}.at", places, words) for each in self.producers]
        return knobs

    def size_of(self, k: Point, variable: int, level: int) -> Column:
        """Return the trip count of an inner loop of a spatial variable; level 1 is outermost."""
        return getattr(k, f"s{variable}.{level}")

    def _part(self, k: Point, variable: int, level: int) -> Column:
        """Return the range of a variable inside of the loops of a level."""
        found: Column = 1
        for inner in range(level, SPATIAL_LEVELS):
            found = found * self.size_of(k, variable, inner)
        return found

    @property
    def untold(self) -> tuple[str, ...]:
        """Knobs for the placement of other blocks and of accumulators."""
        names = [knob.name for knob in self.knobs]
        return tuple(n for n in names if n in ("sums", "epilogue") or n.endswith(".at"))

    def valid(self, k: Point) -> Column:
        extents = self.pattern.extents
        fine: Column = True
        code: Column = 1
        vector: Column = 1
        for v in self.spatial:
            fine = fine & (self._part(k, v, 1) <= extents[v])
            code = code * self._part(k, v, 2)
            vector = where(k.vector == v, self.size_of(k, v, SPATIAL_LEVELS - 1), vector)
        short = vector & (vector - 1) == 0
        fine = fine & short & (vector <= MOST_VECTOR * self.lanes)
        # The unrolled code is limited, and a tile whose sums are in registers is completely
        # unrolled.
        written = self._written_out(k, vector)
        fine = fine & (written <= MOST_CODE)
        if self.reduce:
            held = code // vector * ceil_div(vector, self.lanes)
            fine = fine & ((k.sums == MEMORY) | (held <= self.facts.registers))
        return fine

    def _written_out(self, k: Point, vector: Column) -> Column:
        """Return the number of copies of the vectorised body in the unrolled code."""
        total: Column = 1
        loops = self.inner_levels(k)
        for number, (_, extent) in enumerate(reversed(loops[: len(loops) - 1]), start=1):
            total = total * where(k.unroll >= number, extent, 1)
        if not self.reduce:
            return total
        tile: Column = 1
        for v in self.spatial:
            tile = tile * self._part(k, v, 2)
        return where(k.sums == REGISTERS, most(total, tile // vector), total)

    def inner_levels(self, k: Point) -> list[tuple[int, Column]]:
        """Return variable and trip count of the loops inside the outer reduce level.

        The outermost loop comes first; the vector loop comes last whatever its variable, with a
        trip count of 1.
        """
        third = [(v, self.size_of(k, v, 2)) for v in self.spatial]
        sums = [(v, getattr(k, f"r{v}")) for v in self.reduce]
        last = [
            (v, where(k.vector == v, 1, self.size_of(k, v, SPATIAL_LEVELS - 1)))
            for v in self.spatial
        ]
        return [*third, *sums, *last, (self.spatial[-1], 1)]

    def estimate(self, k: Point) -> Column:
        """Estimate cycles: arithmetic including partial tiles, loop overhead, and cache traffic."""
        extents, facts = self.pattern.extents, self.facts
        vector: Column = 1
        points: Column = 1
        rounds: Column = 1
        near: dict[int, Column] = {}
        wide: dict[int, Column] = {}
        outer: Column = 1
        for v in self.spatial:
            near[v], wide[v] = self._part(k, v, 2), self._part(k, v, 1)
            points = points * ceil_div(extents[v], wide[v]) * wide[v]
            rounds = rounds * ceil_div(extents[v], wide[v]) * self.size_of(k, v, 1)
            outer = outer * ceil_div(extents[v], wide[v])
            vector = where(k.vector == v, self.size_of(k, v, SPATIAL_LEVELS - 1), vector)
        for v in self.reduce:
            near[v] = wide_v = getattr(k, f"r{v}")
            wide[v] = extents[v]
            points = points * ceil_div(extents[v], wide_v) * wide_v
            rounds = rounds * ceil_div(extents[v], wide_v)
        contiguous = self._contiguous
        strided: Column = 1
        for v in self.spatial:
            strided = where((k.vector == v) & (v not in contiguous), 4, strided)
        done = least_lanes(vector, self.lanes)
        cycles = facts.cycles(products=points / done * strided)
        inner = points / (vector * most(self._written_out(k, vector), 1))
        cycles = cycles + facts.cycles(others=LOOP * inner)
        moved = sum(footprint(each, near) for each in self.operands())
        cycles = cycles + rounds * moved / (facts.vector_loads * facts.vector_bits / 8)
        block = sum(footprint(each, wide) for each in self.operands())
        cycles = cycles + outer * block / facts.rate(block)
        threads = where(k.parallel > 0, min(facts.cores, 8), 1)
        return cycles / threads

    @cached_property
    def _contiguous(self) -> set[int]:
        """Variables along which results are contiguous."""
        return {v for v in self.spatial if self.pattern.store.is_unit(v)}

    def default(self) -> dict[str, int]:
        """Return a simple choice: vectors along the last contiguous variable, without other
        tiles."""
        choice = {knob.name: knob.values[0] for knob in self.knobs}
        axis = next((v for v in reversed(self.spatial) if v in self._contiguous), None)
        if axis is not None:
            name = f"s{axis}.{SPATIAL_LEVELS - 1}"
            sizes = next(knob.values for knob in self.knobs if knob.name == name)
            fitting = [n for n in sizes if n & (n - 1) == 0 and n <= self.lanes]
            choice |= {"vector": axis, name: max(fitting)}
        return self.complete(choice)

    def complete(self, leading: Choice) -> dict[str, int]:
        k = Point(dict(leading))
        extents = self.pattern.extents
        order = self.outer_order(leading)
        counts = [ceil_div(extents[v], self._part(k, v, 1)) for v in order]
        return dict(leading) | {"parallel": parallel_loops(counts, self.time, self.facts)}

    def outer_order(self, choice: Choice) -> list[int]:
        """Return the variables of the outer two levels, outermost first."""
        first = choice["first"]
        return [*self.spatial[first:], *self.spatial[:first]]

    def nest(self, k: Point) -> Sequence[LoopLevel]:
        extents, count = self.pattern.extents, len(self.spatial)
        serial = int(NestKind.SERIAL)
        levels: list[LoopLevel] = []
        for level in (0, 1):
            for place in range(count):
                variable: Column = self.spatial[place]
                extent: Column = 1
                for shift in range(count):
                    v = self.spatial[(place + shift) % count]
                    size = (
                        self.size_of(k, v, 1)
                        if level
                        else ceil_div(extents[v], self._part(k, v, 1))
                    )
                    here = k.first == shift
                    variable, extent = where(here, v, variable), where(here, size, extent)
                kind = serial if level else parallel_where(k.parallel > place)
                levels.append(LoopLevel(variable, extent, kind))
        for v in self.reduce:
            levels.append(LoopLevel(v, ceil_div(extents[v], getattr(k, f"r{v}"))))
        inner = self.inner_levels(k)[:-1]
        for number, (v, extent) in enumerate(inner):
            written = k.unroll >= len(inner) - number
            if self.reduce:
                written = written | ((k.sums == REGISTERS) & (v in self.spatial))
            levels.append(LoopLevel(v, extent, where(written, int(NestKind.UNROLLED), serial)))
        vector: Column = 1
        for v in self.spatial:
            vector = where(k.vector == v, self.size_of(k, v, SPATIAL_LEVELS - 1), vector)
        return [*levels, LoopLevel(k.vector, vector, NestKind.VECTOR)]

    @cached_property
    def _operands(self) -> Sequence[Operand]:
        return operands_of(self.pattern)

    def operands(self) -> Sequence[Operand]:
        return self._operands


def least_lanes(vector: Column, lanes: int) -> Column:
    """Return the number of elements of a vector that one instruction computes."""
    return where(vector < lanes, vector, lanes)
