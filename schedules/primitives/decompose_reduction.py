"""decompose_reduction: make the initialisation of a reduction a separate block."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineMap

from tcopt.dialects.loop import BlockOp, ForOp, InitOp, IterKind, LoadOp, LoopKind
from tcopt.dialects.loop.analysis import binding_values
from tcopt.dialects.loop.dependences import runs_once
from tcopt.schedules.dependences.order import check_passed, check_runs, check_single
from tcopt.schedules.edits.nest import (
    bound_values,
    check_visible,
    hoist_alloc,
    new_loop,
    set_bindings,
)
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import State, block_label, buffers_written, loops_of, value_label

_NAME = "decompose_reduction"
_KEPT_KINDS = (LoopKind.VECTORIZED, LoopKind.UNROLLED)


def decompose_reduction(state: State, block: BlockOp, loop: ForOp) -> BlockOp:
    """Move a block's init before `loop`, as a block over the spatial loops inside.

        loop.for %jo = 0 to 4 {
          loop.for %k = 0 to 32 {
            loop.for %ji = 0 to 16 {
              loop.block "mm" (%vj: spatial 64 = %jo * 16 + %ji, %vk: reduce 32 = %k) {
                loop.init { loop.store %zero, %y[%vj] }
                ...

    becomes, for `decompose_reduction(mm, k)`,

        loop.for %jo = 0 to 4 {
          loop.for %ji = 0 to 16 {
            loop.block "mm_init" (%vj: spatial 64 = %jo * 16 + %ji) { loop.store %zero, %y[%vj] }
          }
          loop.for %k = 0 to 32 {
            loop.for %ji = 0 to 16 {
              loop.block "mm" (%vj: spatial 64 = %jo * 16 + %ji, %vk: reduce 32 = %k) { ... }

    New loops keep the kinds `vectorized` and `unrolled`.

    Args:
        block: a block with an init.
        loop: a loop around it; the block reduces over no loop outside of it.
    Returns:
        The new block, `<block>_init`.
    Raises:
        ScheduleError: the block has no init, the loop is not around the block, or the loop is
            inside a loop of the reduction.
    """
    init = block.init
    if init is None:
        raise illegal(_NAME, "block", "it has no loop.init to move", op=block)
    around = loops_of(block)
    if loop not in around:
        label = value_label(loop.induction_variable)
        raise illegal(_NAME, "loop", f"{label} is not around block {block_label(block)}", op=loop)
    place = around.index(loop)
    reduced = bound_values(block, IterKind.REDUCE)
    _check_loops(block, loop, around[:place], reduced)
    if not runs_once(block, loop):
        reason = f"iterations of it run block {block_label(block)} for the same points again"
        raise illegal(_NAME, "loop", reason, op=loop)
    buffers = buffers_written(block)
    check_visible(_NAME, block, buffers, loop)
    _check_start(state, block, init, loop)
    inside = [o for o in around[place:] if o.induction_variable not in reduced]
    fresh = _init_block(state, block, reduced)
    spatial = set(fresh.operands_)
    outer: ForOp | BlockOp = fresh
    operands = list(fresh.operands_)
    for old in reversed(inside):
        if old.induction_variable not in spatial:
            continue
        kind = old.loop_kind if old.loop_kind in _KEPT_KINDS else LoopKind.SERIAL
        new = new_loop(old.trip_count, old.induction_variable.name_hint, old, kind)
        new.body.block.add_op(outer)
        operands = [new.induction_variable if v is old.induction_variable else v for v in operands]
        outer = new
    set_bindings(fresh, fresh.bindings.data.results, operands)
    parent = loop.parent_block()
    assert parent is not None
    parent.insert_op_before(outer, loop)
    init.detach()
    init.erase()
    state.add_block(fresh)
    for buffer in buffers:
        hoist_alloc(state, buffer)
    return fresh


def _check_start(state: State, block: BlockOp, init: InitOp, loop: ForOp) -> None:
    """Check that the buffers that the init reads and writes are not used otherwise in the loop."""
    known = state.known
    check_runs(_NAME, block)
    for buffer in buffers_written(block):
        check_single(known, _NAME, block, buffer, any_order=False)
    if not known.is_free:
        starts = [op for op in init.body.walk() if isinstance(op, LoadOp)]
        read = dict.fromkeys(op.memref for op in starts)
        check_passed(known, _NAME, block, read, [loop])


def _check_loops(block: BlockOp, loop: ForOp, outer: list[ForOp], reduced: set[SSAValue]) -> None:
    for other in outer:
        if other.induction_variable in reduced:
            raise illegal(
                _NAME,
                "loop",
                f"{value_label(other.induction_variable)}, outside it, is a loop of the "
                "reduction, and each of its iterations would start over",
                op=loop,
            )
    for value in reduced & bound_values(block, IterKind.SPATIAL):
        reason = f"{value_label(value)} is both a spatial and a reduce loop of the block"
        raise illegal(_NAME, "block", reason, op=block)


def _init_block(state: State, block: BlockOp, reduced: set[SSAValue]) -> BlockOp:
    """Build a block over the spatial variables from the init, still bound to the old loops."""
    assert block.init is not None
    kept = [
        p
        for p, kind in enumerate(block.iter_kinds)
        if kind is IterKind.SPATIAL and reduced.isdisjoint(binding_values(block, p))
    ]
    body = Block(arg_types=[IndexType()] * len(kept))
    mapping: dict[SSAValue, SSAValue] = {}
    for new, position in zip(body.args, kept, strict=True):
        old = block.iter_vars[position]
        new.name_hint = old.name_hint
        mapping[old] = new
    body.add_ops([op.clone(mapping) for op in block.init.body.block.ops])
    fresh = BlockOp(
        state.fresh_name(f"{block.block_name.data}_init"),
        [IterKind.SPATIAL] * len(kept),
        [block.live_domain[p] for p in kept],
        AffineMap(0, 0, ()),
        [],
        Region(body),
    )
    fresh.location = block.location
    exprs = [block.bindings.data.results[p] for p in kept]
    set_bindings(fresh, exprs, list(block.operands_))
    return fresh
