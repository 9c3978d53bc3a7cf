"""Rows: variables of a function's last block over which none of its reductions runs.

    softmax[i, j] = exp[i, j] * inverse[i]      inverse[i] = 1 / sum[i]
    sum[i] += exp[i, k]                         exp[i, j] = exp(x[i, j] - max[i])
    max[i] max= x[i, k]

Everything for one value of `i` is computed from one row `x[i, ...]`, so all blocks can be computed
inside a loop over `i`. `j` is not such a variable, because `sum` runs over all of it.
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
    """Dataflow between a function's blocks, from which row variables are derived."""

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
        """Return the number of values of a variable that share the same reduced results.

        1 if each value has its own results, `s` if the reductions are read at `variable floordiv
        s`, and None if a reduction runs over the variable or its results serve all values.
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
        """Whether a row variable is contiguous in all reductions, so that vectors can run along
        it."""
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
        """Return `kept` of a variable for one read of a writer's results."""
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
    """Return 1 if an index is the value itself, `s` if it is `value floordiv s`, None otherwise."""
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
    """Return the variable that indexes one dimension of a block's store; None if there is none."""
    store = source.store.op
    expr = store.map.data.results[dim]
    if not isinstance(expr, AffineDimExpr):
        return None
    value = store.indices[expr.position]
    variables = source.block.iter_vars
    return variables.index(value) if value in variables else None
