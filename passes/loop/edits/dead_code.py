"""Dead code elimination in loop functions."""

from __future__ import annotations

from functools import cache

from xdsl.ir import Block, Operation
from xdsl.traits import IsTerminator, is_side_effect_free

from tcopt.dialects import loop
from tcopt.support.ir.pure_values import is_pure
from tcopt.support.ir.quick_ir import erase_op
from tcopt.support.ir.rewriting import erase


def erase_dead_buffers(function: loop.FuncOp) -> None:
    """Erase buffers that are never read, stores to them, and ops that become dead."""
    changed = True
    while changed:
        changed = False
        for op in tuple(function.walk()):
            if isinstance(op, loop.AllocOp) and _is_never_read(op):
                for use in tuple(op.result.uses):
                    erase(use.operation)
                erase(op)
                changed = True
        if changed:
            erase_dead_ops(function.body.block)


def erase_dead_ops(block: Block) -> None:
    """Erase unused loads and pure ops, and empty loops, guards and blocks."""
    for op in reversed(tuple(block.ops)):
        for region in op.regions:
            for inner in region.blocks:
                erase_dead_ops(inner)
        if any(result.first_use is not None for result in op.results):
            continue
        if isinstance(op, _BODIES):
            removable = op.body.block.is_empty
        else:
            removable = _is_plain(type(op)) or (
                not op.has_trait(IsTerminator) and is_side_effect_free(op)
            )
        if removable:
            erase_op(op)


_BODIES = (loop.ForOp, loop.GuardOp, loop.BlockOp, loop.InitOp)


@cache
def _is_plain(kind: type[Operation]) -> bool:
    """Whether ops of a class have no effect other than their results."""
    if kind.has_trait(IsTerminator):
        return False
    return issubclass(kind, loop.LoadOp | loop.AllocOp) or is_pure(kind)


def _is_never_read(op: loop.AllocOp) -> bool:
    return all(isinstance(use.operation, loop.StoreOp) for use in op.result.uses)
