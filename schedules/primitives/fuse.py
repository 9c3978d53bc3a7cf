"""fuse: merge perfectly nested loops into one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from xdsl.ir.affine import AffineDimExpr

from tcopt.dialects.loop import ForOp, LoopKind
from tcopt.schedules.dependences.order import check_blocks_only
from tcopt.schedules.edits.nest import move_ops, new_loop, replace_variable
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import State, value_label


def fuse(state: State, loops: Sequence[ForOp]) -> ForOp:
    """Fuse loops, given outermost first, into one.

        loop.for %i = 0 to 30 {
          loop.for %j = 0 to 7 {
            loop.block "b" (%vi: spatial 30 = %i, %vj: spatial 7 = %j) {...}

    becomes

        loop.for %i_j = 0 to 210 {
          loop.block "b" (%vi: spatial 30 = %i_j floordiv 7, %vj: spatial 7 = %i_j mod 7) {...}

    Args:
        loops: two or more serial loops; each contains the next one and nothing else.
    Raises:
        ScheduleError: a loop is not serial, or contains more than the next one, or code outside of
            blocks uses its variable.
    """
    if len(loops) < 2:
        raise illegal("fuse", "loops", "give two or more loops")
    for loop in loops:
        if loop.loop_kind is not LoopKind.SERIAL:
            label = value_label(loop.induction_variable)
            raise illegal("fuse", "loops", f"{label} is {loop.loop_kind.value}, not serial")
        check_blocks_only("fuse", "loops", loop)
    for outer, inner in pairwise(loops):
        body = outer.body.block
        if body.first_op is not inner or body.last_op is not inner:
            raise illegal(
                "fuse",
                "loops",
                f"{value_label(outer.induction_variable)} does not hold exactly "
                f"{value_label(inner.induction_variable)}",
                op=outer,
                hint="reorder the loops, or fuse before moving other blocks between them",
            )
    extents = [loop.trip_count for loop in loops]
    names = [loop.induction_variable.name_hint for loop in loops]
    fused = new_loop(prod(extents), "_".join(n for n in names if n) or None, loops[0])
    for position, loop in enumerate(loops):
        index = AffineDimExpr(0) // max(prod(extents[position + 1 :]), 1)
        if position:
            index = index % max(extents[position], 1)
        replace_variable(loop, index, [fused.induction_variable])
    move_ops(loops[-1].body.block, fused.body.block)
    parent = loops[0].parent_block()
    assert parent is not None
    parent.insert_op_before(fused, loops[0])
    loops[0].detach()
    loops[0].erase()
    for loop in loops:
        state.gone[loop] = f"it was fused into {value_label(fused.induction_variable)}"
    return fused
