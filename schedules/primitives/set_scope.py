"""set_scope: move a buffer to another memory scope."""

from __future__ import annotations

from tcopt.dialects.loop import BlockOp, Scope, ScopeAttr, Sharing
from tcopt.schedules.dependences.order import check_single
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import State, alloc_of, value_label, written_buffer


def set_scope(state: State, block: BlockOp, scope: Scope) -> None:
    """Move the buffer that `block` writes to another memory scope.

        %t = loop.alloc global : memref<64xf32>    ->    %t = loop.alloc register : memref<64xf32>

    Args:
        block: a block that writes one buffer, which the function allocates.
        scope: the new memory scope.
    Raises:
        ScheduleError: the buffer is an argument of the function; or the scope is visible to some
            threads only, and elements may be passed between iterations.
    """
    buffer = written_buffer(block, "set_scope")
    alloc = alloc_of(buffer)
    if alloc is None:
        raise illegal(
            "set_scope",
            "block",
            f"it writes {value_label(buffer)}, an argument of the function",
            op=block,
            hint="cache_write gives it a buffer of its own",
        )
    if scope.sharing is not Sharing.ALL:
        check_single(state.known, "set_scope", block, buffer, any_order=False)
    alloc.scope = ScopeAttr(scope)
