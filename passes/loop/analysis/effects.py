"""Side effects of loop bodies, and the guards that decide whether they happen."""

from __future__ import annotations

from xdsl.ir import Block, Operation
from xdsl.traits import is_side_effect_free

from tcopt.dialects import loop
from tcopt.support.ir.quick_ir import walk_ops


def has_effect(op: Operation) -> bool:
    """Whether an op changes memory or orders accesses; a prefetch does not."""
    return any(_is_effect(inner) for inner in walk_ops(op))


def _is_effect(op: Operation) -> bool:
    if op.regions or isinstance(op, loop.AllocOp | loop.PrefetchOp | loop.LoadOp):
        return False
    return not is_side_effect_free(op)


def guards_of_effects(block: Block) -> list[loop.GuardOp]:
    """Return the outermost guards around all side effects in a block; [] if there are other
    effects, or none."""
    found: list[loop.GuardOp] = []
    for op in block.ops:
        if not has_effect(op):
            continue
        if isinstance(op, loop.GuardOp):
            found.append(op)
            continue
        inner = guards_of_effects(op.body.block) if isinstance(op, loop.ForOp) else []
        if not inner:
            return []
        found += inner
    return found
