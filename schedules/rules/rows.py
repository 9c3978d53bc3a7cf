"""Rows: the variables of a function's last block that all its reductions keep.

    softmax[i, j] = exp[i, j] * inverse[i]      inverse[i] = 1 / sum[i]
    sum[i] += exp[i, k]                         exp[i, j] = exp(x[i, j] - max[i])
    max[i] max= x[i, k]

All that one value of `i` needs is computed from one row `x[i, ...]`, so everything can happen
inside a loop over `i`. `j` is not such a variable: `sum` runs over all of it.
"""

from __future__ import annotations

from xdsl.ir import SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)

from tcopt.dialects import loop
from tcopt.schedules.analysis.patterns import BlockPattern, StridedAccess, match_block
from tcopt.schedules.api.handles import Block
from tcopt.schedules.api.schedule import Schedule


class Rows:
    """The dataflow between a function's blocks, as far as rows are concerned."""

    def __init__(self, sch: Schedule):
        self.patterns: dict[Block, BlockPattern] = {}
        self.writers: dict[SSAValue, Block] = {}
        self.reducing: set[Block] = set()
        for block in sch.blocks():
            op = sch.block_op(block)
            pattern = match_block(op)
            if pattern is None:
                continue
            self.patterns[block] = pattern
            self.writers[pattern.store.buffer] = block
            sources = {self.writers.get(term.buffer) for term in pattern.terms}
            if op.is_reduction or not self.reducing.isdisjoint(sources):
                self.reducing.add(block)

    def kept(self, block: Block, variable: int) -> int | None:
        """How many values of a variable share what is reduced for one of them.

        1 if each value has results of its own, `s` if the reductions are read at `variable
        floordiv s`, and None if a reduction runs over the variable, or its results serve all.
        """
        pattern = self.patterns[block]
        shared = 1
        for term in pattern.terms:
            writer = self.writers.get(term.buffer)
            if writer is None or writer not in self.reducing:
                continue
            here = self._through(term, pattern, variable, writer)
            if here is None or (here != shared and 1 not in (here, shared)):
                return None
            shared = max(shared, here)
        return shared

    def is_contiguous(self, block: Block, variable: int) -> bool:
        """Whether vectors can lie along a kept variable in all reductions too."""
        pattern = self.patterns[block]
        if block in self.reducing and not all(
            not access.uses(variable) or access.is_strided(variable)
            for access in (pattern.store, *pattern.terms)
        ):
            return False
        value = pattern.block.iter_vars[variable]
        for term in pattern.terms:
            writer = self.writers.get(term.buffer)
            if writer is None or writer not in self.reducing:
                continue
            for dim, expr in enumerate(term.op.map.data.results):
                if _divisor(expr, tuple(term.op.indices), value) == 1:
                    target = _variable(self.patterns[writer], dim)
                    if target is not None and not self.is_contiguous(writer, target):
                        return False
        return True

    def _through(
        self, term: StridedAccess, pattern: BlockPattern, variable: int, writer: Block
    ) -> int | None:
        """What one read of a writer's results says of a variable."""
        source = self.patterns[writer]
        value = pattern.block.iter_vars[variable]
        for dim, expr in enumerate(term.op.map.data.results):
            divisor = _divisor(expr, tuple(term.op.indices), value)
            if divisor is None or (target := _variable(source, dim)) is None:
                continue
            if source.block.iter_kinds[target] is loop.IterKind.SPATIAL:
                deeper = self.kept(writer, target)
                if deeper is not None and 1 in (deeper, divisor):
                    return deeper * divisor
        return None


def _divisor(expr: AffineExpr, indices: tuple[SSAValue, ...], value: SSAValue) -> int | None:
    """1 if an index is the value itself, `s` if it is `value floordiv s`."""
    match expr:
        case AffineDimExpr():
            return 1 if indices[expr.position] is value else None
        case AffineBinaryOpExpr(
            kind=AffineBinaryOpKind.FloorDiv,
            lhs=AffineDimExpr() as dim,
            rhs=AffineConstantExpr() as size,
        ):
            return size.value if indices[dim.position] is value else None
        case _:
            return None


def _variable(source: BlockPattern, dim: int) -> int | None:
    """The variable that a block's store has as its index in one dimension."""
    store = source.store.op
    expr = store.map.data.results[dim]
    if not isinstance(expr, AffineDimExpr):
        return None
    value = store.indices[expr.position]
    variables = source.block.iter_vars
    return variables.index(value) if value in variables else None
