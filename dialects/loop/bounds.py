"""Detection of accesses that are certainly out of bounds.

An index is checked only if its set of values is known exactly: it is linear in loops all of whose
iterations run, and in block variables that take every value of an interval. Accesses under a
guard, mask or condition, and computed indices, are not checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.loop.block import BlockOp
from tcopt.dialects.loop.index_ops import IndexOp
from tcopt.dialects.loop.structure import ForOp, FuncOp, function_of
from tcopt.dialects.size import function_symbols, size_arguments
from tcopt.support.arithmetic.affine import LinearSum, linear_sum, substitute, sum_range
from tcopt.support.arithmetic.intervals import Range
from tcopt.support.arithmetic.sizes import Extent, evaluate, is_fixed


def verify_in_bounds(
    op: Operation,
    indices: Sequence[AffineExpr],
    operands: Sequence[SSAValue],
    reaches: Sequence[Range],
    shape: Sequence[Extent],
) -> None:
    """Check that no element of an access is certainly out of bounds.

    Args:
        indices: the indices of the first element, over `operands`.
        reaches: the minimum and maximum offset of elements from the first, per dimension.
        shape: the extents of the buffer; sizes are checked at both ends of their ranges.
    Raises:
        VerifyException: an index is out of bounds.
    """
    if not _always_runs(op):
        return
    function = None if is_fixed(shape) else function_of(op)
    symbols = () if function is None else function_symbols(function)
    _verify(op, indices, operands, reaches, shape, {s.name: s.high for s in symbols})
    if symbols:
        _verify(op, indices, operands, reaches, shape, {s.name: s.low for s in symbols})


def _verify(
    op: Operation,
    indices: Sequence[AffineExpr],
    operands: Sequence[SSAValue],
    reaches: Sequence[Range],
    shape: Sequence[Extent],
    sizes: Mapping[str, int],
) -> None:
    """Check that no element of an access is out of bounds for given sizes."""
    values = _Values(sizes)
    known = [values.expand(operand) for operand in operands]
    for position, (expr, (below, above), extent) in enumerate(
        zip(indices, reaches, shape, strict=True)
    ):
        size = evaluate(extent, sizes)
        used = sorted(expr.used_dims())
        if any(known[place] is None for place in used):
            continue
        total = linear_sum(substitute(expr, [e or AffineDimExpr(0) for e in known]), values.ranges)
        if not total.is_linear:
            continue
        low, high = sum_range(total, values.ranges)
        if low + below < 0 or high + above >= size:
            raise VerifyException(
                f"index {position} ranges over [{low + below}, {high + above}], "
                f"outside of [0, {size - 1}]"
            )


def _always_runs(op: Operation) -> bool:
    """Whether an op runs at least once for each iteration of its enclosing loops."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, FuncOp):
        if isinstance(parent, ForOp):
            if parent.trip_count <= 0 or parent.limit is not None:
                return False
        elif not isinstance(parent, BlockOp):
            return False
        parent = parent.parent_op()
    return isinstance(parent, FuncOp)


@dataclass
class _Values:
    """Values as independent dimensions that take every value of their range."""

    sizes: Mapping[str, int]
    ranges: list[Range] = field(default_factory=list[Range])
    _found: dict[SSAValue, AffineExpr | None] = field(
        default_factory=dict[SSAValue, AffineExpr | None]
    )

    def expand(self, value: SSAValue) -> AffineExpr | None:
        """Express a value over such dimensions; None if its set of values is not known exactly."""
        if value not in self._found:
            self._found[value] = self._expand(value)
        return self._found[value]

    def _expand(self, value: SSAValue) -> AffineExpr | None:
        owner = value.owner
        if isinstance(owner, IndexOp):
            operands = self._expand_all(owner.indices)
            return None if operands is None else substitute(owner.map.data.results[0], operands)
        parent = owner.parent_op() if isinstance(owner, Block) else None
        if isinstance(parent, ForOp):
            return self._dimension((0, parent.trip_count - 1))
        if isinstance(parent, FuncOp):
            found = [name for name, size in size_arguments(parent).items() if size is value]
            return AffineConstantExpr(self.sizes[found[0]]) if found and self.sizes else None
        if isinstance(parent, BlockOp):
            return self._expand_variable(parent, parent.iter_vars.index(value))
        return None

    def _expand_variable(self, block: BlockOp, position: int) -> AffineExpr | None:
        loops = self._expand_all(block.operands_)
        if loops is None:
            return None
        if block.sizes is None:
            domain = block.domain
        elif self.sizes:
            domain = tuple(evaluate(extent, self.sizes) for extent in block.live_domain)
        else:
            return None
        bindings = [substitute(e, loops) for e in block.bindings.data.results]
        sums = [linear_sum(e, self.ranges) for e in bindings]
        if all(
            low >= 0 and high < extent
            for (low, high), extent in zip(map(self._range, sums), domain, strict=True)
        ):
            return bindings[position]
        mine = sums[position]
        others = {atom for p, s in enumerate(sums) if p != position for atom, _ in s.terms}
        if not self._is_gapless(mine) or any(atom in others for atom, _ in mine.terms):
            return None
        if any(
            s.is_constant and not 0 <= s.constant < n for s, n in zip(sums, domain, strict=True)
        ):
            return None
        low, high = self._range(mine)
        low, high = max(low, 0), min(high, domain[position] - 1)
        return self._dimension((low, high)) if low <= high else None

    def _expand_all(self, operands: Sequence[SSAValue]) -> list[AffineExpr] | None:
        known = [self.expand(operand) for operand in operands]
        return [e for e in known if e is not None] if None not in known else None

    def _range(self, value: LinearSum) -> Range:
        return sum_range(value, self.ranges)

    def _is_gapless(self, value: LinearSum) -> bool:
        """Whether a sum takes every value between its bounds."""
        if not value.is_linear:
            return False
        reach = 0
        for atom, factor in sorted(value.terms, key=lambda term: abs(term[1])):
            if abs(factor) > reach + 1:
                return False
            low, high = self._range(LinearSum(((atom, 1),), 0))
            reach += abs(factor) * (high - low)
        return True

    def _dimension(self, range: Range) -> AffineExpr:
        self.ranges.append(range)
        return AffineDimExpr(len(self.ranges) - 1)
