"""Attention: two products, and all operations on rows between them, for a strip of rows at a time.

    parallel over heads and strips of rows
      for each panel of keys, each tile of rows      scores: a register tile as in a matmul
      for each row of the strip                      softmax, or other operations on whole rows
      for each panel of columns, each tile of rows   result: a register tile; epilogue, one store

Scores and weights are in a buffer for one strip, which stays in cache. Keys and values are read
again for each strip; their panels are copied to contiguous rows if these conflict in L1.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from xdsl.dialects.builtin import Float32Type, Float64Type
from xdsl.ir import Operation

from tcopt.dialects.graph.core.forms import ATTENTION
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import shape_of
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.cpu.attention_space import AttentionSpace, find_products, find_stages
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.cpu.granularity import run_parallel
from tcopt.schedules.rules.cpu.injective import schedule_injective
from tcopt.schedules.rules.cpu.matmul import accumulate, copy_columns
from tcopt.schedules.rules.cpu.product import Product
from tcopt.schedules.rules.cpu.reduction import schedule_in_row
from tcopt.schedules.rules.epilogue import blocks_beside, take_epilogue
from tcopt.schedules.rules.nests import own_loops, variable_loops
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.spaces.space import Choice, Point
from tcopt.support.arithmetic.sizes import upper_bound
from tcopt.support.machines.matmul_tiles import MatmulTile
from tcopt.support.machines.row_strips import RowStrips

STEPS = 4
"""Unrolled steps of a sum."""


@schedule_rule(target="cpu", priority=125)
class Attention:
    """Rule for two contractions with operations on whole rows between them."""

    name = "cpu-attention"
    provides = (ATTENTION,)

    def accepts(self, op: Operation, facts: CpuFacts) -> Declined | None:
        """Decline if separate kernels for the rows that `op` multiplies are estimated to be faster.

        Args:
            op: the second contraction.
        """
        if not isinstance(op, GraphOp) or op.multiplied_rows is None:
            return Declined("the second contraction does not multiply rows by a matrix")
        *batch, rows, keys = map(upper_bound, shape_of(op.operands[op.multiplied_rows]))
        columns, element = upper_bound(op.shape[-1]), op.type.element_type
        if not isinstance(element, Float32Type | Float64Type):
            return Declined(f"its elements are {element}")
        lanes = facts.lanes(element.bitwidth)
        if rows < 2 or min(keys, columns) < lanes:
            return Declined("it has a single row, or rows of less than a vector")
        strips = RowStrips(prod(batch), rows, keys, columns, columns, element.bitwidth // 8)
        copies = (0, 1) if strips.conflicts(facts) else (0,)
        choices = product(strips.candidates(facts), copies)
        joined = min(strips.strip_cycles(facts, *choice) for choice in choices)
        separate = strips.separate_cycles(facts)
        if joined > separate:
            return Declined(f"transfers take est. {joined:.0f} cycles, {separate:.0f} separately")
        return None

    def space(self, sch: Schedule, facts: CpuFacts) -> AttentionSpace | Declined:
        stages = find_stages(sch)
        if isinstance(stages, Declined):
            return stages
        products = find_products(sch, stages)
        if isinstance(products, Declined):
            return products
        return AttentionSpace(sch, stages, *products, facts)

    def apply(
        self, sch: Schedule, facts: CpuFacts, space: AttentionSpace, choice: Choice
    ) -> Declined | None:
        """Tile the second product, and compute everything before it in the loop over strips."""
        stages, k = space.stages, Point(choice)
        final = take_epilogue(sch, stages.second)
        others = blocks_beside(sch, stages.second, final)
        outer = _tile_second(sch, space, k, final)
        _compute_rows(sch, stages.between, outer, facts)
        _tile_first(sch, space, k, outer)
        for block in stages.between:
            schedule_in_row(sch, block, len(outer) + 1, facts)
        for block in others:
            if block not in stages.between:
                schedule_injective(sch, block, facts)
        return None


def _tile_second(sch: Schedule, space: AttentionSpace, k: Point, final: Block) -> list[Loop]:
    """Tile the second product with its epilogue; return the loops over heads and strips."""
    block, product = space.stages.second, space.second
    loops = variable_loops(sch, block)
    assert product.rows is not None
    depth, row = loops.pop(product.pattern.reduce[0]), loops.pop(product.rows)
    column = loops.pop(product.columns)
    strip, row = sch.split(row, [None, int(k.strip)])
    outer = [*loops.values(), strip]
    sch.reorder(*outer, column, row, depth)
    outer = run_parallel(sch, outer, int(k.parallel), space.time, space.facts)
    _tile(
        sch, block, product, space, space.tile, outer, (row, column, depth), final, bool(k.copies)
    )
    return outer


def _tile_first(sch: Schedule, space: AttentionSpace, k: Point, outer: Sequence[Loop]) -> None:
    """Compute the scores of a strip."""
    block, product = space.stages.first, space.first
    sch.compute_at(block, outer[-1])
    store = sch.cache_write(block, "register")
    loops = own_loops(sch, block, outer[-1])
    assert product.rows is not None
    inner = (loops[product.rows], loops[product.columns], loops[product.pattern.reduce[0]])
    tile = space.first_tile(k)
    _tile(sch, block, product, space, tile, outer, inner, store, bool(k.copies))


def _tile(
    sch: Schedule,
    block: Block,
    product: Product,
    space: AttentionSpace,
    tile: MatmulTile,
    outer: Sequence[Loop],
    loops: tuple[Loop, Loop, Loop],
    store: Block,
    copies: bool,
) -> None:
    """Split a product into register tiles, in the loop over strips.

    Args:
        loops: over the rows of a strip, the columns, and the terms of a sum.
        store: the block that stores the sums.
        copies: whether the columns of a panel are copied to contiguous rows.
    """
    row, column, depth = loops
    tiles, row = sch.split(row, [None, int(tile.rows)])
    panel, vector, lane = sch.split(column, [None, int(tile.vectors), space.lanes])
    steps, step = sch.split(depth, [None, STEPS])
    sch.reorder(panel, tiles, steps, step, row, vector, lane)
    if copies:
        copy_columns(sch, block, product.right.buffer, panel, space.lanes)
    accumulate(sch, block, [*outer, panel, tiles], [steps, step], store, space.lanes)


def _compute_rows(
    sch: Schedule, between: Sequence[Block], outer: Sequence[Loop], facts: CpuFacts
) -> None:
    """Compute the blocks between the products row by row, in the loop over strips."""
    last = between[-1]
    sch.compute_at(last, outer[-1])
    row = sch.get_loops(last)[len(outer)]
    for block in reversed(between[:-1]):
        sch.compute_at(block, row)
