"""Products with a matrix of codes with a scale per block: sums of blocks, and their scaled sum.

    parallel over chunks of rows and panels of columns
      for each tile of rows
        totals = 0                                  rows x vectors
        for each block of the depth
          products = 0                              rows x vectors, in registers
          for each word of the block
            for each code of the word:  unpack a vector of codes, for all rows
              for each row:    broadcast one element, multiply-add
          totals += scales * (products - zeros * sums)
        epilogue on the tile, one store

Codes are unpacked to registers, once per tile of rows, so no unpacked copy of the matrix is in
memory. With one row, a product is bound by loading the codes, with many by the multiply-adds.
"""

from __future__ import annotations

from tcopt.schedules.analysis.patterns import total_cost
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.cpu.blockwise_space import BlockwiseSpace, find_blockwise
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.cpu.granularity import parallelize, run_parallel
from tcopt.schedules.rules.cpu.injective import schedule_injective
from tcopt.schedules.rules.cpu.reduction import schedule_in_row
from tcopt.schedules.rules.epilogue import attach_epilogue, take_epilogue
from tcopt.schedules.rules.nests import own_loops, variable_loops, vectorize_tile
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.rules.spatial import is_spatial
from tcopt.schedules.spaces.space import Choice


@schedule_rule(target="cpu", priority=125)
class BlockwiseProduct:
    """Rule for functions with one block that sums scaled sums of blocks."""

    name = "cpu-blockwise-product"

    def space(self, sch: Schedule, facts: CpuFacts) -> BlockwiseSpace | Declined:
        found = find_blockwise(sch)
        return found if isinstance(found, Declined) else BlockwiseSpace(sch, found, facts)

    def apply(
        self, sch: Schedule, facts: CpuFacts, space: BlockwiseSpace, choice: Choice
    ) -> Declined | None:
        total, product = space.roles.total, space.roles.product
        epilogue = take_epilogue(sch, total)
        others = [each for each in sch.blocks() if each not in (total, product, epilogue)]
        around, blocks = _tile(sch, space, choice)
        sch.compute_at(product, blocks)
        _multiply(sch, product, blocks, space)
        init = sch.decompose_reduction(total, blocks)
        sch.set_scope(total, "register")
        vectorize_tile(sch, sch.get_loops(init)[len(around) :])
        vectorize_tile(sch, sch.get_loops(total)[len(around) + 1 :])
        attach_epilogue(sch, epilogue, around, space.lanes)
        for each in others:
            _schedule_alone(sch, each, facts)
        return None


def _tile(sch: Schedule, space: BlockwiseSpace, choice: Choice) -> tuple[list[Loop], Loop]:
    """Split the loops over rows and columns of the total.

    Returns:
        The loops around a tile, outermost first, and the loop over blocks of the depth.
    """
    roles = space.roles
    loops = variable_loops(sch, roles.total)
    blocks, column = loops.pop(roles.blocks), loops.pop(roles.columns)
    panel, *tile = sch.split(column, factors=[None, choice["vectors"], space.lanes])
    between = [panel]
    tiles: list[Loop] = []
    if roles.rows is not None and (row := loops.pop(roles.rows, None)) is not None:
        chunk, each, row = sch.split(row, factors=[None, space.chunk(choice), choice["rows"]])
        between, tiles, tile = [chunk, panel], [each], [row, *tile]
    single = [each for each in loops.values() if sch.extent(each) == 1]
    between = [*(each for each in loops.values() if each not in single), *between]
    sch.reorder(*single, *between, *tiles, blocks, *tile)
    outer = run_parallel(sch, between, choice["parallel"], space.time, space.facts)
    return [*single, *outer, *tiles], blocks


def _multiply(sch: Schedule, product: Block, around: Loop, space: BlockwiseSpace) -> None:
    """Keep the sums of a block in registers; the codes of a word are unrolled, or multiplied by one
    intrinsic."""
    op = sch.block_op(product)
    loops = own_loops(sch, product, around)
    kinds = {each: is_spatial(sch, each, op) for each in loops.values()}
    *rows, column = [each for each, spatial in kinds.items() if spatial]
    word, code = [each for each, spatial in kinds.items() if not spatial]
    if sch.extent(column) > space.lanes:
        vector, column = sch.split(column, factors=[None, space.lanes])
        rows.append(vector)
    outer = sch.get_loops(product).index(around) + 1
    if space.roles.dot is None:
        sch.reorder(word, code, *rows, column)
    else:
        sch.reorder(word, *rows, column, code)
    init = sch.decompose_reduction(product, word)
    if space.roles.dot is None:
        sch.unroll(code)
    else:
        sch.tensorize(product, space.roles.dot)
    sch.set_scope(product, "register")
    # An intrinsic replaces the loop over codes.
    reduced = 2 if space.roles.dot is None else 1
    vectorize_tile(sch, sch.get_loops(product)[outer + reduced :])
    vectorize_tile(sch, sch.get_loops(init)[outer:])


def _schedule_alone(sch: Schedule, block: Block, facts: CpuFacts) -> None:
    """Schedule a block in its own nest: a sum of data, or a pointwise stage."""
    op = sch.block_op(block)
    if not op.is_reduction:
        schedule_injective(sch, block, facts)
        return
    loops = [each for each in sch.get_loops(block) if is_spatial(sch, each, op)]
    outer = parallelize(sch, loops, total_cost(op), facts)
    schedule_in_row(sch, block, len(outer), facts)
