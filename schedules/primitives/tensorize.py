"""tensorize: replace loops by a hardware intrinsic."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr

from tcopt.dialects.loop import BlockOp, ForOp, IntrinOp
from tcopt.dialects.loop.conditions import merge_maps
from tcopt.dialects.loop.intrin import scope_mismatch
from tcopt.schedules.analysis.behaviours import Behaviour, Mismatch, behaviour_of, match_behaviour
from tcopt.schedules.dependences.conflicts import check_serial
from tcopt.schedules.edits.nest import set_bindings
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import State, block_label, loops_of, value_label
from tcopt.support.errors import UnsupportedError

_NAME = "tensorize"


def tensorize(state: State, target: ForOp | BlockOp, name: str) -> None:
    """Replace the loops below `target` by a hardware intrinsic.

        loop.for %j = 0 to 16 {
          loop.for %ki = 0 to 2 {
            loop.block "mm" (%vj: spatial 16 = %j, %vk: reduce 64 = %ko * 2 + %ki) {
              ...                                     // c[%vj] += a[%vk] * b[%vk, %vj], in f32

    becomes, for `tensorize(ki, "bf16_dot")`,

        loop.for %j = 0 to 16 {
          loop.block "mm" (%vj: spatial 16 = %j, %vk: reduce 64 = %ko * 2) {
            loop.intrin "bf16_dot" outs(%c[%vj] : memref<16xf32>)
              ins(%a[%vk] by [1] : memref<64xbf16>, %b[%vk, %vj] by [1, 0] : memref<64x16xbf16>)

    The loops must match the intrinsic's behaviour (`dialects/intrinsics/`): the same number, order,
    extents and kinds of loops, around one block that computes the same expression of operands with
    the same element types. Operands may have any linear layout in their buffers. The block's
    variables that moved along the loops become the indices of a tile's first element. Operands of
    an accelerator's intrinsic must be in the memories that it declares.

    Args:
        target: the outermost of the loops; or the block, which stands for as many loops around it
            as the intrinsic has.
        name: the intrinsic.
    Raises:
        ScheduleError: there is no such intrinsic, the block still has its init, or the loops differ
            from the behaviour; the message says how.
    """
    try:
        behaviour = behaviour_of(name)
    except UnsupportedError as error:
        raise illegal(_NAME, "intrinsic", error.message, hint=error.hint) from None
    block, loops = _nest(target, behaviour)
    for each in loops:
        check_serial(_NAME, each)
    if block.init is not None:
        raise illegal(
            _NAME,
            "target",
            f"block {block_label(block)} still starts its reduction",
            op=block,
            hint="decompose_reduction comes before tensorize",
        )
    try:
        matched = match_behaviour(behaviour, block, loops)
    except Mismatch as reason:
        raise illegal(
            _NAME, "target", f"the loops do not match intrinsic '{name}': {reason}", op=block
        ) from None
    map, indices = merge_maps([(op.map.data, list(op.indices)) for op in matched.accesses])
    output, *inputs = (op.memref for op in matched.accesses)
    if output in inputs:
        reason = f"{value_label(output)} is its output and an input, and would be read too early"
        raise illegal(_NAME, "target", reason, op=block)
    if (reason := scope_mismatch(behaviour.declared, [output, *inputs])) is not None:
        hint = "cache_read, cache_write and set_scope put buffers into memories"
        raise illegal(_NAME, "target", reason, op=block, hint=hint)
    call = IntrinOp(name, [output], inputs, map, indices, matched.steps)
    call.location = block.location
    body = block.body.block
    for op in reversed(list(body.ops)):
        op.detach()
        op.erase()
    body.add_op(call)
    _leave(state, block, loops, name)


def _nest(target: ForOp | BlockOp, behaviour: Behaviour) -> tuple[BlockOp, list[ForOp]]:
    """Return the block, and the loops that the intrinsic replaces, outermost first."""
    if isinstance(target, BlockOp):
        count, around = len(behaviour.axes), loops_of(target)
        if len(around) < count:
            reason = f"{len(around)} loops are around the block where the intrinsic has {count}"
            raise illegal(_NAME, "target", reason, op=target)
        return _nest(around[-count], behaviour)
    loops = [target]
    while True:
        inside = list(loops[-1].body.block.ops)
        if len(inside) != 1:
            reason = f"{value_label(loops[-1].induction_variable)} holds {len(inside)} ops, not one"
            raise illegal(_NAME, "target", reason, op=loops[-1])
        match inside[0]:
            case ForOp() as inner:
                loops.append(inner)
            case BlockOp() as block:
                return block, loops
            case other:
                reason = f"{value_label(loops[-1].induction_variable)} holds a {other.name}"
                raise illegal(_NAME, "target", reason, op=loops[-1])


def _leave(state: State, block: BlockOp, loops: Sequence[ForOp], name: str) -> None:
    """Replace the loops by the block; their variables become 0 in its bindings."""
    gone = {each.induction_variable for each in loops}
    values = list(block.operands_)
    dims: list[AffineExpr] = [
        AffineConstantExpr(0) if value in gone else AffineDimExpr(position)
        for position, value in enumerate(values)
    ]
    exprs = [e.replace_dims_and_symbols(dims, ()) for e in block.bindings.data.results]
    set_bindings(block, exprs, values)
    outer = loops[0]
    parent = outer.parent_block()
    assert parent is not None
    block.detach()
    parent.insert_op_before(block, outer)
    outer.detach()
    outer.erase()
    for each in loops:
        state.gone[each] = f"it became intrinsic '{name}'"
