"""Asynchronous copies of tiles, several iterations before their use."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import FixedBitwidthType, FloatAttr, MemRefType, UnitAttr
from xdsl.ir import Operation
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.dialects.loop.memory import ASYNC
from tcopt.dialects.simt_copies import CommitCopiesOp, WaitCopiesOp
from tcopt.dialects.size import extents_of
from tcopt.passes.loop.buffers.tile_fills import Fill
from tcopt.passes.loop.edits.dimensions import add_dimension, reshape

COPY_BITS = (32, 64, 128)
"""Sizes of asynchronous copies."""

_MOST_UNROLLED = 16
"""Maximum number of unrolled copies of a thread."""


def is_copied(fill: Fill) -> bool:
    """Whether a tile is filled by copies of whole words from memory."""
    store, load = fill.store, fill.store.value.owner
    if not isinstance(load, loop.LoadOp) or not load.result.has_one_use():
        return False
    owner = load.memref.owner
    if isinstance(owner, loop.AllocOp) and owner.scope.data is not loop.Scope.GLOBAL:
        return False
    default = load.default
    if default is not None and not (isinstance(default, FloatAttr) and _is_zero(default)):
        return False
    around = store.parent_op()
    type_ = fill.alloc.result.type
    assert isa(type_, MemRefType)
    element = type_.get_element_type()
    bits = element.bitwidth if isinstance(element, FixedBitwidthType) else 0
    if isinstance(around, loop.ForOp) and around.loop_kind is loop.LoopKind.VECTORIZED:
        bits *= around.trip_count
    return bits in COPY_BITS


def _is_zero(value: FloatAttr) -> bool:
    return value.value.data == 0


def copy_ahead(fills: Sequence[Fill], slots: int, rewriter: PatternRewriter) -> None:
    """Copy the tiles of one loop asynchronously, `slots - 1` iterations ahead."""
    around = fills[0].loop
    ahead = slots - 1
    order = [op for op in around.body.block.ops if any(fill.op is op for fill in fills)]
    for number in range(ahead):
        first = [fill.at(AffineConstantExpr(number), slots) for fill in fills]
        rewriter.insert([*first, CommitCopiesOp()], InsertPoint.before(around))
    later = AffineDimExpr(0) + ahead
    copies: list[Operation] = [WaitCopiesOp(ahead - 1)]
    for fill in fills:
        nest = fill.at(later, slots)
        _unroll(nest)
        copies.append(fill.guarded(nest, ahead))
    rewriter.insert([*copies, CommitCopiesOp()], InsertPoint.before(order[0]))
    for fill in fills:
        for use in fill.uses:
            add_dimension(use, AffineDimExpr(0) % slots, [around.induction_variable])
        rewriter.erase(fill.op)


def give_slots(alloc: loop.AllocOp, slots: int, *, is_async: bool) -> None:
    """Give a buffer its slots, along a new first dimension."""
    new = reshape(alloc, [slots, *extents_of(alloc.result.type)])
    if is_async:
        new.attributes[ASYNC] = UnitAttr()


def _unroll(nest: Operation) -> None:
    """Unroll the copies of a thread if they are few."""
    loops = [op for op in nest.walk() if isinstance(op, loop.ForOp)]
    serial = [op for op in loops if op.loop_kind is loop.LoopKind.SERIAL]
    count = 1
    for each in serial:
        count *= each.trip_count
    if count <= _MOST_UNROLLED:
        for each in serial:
            each.kind = loop.LoopKindAttr(loop.LoopKind.UNROLLED)
