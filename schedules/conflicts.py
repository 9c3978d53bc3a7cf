"""May the iterations of a loop run at the same time?"""

from __future__ import annotations

from xdsl.ir import SSAValue

from tcopt.dialects.loop import BlockOp, ForOp, IterKind, LoopKind
from tcopt.dialects.loop.analysis import binding_values
from tcopt.schedules.distinct import separates
from tcopt.schedules.failure import illegal
from tcopt.schedules.regions import writes_of
from tcopt.schedules.state import (
    alloc_of,
    block_label,
    blocks_under,
    buffers_written,
    value_label,
)


def check_serial(primitive: str, loop: ForOp) -> None:
    """Raises ScheduleError unless the loop still has no kind."""
    if loop.loop_kind is not LoopKind.SERIAL:
        raise illegal(primitive, "loop", f"it is already {loop.loop_kind.value}", op=loop)


def check_independent(primitive: str, loop: ForOp) -> None:
    """Check that no two iterations of `loop` touch an element that one of them writes.

    Raises:
        ScheduleError: a reduction runs over the loop, or two iterations write one element.
    """
    for block in blocks_under(loop):
        check_not_reduced(primitive, loop, block)
        for buffer in buffers_written(block):
            if _is_private(buffer, loop) or _writes_apart(block, buffer, loop):
                continue
            raise illegal(
                primitive,
                "loop",
                f"two iterations of {value_label(loop.induction_variable)} may write one "
                f"element of {value_label(buffer)} in block {block_label(block)}",
                op=loop,
            )


def check_not_reduced(primitive: str, loop: ForOp, block: BlockOp) -> None:
    """Raises ScheduleError if a reduce variable of `block` runs over `loop`."""
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


def _is_private(buffer: SSAValue, loop: ForOp) -> bool:
    alloc = alloc_of(buffer)
    return alloc is not None and loop.is_ancestor(alloc)


def _writes_apart(block: BlockOp, buffer: SSAValue, loop: ForOp) -> bool:
    used: set[SSAValue] = set()
    for access in writes_of(block, buffer):
        if access.indices is None:
            return False
        used.update(access.operands)
    positions = [p for p, v in enumerate(block.iter_vars) if v in used]
    return separates(block, positions, loop)
