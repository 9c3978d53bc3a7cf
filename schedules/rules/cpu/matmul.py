"""Matrix products: register tiles of rows by vectors, over panels of the RHS.

    parallel over chunks of rows and panels of columns
      for each tile of rows
        accumulators = 0                           rows x vectors, in registers
        for each step of the reduction
          for each row:    broadcast one element of the LHS
          for each vector: multiply-add with a vector of the panel
        epilogue on the tile, one store

A panel (the depth of the reduction by the width of a tile) stays in L2 while the tiles of a chunk
of rows pass over it. If the reduction is too deep for that, it is divided into parts: all tiles of
a chunk process one part before the next, and partial results are added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tcopt.dialects.graph.core.forms import CONTRACTION
from tcopt.schedules.analysis.dots import Dot, dot_of
from tcopt.schedules.analysis.patterns import element_bits, match_block
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.cpu.granularity import run_parallel
from tcopt.schedules.rules.cpu.injective import schedule_injective
from tcopt.schedules.rules.cpu.matmul_space import MatmulSpace
from tcopt.schedules.rules.cpu.product import find_product
from tcopt.schedules.rules.epilogue import attach_epilogue, blocks_beside, take_epilogue
from tcopt.schedules.rules.nests import variable_loops, vectorize_tile
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.spaces.space import Choice, Point
from tcopt.schedules.state.state import buffers_read


@schedule_rule(target="cpu", priority=120)
class Matmul:
    """Rule for matrix products, batched or not, whose RHS has contiguous columns."""

    name = "cpu-matmul"
    provides = (CONTRACTION,)

    def space(self, sch: Schedule, facts: CpuFacts) -> MatmulSpace | Declined:
        patterns = [match_block(sch.block_op(block)) for block in sch.blocks()]
        sums = [p for p in patterns if p is not None and p.is_contraction]
        if len(sums) != 1:
            return Declined(f"{len(sums)} blocks add products of two loaded values, one is wanted")
        product = find_product(sums[0], dot_of(sums[0], facts.capabilities))
        if isinstance(product, Declined):
            return product
        lanes = facts.lanes(element_bits(product.pattern.block))
        if product.panel % lanes:
            return Declined(f"panels of {product.panel} columns are not whole vectors of {lanes}")
        block = sch.get_block(product.pattern.block.block_name.data)
        return MatmulSpace(product, variable_loops(sch, block), facts)

    def apply(
        self, sch: Schedule, facts: CpuFacts, space: MatmulSpace, choice: Choice
    ) -> Declined | None:
        """Tile a product, compute its epilogue tile by tile, and schedule the other blocks."""
        block = sch.get_block(space.product.pattern.block.block_name.data)
        epilogue = take_epilogue(sch, block)
        others = blocks_beside(sch, block, epilogue)
        carried = _Carried(sch, space, Point(choice), block, epilogue)
        tiling = carried.tile()
        if choice["parts"] > 1:
            carried.accumulate_in_parts(tiling)
        else:
            carried.accumulate(tiling)
        for each in others:
            schedule_injective(sch, each, facts)
        return None


@dataclass(frozen=True)
class Tiling:
    """Loops of a tiled product.

    Attributes:
        between: loops over batches, chunks of rows and panels, outermost first.
        tiles: the loop over the tiles of a chunk; none for a single row.
        depth: the reduction.
        rows: the loop over the rows of a tile, if there are several.
        columns: the loops over the vectors of a tile and over their lanes.
    """

    between: list[Loop]
    tiles: list[Loop]
    depth: Loop
    rows: list[Loop]
    columns: list[Loop]


class _Carried:
    """Applies a choice to a product."""

    def __init__(self, sch: Schedule, space: MatmulSpace, k: Point, block: Block, epilogue: Block):
        self.sch, self.space, self.k = sch, space, k
        self.product, self.lanes = space.product, space.lanes
        self.block, self.epilogue = block, epilogue

    def tile(self) -> Tiling:
        """Split the loops over rows and columns."""
        product, k = self.product, self.k
        loops = variable_loops(self.sch, self.block)
        depth = loops.pop(product.pattern.reduce[0])
        row_loop = None if product.rows is None else loops.pop(product.rows, None)
        between: dict[int, Loop] = {}
        tiles: list[Loop] = []
        row: list[Loop] = []
        if row_loop is not None and product.rows is not None:
            factors = [None, self.space.chunk(k), k.rows]
            between[product.rows], *tiles, last = self.sch.split(row_loop, factors)
            row = [last]
        panels, column = self._split_columns(loops.pop(product.columns, None))
        if panels is not None:
            between[product.columns] = panels
        between |= {v: loops[v] for v in self.space.batch}
        order = [between[each.variable] for each in self.space.between(k)]
        return Tiling(order, tiles, depth, row, column)

    def _parallel(self, tiling: Tiling) -> list[Loop]:
        """Run the loops between tiles on threads."""
        time, facts = self.space.time, self.space.facts
        return run_parallel(self.sch, tiling.between, self.k.parallel, time, facts)

    def _split_columns(self, loop: Loop | None) -> tuple[Loop | None, list[Loop]]:
        """Split the column loop into a loop over panels, and loops over vectors and lanes."""
        if loop is None:
            return None, []
        if not self.space.has_panels:
            return None, [loop]
        panels, vector, lane = self.sch.split(loop, factors=[None, self.k.vectors, self.lanes])
        if self.k.streams == 1:
            return panels, [vector, lane]
        panels, part = self.sch.split(panels, factors=[None, self.k.streams])
        return panels, [part, vector, lane]

    def accumulate(self, tiling: Tiling) -> None:
        """Keep the sums of a tile in registers through the whole depth."""
        sch, product = self.sch, self.product
        reduce, terms = self._split_depth(tiling.depth)
        inner = [*tiling.rows, *tiling.columns, *terms]
        sch.reorder(*tiling.between, *tiling.tiles, *reduce, *inner)
        outer = self._parallel(tiling)
        if self.k.copy:
            copy_columns(sch, self.block, product.right.buffer, outer[-1], self.lanes)
        around = [*outer, *tiling.tiles]
        accumulate(sch, self.block, around, reduce, self.epilogue, self.lanes, product.dot)
        if self.k.prefetch:
            self._prefetch_panels(self.block, outer[-1], reduce[0])

    def accumulate_in_parts(self, tiling: Tiling) -> None:
        """Process all tiles of a chunk for one part of the depth before the next part.

        Only that part of a panel needs to stay in cache. Each part leaves a partial result; rows of
        these are summed after the last part.
        """
        sch, product, block = self.sch, self.product, self.block
        part, depth = sch.split(tiling.depth, factors=[self.k.parts, None])
        reduce, terms = self._split_depth(depth)
        inner = [*tiling.rows, *tiling.columns, *terms]
        sch.reorder(*tiling.between, part, *tiling.tiles, *reduce, *inner)
        outer = self._parallel(tiling)
        columns = [loop for loop in tiling.columns if sch.extent(loop) > 1]
        partial = sch.rfactor(part)
        store = sch.cache_write(partial, "register")
        around = [*outer, part, *tiling.tiles]
        accumulate(sch, partial, around, reduce, store, self.lanes, product.dot)
        if self.k.prefetch:
            self._prefetch_panels(partial, part, reduce[0])
        # Loops with one iteration are not part of the vectors, and have no counterpart in the final
        # sum.
        *loops, part = sch.get_loops(block)[len(outer) :]
        rows, columns = loops[: -len(columns)], loops[-len(columns) :]
        sch.reorder(*rows, part, *columns)
        accumulate(sch, block, [*outer, *rows], [part], self.epilogue, self.lanes)

    def _split_depth(self, loop: Loop) -> tuple[list[Loop], list[Loop]]:
        """Split the depth into groups of steps, steps of a group, and terms of a dot product."""
        group = self.product.group
        if group == 1:
            return self.sch.split(loop, factors=[None, self.k.steps]), []
        *reduce, terms = self.sch.split(loop, factors=[None, self.k.steps, group])
        return reduce, [terms]

    def _prefetch_panels(self, block: Block, ahead: Loop, at: Loop) -> None:
        """Prefetch the next panel while tiles pass over the current one.

        Otherwise the first tile of each panel waits for memory at every step. A single tile gains
        nothing: it is limited by memory bandwidth.

        Args:
            ahead: the loop with one panel per iteration.
            at: the loop over steps of the depth.
        """
        place = buffers_read(self.sch.block_op(block)).index(self.product.right.buffer)
        self.sch.prefetch(block, place, ahead, at)


def copy_columns(sch: Schedule, block: Block, buffer: SSAValue, at: Loop, lanes: int) -> None:
    """Copy the part of a matrix that an iteration of `at` reads to a buffer with contiguous rows.

    Args:
        buffer: the matrix, which `block` reads.
    """
    place = buffers_read(sch.block_op(block)).index(buffer)
    copy = sch.cache_read(block, place, "local")
    sch.compute_at(copy, at)
    *_, column = sch.get_loops(copy)
    if sch.extent(column) > lanes:
        vector, column = sch.split(column, factors=[None, lanes])
        sch.unroll(vector)
    sch.vectorize(column)


def accumulate(
    sch: Schedule,
    block: Block,
    outer: Sequence[Loop],
    reduce: Sequence[Loop],
    epilogue: Block,
    lanes: int,
    dot: Dot | None = None,
) -> None:
    """Keep a block's results in registers through a reduction; inner loops belong to the tile."""
    init = sch.decompose_reduction(block, reduce[0])
    if dot is not None:
        sch.tensorize(block, dot.name)
    sch.set_scope(block, "register")
    for step in reduce[1:]:
        sch.unroll(step)
    for each in (block, init):
        own = [loop for loop in sch.get_loops(each) if loop not in (*outer, *reduce)]
        vectorize_tile(sch, own)
    attach_epilogue(sch, epilogue, outer, lanes)
