"""Removing what has no effect from loop functions."""

from __future__ import annotations

from xdsl.ir import Block
from xdsl.traits import IsTerminator, is_side_effect_free

from tcopt.dialects import loop


def erase_dead_buffers(function: loop.FuncOp) -> None:
    """Erase buffers that are never read, what was stored into them, and what that leaves dead."""
    changed = True
    while changed:
        changed = False
        for op in tuple(function.walk()):
            if isinstance(op, loop.AllocOp) and _is_never_read(op):
                for use in tuple(op.result.uses):
                    use.operation.detach()
                    use.operation.erase()
                op.detach()
                op.erase()
                changed = True
        if changed:
            erase_dead_ops(function.body.block)


def erase_dead_ops(block: Block) -> None:
    """Erase unused loads and pure ops, and loops, guards and blocks that do nothing."""
    for op in reversed(tuple(block.ops)):
        for region in op.regions:
            for inner in region.blocks:
                erase_dead_ops(inner)
        if op.has_trait(IsTerminator) or any(result.uses for result in op.results):
            continue
        if isinstance(op, loop.ForOp | loop.GuardOp | loop.BlockOp | loop.InitOp):
            removable = op.body.block.is_empty
        else:
            removable = isinstance(op, loop.LoadOp | loop.AllocOp) or is_side_effect_free(op)
        if removable:
            op.detach()
            op.erase()


def _is_never_read(op: loop.AllocOp) -> bool:
    return all(isinstance(use.operation, loop.StoreOp) for use in op.result.uses)
