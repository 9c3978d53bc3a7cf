"""Side effects of loop bodies."""

from __future__ import annotations

from collections.abc import Collection

from xdsl.ir import Operation, SSAValue
from xdsl.traits import is_side_effect_free

from tcopt.dialects import loop
from tcopt.support.ir.quick_ir import walk_ops


def has_effect(op: Operation, private: Collection[SSAValue] = ()) -> bool:
    """Whether an op changes memory or orders accesses; a prefetch does not.

    Args:
        private: buffers whose contents do not matter.
    """
    return any(_is_effect(inner, private) for inner in walk_ops(op))


def _is_effect(op: Operation, private: Collection[SSAValue]) -> bool:
    if op.regions or isinstance(op, loop.AllocOp | loop.PrefetchOp | loop.LoadOp):
        return False
    if isinstance(op, loop.StoreOp) and op.memref in private:
        return False
    return not is_side_effect_free(op)
