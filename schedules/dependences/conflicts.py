"""Checks that the iterations of a loop may run concurrently."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tcopt.dialects.fast_math import order_reason
from tcopt.dialects.loop import BlockOp, ForOp, IterKind, LoopKind, StoreOp
from tcopt.dialects.loop.analysis import binding_values
from tcopt.dialects.loop.dependences import separates
from tcopt.dialects.loop.updates import update_of
from tcopt.schedules.analysis.regions import reads_of, writes_of
from tcopt.schedules.dependences.order import check_iterations
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import (
    State,
    block_label,
    blocks_under,
    buffers_written,
    is_inside,
    value_label,
)


def check_serial(primitive: str, loop: ForOp) -> None:
    """Raise ScheduleError unless the loop is still serial."""
    if loop.loop_kind is not LoopKind.SERIAL:
        raise illegal(primitive, "loop", f"it is already {loop.loop_kind.value}", op=loop)


def check_independent(state: State, primitive: str, loop: ForOp) -> None:
    """Check that no two iterations of `loop` access the same element if one of them writes it.

    Raises:
        ScheduleError: a reduction runs over the loop, two iterations may write the same element, or
            one may read an element that another writes.
    """
    blocks = list(blocks_under(loop))
    for block in blocks:
        check_not_reduced(primitive, loop, block)
    check_iterations(state.known, primitive, loop)
    for block in blocks:
        for buffer in buffers_written(block):
            if buffer in state.known.shared:
                continue
            if is_inside(buffer, loop) or _writes_apart(block, buffer, loop):
                continue
            raise illegal(
                primitive,
                "loop",
                f"two iterations of {value_label(loop.induction_variable)} may write the same "
                f"element of {value_label(buffer)} in block {block_label(block)}",
                op=loop,
            )


def check_not_reduced(primitive: str, loop: ForOp, block: BlockOp) -> None:
    """Raise ScheduleError if a reduce variable of `block` runs over `loop`."""
    for position, kind in enumerate(block.iter_kinds):
        bound = loop.induction_variable in binding_values(block, position)
        if kind is IterKind.REDUCE and bound:
            raise illegal(
                primitive,
                "loop",
                f"block {block_label(block)} reduces over it, so its iterations depend on "
                "each other",
                op=loop,
                hint="rfactor gives each iteration a result of its own",
            )


def combines_terms(loop: ForOp, block: BlockOp, primitive: str) -> bool:
    """Whether a loop only combines terms of a block's reduction, by an associative operation.

    The block must read the accumulator for nothing else.

    Raises:
        ScheduleError: the terms must be combined in their order.
    """
    variable = loop.induction_variable
    kinds = [
        kind
        for p, kind in enumerate(block.iter_kinds)
        if variable in binding_values(block, p) and not block.is_size_guard(p)
    ]
    if not kinds or any(kind is not IterKind.REDUCE for kind in kinds):
        return False
    stores = [op for op in block.body.walk() if isinstance(op, StoreOp)]
    steps = [op for op in stores if op.parent_op() is block]
    if len(steps) != 1 or any(op.memref is not steps[0].memref for op in stores):
        return False
    update = update_of(steps[0])
    if update is None or [a.op for a in reads_of(block, steps[0].memref)] != [update.accumulator]:
        return False
    if not update.in_any_order:
        reason = f"in block {block_label(block)} {order_reason(update.combine)}"
        raise illegal(primitive, "loop", reason, op=loop)
    return True


def _writes_apart(block: BlockOp, buffer: SSAValue, loop: ForOp) -> bool:
    used: set[SSAValue] = set()
    for access in writes_of(block, buffer):
        used.update(access.operands)
    positions = [p for p, v in enumerate(block.iter_vars) if v in used]
    return separates(block, positions, loop)
