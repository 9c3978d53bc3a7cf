"""bind: map the iterations of a loop to a hardware thread axis."""

from __future__ import annotations

from tcopt.dialects.loop import (
    THREAD_AXES,
    BlockOp,
    ForOp,
    LoopKind,
    LoopKindAttr,
    ThreadAxis,
    ThreadAxisAttr,
)
from tcopt.schedules.dependences.conflicts import check_independent, check_serial, combines_terms
from tcopt.schedules.dependences.order import check_iterations
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import (
    State,
    alloc_of,
    block_label,
    blocks_under,
    buffers_read,
    buffers_written,
    loops_of,
    value_label,
)


def bind(state: State, loop: ForOp, axis: ThreadAxis) -> None:
    """Map the iterations of `loop` to the positions of a thread axis.

        loop.for %i = 0 to 64 {    ->    loop.for %i = 0 to 64 thread threadIdx.x {

    A loop nested in a loop bound to the same axis distributes work that all threads of a block
    need, such as filling a shared buffer:

        loop.for %t = 0 to 64 thread threadIdx.x {
          loop.for %k = 0 to 8 {
            loop.for %c = 0 to 64 thread threadIdx.x {
              loop.block "x_shared" (%v: spatial 512 = %k * 64 + %c) {...}

    A loop over which a block reduces may be bound to `threadIdx` if it contains nothing else: the
    threads then combine their terms, by `lower-thread-reductions`, for which a sum or product of
    floats needs `fastmath<reassoc>`. `rfactor` creates such loops.

    Args:
        loop: a serial loop.
        axis: the axis; no loop inside may be bound to it.
    Raises:
        ScheduleError: the axis is already used inside, a block reduces over the loop, or two
            iterations may write the same element. If the loop is inside a loop bound to the same
            axis: it has more iterations than that loop, or a block writes anything but shared
            memory or depends on that loop.
    """
    check_serial("bind", loop)
    for other in loop.walk():
        if isinstance(other, ForOp) and other.axis is not None and other.axis.data is axis:
            label = value_label(other.induction_variable)
            reason = f"{axis.value} is taken by {label} inside"
            hint = "bind outer loops first"
            raise illegal("bind", "axis", reason, op=loop, hint=hint)
    for other in loops_of(loop):
        if other.axis is not None and other.axis.data is axis:
            _check_shared_work(state, loop, other, axis)
    if not (axis in THREAD_AXES and _combines_threads(loop)):
        check_independent(state, "bind", loop)
    loop.kind = LoopKindAttr(LoopKind.THREAD)
    loop.axis = ThreadAxisAttr(axis)


def _combines_threads(loop: ForOp) -> bool:
    """Whether a loop only combines one term of each iteration with the same element."""
    (first, *others) = loop.body.block.ops
    if others or not isinstance(first, BlockOp):
        return False
    return combines_terms(loop, first, "bind")


def _check_same_for_all(state: State, loop: ForOp, outer: ForOp) -> None:
    """Check that blocks inside do not read buffers private to an iteration of an outer loop."""
    for block in blocks_under(loop):
        for buffer in buffers_read(block):
            alloc = alloc_of(buffer)
            if alloc is not None and outer.is_ancestor(alloc) and buffer in state.known.shared:
                reason = (
                    f"block {block_label(block)} reads {value_label(buffer)}, which is "
                    f"private to each iteration of {value_label(outer.induction_variable)}"
                )
                raise illegal("bind", "axis", reason, op=loop)


def _check_shared_work(state: State, loop: ForOp, outer: ForOp, axis: ThreadAxis) -> None:
    """Check that the work of `loop` may be shared by the iterations of an outer loop of its
    axis."""
    label = value_label(outer.induction_variable)
    if axis not in THREAD_AXES:
        raise illegal("bind", "axis", f"{axis.value} is taken by {label}", op=loop)
    check_iterations(state.known, "bind", outer)
    _check_same_for_all(state, loop, outer)
    for block in blocks_under(loop):
        for buffer in buffers_written(block):
            alloc = alloc_of(buffer)
            if alloc is None or not alloc.scope.data.is_shared:
                reason = (
                    f"{axis.value} is taken by {label}, and block {block_label(block)} writes "
                    f"{value_label(buffer)}, which is not shared"
                )
                raise illegal("bind", "axis", reason, op=loop)
        if outer.induction_variable in block.operands:
            reason = (
                f"{axis.value} is taken by {label}, on which block {block_label(block)} depends"
            )
            raise illegal("bind", "axis", reason, op=loop)
    if loop.trip_count > outer.trip_count:
        reason = f"{label} has only {outer.trip_count} threads for {loop.trip_count} iterations"
        hint = f"split it by {outer.trip_count} and bind the inner loop"
        raise illegal("bind", "loop", reason, op=loop, hint=hint)
