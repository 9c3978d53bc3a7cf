"""Asynchronous copies of tiles, several iterations before their use."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import (
    FixedBitwidthType,
    IndexType,
    MemRefType,
    UnitAttr,
)
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.dialects.loop.memory import ASYNC
from tcopt.dialects.simt_copies import CommitCopiesOp, WaitCopiesOp
from tcopt.dialects.size import extents_of
from tcopt.passes.loop.analysis.surroundings import knowledge_at
from tcopt.passes.loop.buffers.tile_fills import Fill
from tcopt.passes.loop.edits.dimensions import add_dimension, reshape
from tcopt.passes.loop.edits.substitution import substitute_values
from tcopt.support.ir.literals import number_attr

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
    if default is not None and default.value.data != 0:
        return False
    around = store.parent_op()
    type_ = fill.alloc.result.type
    assert isa(type_, MemRefType)
    element = type_.get_element_type()
    bits = element.bitwidth if isinstance(element, FixedBitwidthType) else 0
    if isinstance(around, loop.ForOp) and around.loop_kind is loop.LoopKind.VECTORIZED:
        bits *= around.trip_count
    return bits in COPY_BITS


def copy_ahead(fills: Sequence[Fill], slots: int, rewriter: PatternRewriter) -> None:
    """Copy the tiles of one loop asynchronously, `slots - 1` iterations ahead."""
    around = fills[0].loop
    ahead = slots - 1
    order = [op for op in around.body.block.ops if any(fill.op is op for fill in fills)]
    for number in range(ahead):
        first = [fill.at(AffineConstantExpr(number), slots) for fill in fills]
        rewriter.insert([*first, CommitCopiesOp()], InsertPoint.before(around))
    nests = [fill.at(AffineDimExpr(0) + ahead, slots) for fill in fills]
    for nest in nests:
        _unroll(nest)
        _read_zeros(nest)
    steps = _steps(fills)
    rewriter.insert([WaitCopiesOp(ahead - 1)], InsertPoint.before(order[0]))
    if steps is not None and slots > 2:
        # The copies have time, and do not delay the loads of the first step.
        for nest in nests:
            rewriter.insert(_part(nest, steps), InsertPoint.at_end(steps.body.block))
        rewriter.insert([CommitCopiesOp()], InsertPoint.after(steps))
    else:
        rewriter.insert([*nests, CommitCopiesOp()], InsertPoint.before(order[0]))
    for fill in fills:
        for use in fill.uses:
            add_dimension(use, AffineDimExpr(0) % slots, [around.induction_variable])
        rewriter.erase(fill.op)


def _read_zeros(nest: Operation) -> None:
    """Let the copies of a nest write zeros where they would read beyond the end of a buffer, as
    they do after the last iteration.
    """
    for op in nest.walk():
        if isinstance(op, loop.LoadOp) and op.default is None:
            assert isa(op.memref.type, MemRefType)
            op.default = number_attr(0, op.memref.type.get_element_type())


def _steps(fills: Sequence[Fill]) -> loop.ForOp | None:
    """Return the unrolled loop in which all tiles are used, along which copies can be spread."""
    last = fills[0].last
    if any(fill.last is not last for fill in fills) or not isinstance(last, loop.ForOp):
        return None
    is_repeated = _is_unrolled(last) and last.trip_count > 1
    return last if is_repeated and last.limit is None else None


def _is_unrolled(op: loop.ForOp) -> bool:
    return op.loop_kind is loop.LoopKind.UNROLLED


def _part(nest: Operation, steps: loop.ForOp) -> Operation:
    """Return the part of a thread's copies that a step of a loop makes."""
    variable = steps.induction_variable
    repeated = nest if isinstance(nest, loop.ForOp) and _is_unrolled(nest) else None
    count = 1 if repeated is None else repeated.trip_count
    share = -(-count // steps.trip_count)
    body = Block(arg_types=[IndexType()])
    number = body.args[0]
    position = AffineDimExpr(0) * share + AffineDimExpr(1)
    if repeated is not None:
        number.name_hint = repeated.induction_variable.name_hint
        inner = repeated.body.block
        known = knowledge_at(steps)
        known.enter(steps)
        known.ranges[number] = (0, share - 1)
        values: list[SSAValue] = [variable, number]
        substitute_values(inner, {repeated.induction_variable: (position, values)}, known)
        ops = list(inner.ops)
        for op in ops:
            op.detach()
        copies = Block(ops)
    else:
        copies = Block([nest])
    guard = loop.GuardOp(AffineMap(2, 0, (position,)), [variable, number], [count], Region(copies))
    body.add_op(guard)
    return loop.ForOp(share, Region(body), loop.LoopKind.UNROLLED)


def give_slots(alloc: loop.AllocOp, slots: int, *, is_async: bool) -> None:
    """Give a buffer its slots, along a new first dimension."""
    new = reshape(alloc, [slots, *extents_of(alloc.result.type)])
    if is_async:
        new.attributes[ASYNC] = UnitAttr()


def _unroll(nest: Operation) -> None:
    """Unroll the copies of a thread if they are few."""
    loops = [op for op in nest.walk() if isinstance(op, loop.ForOp)]
    serial = [op for op in loops if op.loop_kind is loop.LoopKind.SERIAL]
    if prod(each.trip_count for each in serial) <= _MOST_UNROLLED:
        for each in serial:
            each.kind = loop.LoopKindAttr(loop.LoopKind.UNROLLED)
