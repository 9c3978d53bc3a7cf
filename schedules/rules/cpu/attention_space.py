"""Space of `cpu-attention`: rows of a strip, register tiles, copies, and threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from tcopt.schedules.analysis.patterns import (
    access_bytes,
    element_bits,
    match_block,
)
from tcopt.schedules.api.handles import Block
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.cpu.granularity import blocks_cycles, parallel_loops
from tcopt.schedules.rules.cpu.product import Product, find_product
from tcopt.schedules.rules.nests import variable_loops
from tcopt.schedules.rules.operands import operands_of
from tcopt.schedules.rules.rows import Rows
from tcopt.schedules.rules.rule import Declined
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
from tcopt.support.arithmetic.columns import ceil_div
from tcopt.support.machines.matmul_tiles import MatmulTile, best_tile
from tcopt.support.machines.row_strips import RowStrips


@dataclass(frozen=True)
class Stages:
    """Blocks of a function with two contractions, in program order.

    Attributes:
        first: the contraction whose rows the second one multiplies.
        between: the blocks on whole rows between them.
        second: the last contraction.
    """

    first: Block
    between: tuple[Block, ...]
    second: Block


def find_stages(sch: Schedule) -> Stages | Declined:
    """Identify the blocks of a function, or decline."""
    patterns = {block: match_block(sch.block_op(block)) for block in sch.blocks()}
    sums = [b for b, p in patterns.items() if p is not None and p.is_contraction]
    if len(sums) != 2:
        reason = f"{len(sums)} blocks add products of two loaded values, two are wanted"
        return Declined(reason, quiet=True)
    first, second = sums
    after = _reached(first, sch.consumers)
    between = [b for b in _reached(second, sch.producers) if b in after]
    if not between or second not in after:
        return Declined("the second contraction does not follow from the first")
    if any(patterns[block] is None for block in between):
        return Declined("a block between the contractions does not store once")
    if any(set(sch.consumers(b)) - {*between, second} for b in (first, *between)):
        return Declined("rows between the contractions are used elsewhere")
    return Stages(first, tuple(b for b in sch.blocks() if b in between), second)


def _reached(block: Block, step: Callable[[Block], list[Block]]) -> set[Block]:
    """Return the blocks reached from one by steps to producers or consumers."""
    found: set[Block] = set()
    pending = [block]
    while pending:
        for each in step(pending.pop()):
            if each not in found:
                found.add(each)
                pending.append(each)
    return found


class AttentionSpace(Space):
    """Strips of rows of two products, and the loops around them."""

    def __init__(
        self, sch: Schedule, stages: Stages, first: Product, second: Product, facts: CpuFacts
    ):
        self.stages, self.first, self.second, self.facts = stages, first, second, facts
        pattern = second.pattern
        self.lanes = facts.lanes(element_bits(pattern.block))
        assert second.rows is not None
        own = (second.rows, second.columns)
        self.batch = [v for v in variable_loops(sch, stages.second) if v in pattern.spatial]
        self.batch = [v for v in self.batch if v not in own]
        self.strips = RowStrips(
            batch=prod(pattern.extents[v] for v in self.batch),
            rows=second.height,
            keys=second.depth,
            depth=first.depth,
            columns=second.width,
            bytes=access_bytes(second.left),
        )
        blocks = [sch.block_op(b) for b in (stages.first, *stages.between, stages.second)]
        work = 2 * (first.pattern.work + pattern.work)
        self.time = blocks_cycles(blocks, work, facts)
        self.tile = best_tile(second.height, second.width, self.lanes, facts)
        copies = self.strips.conflicts(facts)
        super().__init__(
            [
                Knob("strip", self.strips.candidates(facts)),
                Knob("copies", (0, 1) if copies else (0,), ("no", "yes")[: 1 + copies]),
                Knob("parallel", tuple(range(len(self.batch) + 2))),
            ]
        )

    @property
    def leading(self) -> tuple[str, ...]:
        return ("strip", "copies")

    def first_tile(self, k: Point) -> MatmulTile:
        """Return the register tile of the first product in a strip."""
        return best_tile(int(k.strip), self.first.width, self.lanes, self.facts)

    def valid(self, k: Point) -> Column:
        return k.strip >= 1

    def estimate(self, k: Point) -> Column:
        waits = self.strips.strip_cycles(self.facts, k.strip, k.copies)
        tasks = self.strips.batch * ceil_div(self.strips.rows, k.strip)
        cores = self.facts.cores
        rounds = ceil_div(tasks, cores) * cores / tasks
        return (self.time + waits) * rounds

    def complete(self, leading: Choice) -> dict[str, int]:
        extents = [each.extent for each in self._between(Point(leading))]
        return dict(leading) | {"parallel": parallel_loops(extents, self.time, self.facts)}

    def _between(self, k: Point) -> list[LoopLevel]:
        pattern = self.second.pattern
        assert self.second.rows is not None
        outer = [LoopLevel(v, pattern.extents[v]) for v in self.batch]
        return [*outer, LoopLevel(self.second.rows, ceil_div(self.second.height, k.strip))]

    def nest(self, k: Point) -> Sequence[LoopLevel]:
        second = self.second
        assert second.rows is not None
        levels = [
            LoopLevel(each.variable, each.extent, parallel_where(k.parallel > n))
            for n, each in enumerate(self._between(k))
        ]
        width = self.tile.vectors * self.lanes
        levels += [
            LoopLevel(second.columns, ceil_div(second.width, width)),
            LoopLevel(second.rows, ceil_div(k.strip, self.tile.rows)),
            LoopLevel(second.pattern.reduce[0], second.depth),
            LoopLevel(second.rows, self.tile.rows, NestKind.UNROLLED),
            LoopLevel(second.columns, self.tile.vectors, NestKind.UNROLLED),
            LoopLevel(second.columns, min(self.lanes, second.width), NestKind.VECTOR),
        ]
        return levels

    def operands(self) -> Sequence[Operand]:
        return operands_of(self.second.pattern)


def find_products(sch: Schedule, stages: Stages) -> tuple[Product, Product] | Declined:
    """Return both products, or decline if rows of the result do not depend on equal rows."""
    found: list[Product] = []
    for block in (stages.first, stages.second):
        pattern = match_block(sch.block_op(block))
        assert pattern is not None
        product = find_product(pattern)
        if isinstance(product, Declined):
            return Declined(f"{block.name}: {product.reason}")
        if product.rows is None or product.panel:
            return Declined(f"{block.name} has no rows, or a packed operand")
        if min(product.height, product.width, product.depth) < 2:
            return Declined(f"{block.name} has a single row, column or term")
        found.append(product)
    first, second = found
    dataflow = Rows(sch)
    extents = second.pattern.extents
    outer = [v for v in second.pattern.spatial if v != second.columns and extents[v] > 1]
    if any(dataflow.kept(stages.second, v) != 1 for v in outer):
        return Declined("a reduction between the contractions runs over several rows")
    return first, second
