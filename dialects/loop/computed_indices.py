"""Verification that indices computed from data are provably in bounds.

An index of a load or store that is not made of loop variables alone must be provably inside the
buffer: by the operations that compute it, or by the conditions of enclosing `scf.if` ops.

    scf.if %inside {                              %inside is 0 <= %place and %place < 16
      loop.store %v, %y[%place] : memref<16xf32>
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.loop.block import BlockOp, GuardOp
from tcopt.dialects.loop.index_ops import IndexOp
from tcopt.dialects.loop.structure import ForOp, is_size, variable_range
from tcopt.dialects.value_ranges import ValueRanges
from tcopt.support.arithmetic.affine import bounds
from tcopt.support.arithmetic.intervals import Range


def is_computed(value: SSAValue) -> bool:
    """Whether an index depends on anything other than loop and block variables, and sizes."""
    owner = value.owner
    if isinstance(owner, IndexOp):
        return any(is_computed(operand) for operand in owner.indices)
    if isinstance(owner, Block):
        return not (is_size(value) or isinstance(owner.parent_op(), ForOp | BlockOp))
    return True


def verify_limits(
    op: Operation,
    map: AffineMap,
    indices: Sequence[SSAValue],
    shape: Sequence[int],
    reaches: Sequence[Range],
    *,
    has_mask: bool,
) -> None:
    """Raise VerifyException unless every computed index of an access is inside `shape`.

    Args:
        reaches: the minimum and maximum offset of the lanes from the first, per dimension.
        has_mask: whether a mask disables lanes whose loop-variable indices are out of bounds.
    """
    computed = [is_computed(value) for value in indices]
    if not any(computed):
        return
    around = ranges_at(op.parent)
    ranges = [around.integers(value) for value in indices]
    if has_mask or _has_guard(op):
        # Guards and masks bound the loop variables jointly, so only computed indices are checked.
        ranges = [r if c else (0, 0) for r, c in zip(ranges, computed, strict=True)]
        reaches = [(0, 0)] * len(shape)
    rows = enumerate(zip(map.results, shape, reaches, strict=True))
    for position, (expr, size, (below, above)) in rows:
        if not any(computed[dim] for dim in expr.used_dims()):
            continue
        low, high = bounds(expr, ranges)
        if low + below < 0 or high + above >= size:
            raise VerifyException(
                f"index {position} is computed and may be any of [{low + below}, {high + above}]; "
                f"limit it to [0, {size - 1}], or check it in an enclosing scf.if"
            )


def ranges_at(block: Block | None) -> ValueRanges:
    """Return the ranges of values in a block, given the conditions around it."""
    ranges = ValueRanges(_leaf_range)
    for condition, holds in reversed(list(_conditions_around(block))):
        ranges = ranges.assuming(condition, holds)
    return ranges


def _conditions_around(block: Block | None) -> Iterator[tuple[SSAValue, bool]]:
    """Yield conditions of enclosing `scf.if` ops and whether they hold, innermost first."""
    while block is not None:
        parent = block.parent_op()
        if isinstance(parent, scf.IfOp):
            yield parent.cond, block.parent is parent.true_region
        block = None if parent is None else parent.parent


def _has_guard(op: Operation) -> bool:
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, GuardOp):
        parent = parent.parent_op()
    return parent is not None


def _leaf_range(value: SSAValue, ranges: ValueRanges) -> Range | None:
    """Return the range of a loop's or block's variable, or of `loop.index`."""
    owner = value.owner
    if isinstance(owner, IndexOp):
        return bounds(owner.map.data.results[0], [ranges.integers(v) for v in owner.indices])
    loop = owner.parent_op() if isinstance(owner, Block) else None
    if isinstance(loop, scf.ForOp) and value is loop.body.block.args[0]:
        return ranges.integers(loop.lb)[0], ranges.integers(loop.ub)[1] - 1
    return variable_range(value)
