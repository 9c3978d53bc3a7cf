"""Contractions on tensor cores: warps multiply matrices of 16-bit elements in shared memory.

    each block                                  rows x spans x columns of the output
      sums = 0                                  matrices in the registers of each warp
      for each part of the reduction
        all threads: copy the block's part of both operands      shared
        for each matrix of the part
          each warp: multiply-add its matrices  mma
      epilogue and store

Variables have the same roles as in `shared_tile`; the longest reduce variable that moves both
operands alone is the depth of the matrices. A convolution is one matrix product for each position
in its window: the part of an image in shared memory is used for all of them.

Matrices are whole: the contraction is padded, with zeros along the depth in shared memory, and
results out of bounds are not stored. Rows of shared tiles run along the depth, or along rows or
columns if the operand is contiguous along them, in different banks, so that `ldmatrix` loads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import prod

from tcopt.dialects.fragments import MATRIX
from tcopt.dialects.graph.core.forms import CONTRACTION
from tcopt.dialects.intrinsics import Intrinsic
from tcopt.dialects.loop import LoadOp, StoreOp
from tcopt.schedules.analysis.patterns import BlockPattern, StridedAccess, match_block
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.epilogue import blocks_beside, take_epilogue
from tcopt.schedules.rules.gpu.register_tile import only_contraction
from tcopt.schedules.rules.gpu.shared_tile import find_roles, tile_parts
from tcopt.schedules.rules.gpu.shared_tile_choice import choose_tile as choose_shared_tile
from tcopt.schedules.rules.gpu.split_sum import (
    beside_time,
    choose_parts,
    finish_others,
    part_counts,
    split_sum,
)
from tcopt.schedules.rules.gpu.tensor_core_choice import (
    SPACE,
    WarpTile,
    WarpTileCosts,
    choose_warp_tile,
)
from tcopt.schedules.rules.gpu.tensor_core_roles import (
    Factor,
    WarpRoles,
    find_warp_roles,
    matrix_products,
    mmas_for,
)
from tcopt.schedules.rules.gpu.tensor_core_space import WarpTileSpace
from tcopt.schedules.rules.gpu.warp_copy import copy_by_warps
from tcopt.schedules.rules.nests import own_loops, variable_loops
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.spaces.space import Choice
from tcopt.schedules.state.state import buffers_read
from tcopt.support.machines.thread_blocks import ThreadBlocks
from tcopt.support.remarks import remark

WRITTEN_OUT = 128
"""Maximum number of unrolled products of a warp."""


CLEARLY = 1.25
"""Ratio from which one of two estimates by different cost models is taken to be longer."""


@schedule_rule(target="gpu", priority=110)
class TensorCoreTiles:
    """Rule for contractions of 16-bit elements, on targets whose warps multiply matrices."""

    name = "gpu-tensor-core-tile"
    provides = (CONTRACTION,)

    def space(self, sch: Schedule, facts: ThreadBlocks) -> WarpTileSpace | Declined:
        known = matrix_products(facts)
        if not known:
            return Declined("warps of the target do not multiply matrices", quiet=True)
        pattern = only_contraction(sch)
        if isinstance(pattern, Declined):
            return Declined(pattern.reason, quiet=True)
        if not pattern.has_own_buffers:
            return Declined("both operands are in one buffer", quiet=True)
        mmas = mmas_for(pattern, known)
        if isinstance(mmas, Declined):
            return mmas
        roles = find_warp_roles(pattern, facts)
        if isinstance(roles, Declined):
            return roles
        chosen = choose_in_parts(pattern, roles, mmas, facts)
        if chosen is None:
            return Declined("no tile fits shared memory, threads and registers")
        parts, tile, time = chosen
        other = shared_tile_time(pattern, facts)
        if other is not None and CLEARLY * (other + facts.start) <= time + facts.start:
            return Declined(
                f"tiles of matrices are estimated to take {time / other:.1f} times as long as "
                "those of single elements"
            )
        step = min(mma.operands[1].shape[1] for mma in mmas)
        counts = part_counts(pattern, roles.depth, step)
        share = None if other is None else time / other
        return WarpTileSpace(pattern, roles, mmas, facts, tile, parts, counts, share)

    def apply(
        self, sch: Schedule, facts: ThreadBlocks, space: WarpTileSpace, choice: Choice
    ) -> Declined | None:
        pattern, roles, parts = space.pattern, space.roles, choice["parts"]
        block = sch.get_block(pattern.block.block_name.data)
        if space.share is not None:
            text = f"estimated to take {space.share:.2f} of the time without tensor cores"
            remark(self.name, sch.block_op(block), text)
        if parts > 1:
            pattern = split_sum(sch, pattern, roles.depth, parts)
            found = find_warp_roles(pattern, facts)
            if isinstance(found, Declined):
                return found
            roles = found
        left = schedule_tile(sch, pattern, roles, space.tile(choice), facts)
        return finish_others(sch, block, parts, left, facts)


def choose_in_parts(
    pattern: BlockPattern, roles: WarpRoles, mmas: list[Intrinsic], facts: ThreadBlocks
) -> tuple[int, WarpTile, float] | None:
    """Return the number of parts of each sum, the tile, and the estimated time of all launches."""
    whole = choose_warp_tile(pattern, roles, mmas, facts)
    if whole is None:
        return None

    @cache
    def tiled(parts: int) -> tuple[WarpTile, float] | None:
        return choose_warp_tile(pattern, roles, mmas, facts, parts) if parts > 1 else whole

    def time(parts: int) -> float | None:
        found = tiled(parts)
        return None if found is None else found[1]

    blocks = WarpTileCosts(pattern, roles, facts).blocks(whole[0])
    step = min(mma.operands[1].shape[1] for mma in mmas)
    parts = choose_parts(pattern, roles.depth, blocks, time, facts, step, facts.matrix_rate)
    tile, alone = tiled(parts) or whole
    return parts, tile, alone + beside_time(pattern, parts, facts)


def shared_tile_time(pattern: BlockPattern, facts: ThreadBlocks) -> float | None:
    """Estimate the cycles of `gpu-shared-tile`."""
    roles = find_roles(pattern, None, facts)
    if isinstance(roles, Declined):
        return None
    parts = tile_parts(pattern, roles, facts)
    found = choose_shared_tile(pattern, roles, facts, parts)
    if found is None:
        return None
    return found[1] + beside_time(pattern, parts, facts)


def schedule_tile(
    sch: Schedule, pattern: BlockPattern, roles: WarpRoles, tile: WarpTile, facts: ThreadBlocks
) -> list[Block] | Declined:
    """Tile the contraction for blocks and warps, with its operands in shared memory.

    Returns:
        The other blocks that need separate launches.
    """
    block = sch.get_block(pattern.block.block_name.data)
    epilogue = take_epilogue(sch, block)
    left = blocks_beside(sch, block, epilogue)
    lanes = _Lanes.of(sch, epilogue, block, roles)
    if lanes is None:
        return Declined("no variables of what follows go along rows and columns")
    remark("schedule", sch.block_op(block), f"tile of {tile}, operands in shared memory")
    factors = roles.left, roles.right
    copies = [_share(sch, block, factor, left) for factor in factors]
    _pad(sch, block, roles, tile)
    loops = variable_loops(sch, block)
    nests = _split(sch, loops, roles, tile)
    blocks, warps, inner, elements = (list(level) for level in zip(*nests, strict=True))
    part, step, term = sch.split(loops.pop(roles.depth), [None, tile.steps, tile.shape[2]])
    reduce = [loops[v] for v in pattern.reduce if v in loops]
    others = [loops[v] for v in pattern.spatial if v in loops]
    row, *between, column = elements
    sch.reorder(*others, *blocks, *warps, part, *reduce, step, *inner, *between, row, column, term)
    _bind(sch, others, "blockIdx.z")
    _bind(sch, blocks[:1], "blockIdx.y")
    _bind(sch, blocks[1:], "blockIdx.x")
    warp = sch.fuse(*warps)
    sch.bind(warp, "threadIdx.y")
    for copy, factor in zip(copies, factors, strict=True):
        _fetch(sch, copy, factor, part, tile, facts)
    init = sch.decompose_reduction(block, part)
    _write_out(sch, inner, [*reduce, step])
    sch.tensorize(row, tile.mma.name)
    sch.set_scope(block, "register")
    _bind_start(sch, init, warp)
    sch.reverse_compute_at(epilogue, warp)
    lanes.bind(sch, epilogue, warp)
    return left


def _split(
    sch: Schedule, loops: dict[int, Loop], roles: WarpRoles, tile: WarpTile
) -> list[list[Loop]]:
    """Split the loops over rows, spans and columns into blocks, warps, matrices and elements."""
    height, width, _ = tile.shape
    parts = zip(
        (roles.rows, roles.spans, roles.columns),
        tile.warps,
        tile.fragments,
        (height, 1, width),
        strict=True,
    )
    return [
        sch.split(loops.pop(variable), [None, *factors])
        for variable, *factors in parts
        if variable is not None
    ]


def _write_out(sch: Schedule, matrices: list[Loop], reduce: list[Loop]) -> None:
    """Unroll the products of a warp, and as many steps of the reduction as fit the limit."""
    for each in matrices:
        sch.unroll(each)
    products = prod(map(sch.extent, matrices))
    for each in reversed(reduce):
        products *= sch.extent(each)
        if products > WRITTEN_OUT:
            break
        sch.unroll(each)


def _bind(sch: Schedule, loops: list[Loop], axis: str) -> None:
    if loops:
        sch.bind(sch.fuse(*loops) if len(loops) > 1 else loops[0], axis)


def _pad(sch: Schedule, block: Block, roles: WarpRoles, tile: WarpTile) -> None:
    """Pad the contraction to whole tiles of blocks."""
    multiples = [1] * len(sch.block_op(block).domain)
    rows, spans, columns = tile.of_block
    multiples[roles.rows], multiples[roles.columns] = rows, columns
    multiples[roles.depth] = tile.depth
    if roles.spans is not None:
        multiples[roles.spans] = spans
    sch.pad_einsum(block, multiples)


def _share(sch: Schedule, block: Block, factor: Factor, left: list[Block]) -> Block:
    """Make a block read an operand from shared memory; return the block that copies it there.

    Args:
        left: producers with separate launches; a padded operand is copied by its producer, which is
            removed from here.
    """
    copy = next((p for p in left if _pads(sch, p, factor.term, block)), None)
    if copy is None:
        place = buffers_read(sch.block_op(block)).index(factor.term.buffer)
        copy = sch.cache_read(block, place, "shared")
    else:
        left.remove(copy)
        sch.set_scope(copy, "shared")
    if not factor.in_order:
        sch.permute_layout(copy, factor.order)
    return copy


def _fetch(
    sch: Schedule, copy: Block, factor: Factor, part: Loop, tile: WarpTile, facts: ThreadBlocks
) -> None:
    """Let all threads of a block copy the operand for a part of the reduction."""
    sch.compute_at(copy, part)
    loops = sch.get_loops(copy)
    loops = loops[loops.index(part) + 1 :]
    lanes = factor.lanes(sch.extent(loops[-1]), facts) if loops else 1
    deep = own_loops(sch, copy, part).get(factor.order[-1]) if not factor.in_order else None
    position = loops.index(deep) if deep is not None else None
    copy_by_warps(sch, loops, prod(tile.warps), facts.warp, lanes, position)
    sch.storage_align(copy, len(factor.order) - 2, 2 * SPACE, SPACE)
    if tile.stages > 1:
        sch.double_buffer(copy, tile.stages)


def _pads(sch: Schedule, producer: Block, term: StridedAccess, block: Block) -> bool:
    """Whether a block pads an operand for this block alone."""
    source = match_block(sch.block_op(producer))
    if source is None or source.block.is_reduction or source.store.buffer is not term.buffer:
        return False
    loads = [t.op.result for t in source.terms if isinstance(t.op, LoadOp)]
    stored = source.store.op
    is_copy = isinstance(stored, StoreOp) and stored.value in loads
    return is_copy and sch.consumers(producer) == [block] and not sch.producers(producer)


def _bind_start(sch: Schedule, init: Block, warp: Loop) -> None:
    """Let each lane initialise the sums that it holds."""
    loops = sch.get_loops(init)
    *outer, row, column = loops[loops.index(warp) + 1 :]
    spread_matrix(sch, outer, row, column, vectors=True)


@dataclass(frozen=True)
class _Lanes:
    """Variables of an epilogue along rows and columns of the sums.

    Attributes:
        vectors: whether a lane's two adjacent elements are handled as a vector.
    """

    rows: int
    columns: int
    vectors: bool

    @classmethod
    def of(cls, sch: Schedule, epilogue: Block, block: Block, roles: WarpRoles) -> _Lanes | None:
        found, source = (match_block(sch.block_op(each)) for each in (epilogue, block))
        if found is None or source is None:
            return None
        sums = source.store
        (read, *_) = (term for term in found.terms if term.buffer is sums.buffer)
        rows, columns = (
            next((v for v in found.spatial if read.steps[v] == sums.steps[role]), None)
            for role in (roles.rows, roles.columns)
        )
        if rows is None or columns is None:
            return None
        whole = found.extents[columns] % 2 == 0
        plain = all(not t.uses(columns) or t.is_unit(columns) for t in (*found.terms, found.store))
        return cls(rows, columns, whole and plain)

    def bind(self, sch: Schedule, epilogue: Block, warp: Loop) -> None:
        """Let each lane compute the epilogue of the sums that it holds, and store the results."""
        loops = own_loops(sch, epilogue, warp)
        row, column = loops.pop(self.rows), loops.pop(self.columns)
        spread_matrix(sch, list(loops.values()), row, column, vectors=self.vectors)


def spread_matrix(
    sch: Schedule, outer: list[Loop], row: Loop, column: Loop, *, vectors: bool
) -> None:
    """Distribute loops over rows and columns of sums over the lanes that hold them.

    Args:
        outer: loops around these, which are unrolled.
        vectors: whether a lane's two adjacent elements are handled as a vector.
    """
    high, low = sch.split(row, [None, MATRIX])
    matrix, pair, two = sch.split(column, [None, MATRIX // 2, 2])
    sch.reorder(*outer, high, matrix, low, pair, two)
    sch.bind(sch.fuse(low, pair), "threadIdx.x")
    if vectors:
        sch.vectorize(two)
    else:
        sch.unroll(two)
    for each in (*outer, high, matrix):
        sch.unroll(each)
