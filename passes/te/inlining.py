"""Inlining of a stage's expression at a read of the stage."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from tcopt.dialects.arith_ import CmpiOp, SelectOp
from tcopt.dialects.size import size_arguments, size_expression
from tcopt.dialects.te import ComputeOp, IndexOp, ReadOp, YieldOp
from tcopt.dialects.te.access import extent_ranges, index_ranges
from tcopt.support.arithmetic.affine import bounds, simplify, substitute
from tcopt.support.arithmetic.extent_ranges import expression_range, is_in_range
from tcopt.support.arithmetic.sizes import lower_bound
from tcopt.support.ir.literals import number_attr
from tcopt.support.ir.pure_values import PureValues
from tcopt.support.ir.rewriting import erase, insert, replace_by
from tcopt.support.locations import set_location
from tcopt.support.syntax.access_syntax import unique_operands


def inline_read(read: ReadOp, producer: ComputeOp) -> None:
    """Replace a read of `producer`, which is not a reduction, by its body at the read's indices.

    A guarded read becomes a select of the body's value and the default, and every read in the body
    is guarded too. If the producer copies a whole tensor, the guard moves to its read instead.
    """
    replace_by(read, [_Inliner(read, producer).run()])


def composed_accesses(read: ReadOp, producer: ComputeOp) -> list[tuple[AffineExpr, ...]]:
    """Return the index expressions that the producer's reads would have if inlined at `read`.

    Reads at computed indices are skipped.
    """
    axes: list[SSAValue] = list(producer.body.block.args)
    ranges = index_ranges(read.indices)
    found: list[tuple[AffineExpr, ...]] = []
    for inner in producer.body.block.ops:
        if isinstance(inner, ReadOp) and all(value in axes for value in inner.indices):
            dims = [read.map.data.results[axes.index(value)] for value in inner.indices]
            exprs = (substitute(e, dims) for e in inner.map.data.results)
            found.append(tuple(simplify(e, ranges) for e in exprs))
    return found


def needs_guard(read: ReadOp) -> list[int]:
    """Return the positions of a read's indices that may be out of bounds."""
    ranges = extent_ranges(read.indices)
    pairs = zip(read.map.data.results, read.source_shape, strict=True)
    return [i for i, (expr, extent) in enumerate(pairs) if not is_in_range(expr, extent, ranges)]


class _Inliner:
    """Clones a producer's body before one read of it."""

    def __init__(self, read: ReadOp, producer: ComputeOp):
        self.read = read
        self.producer = producer
        self.axes: list[SSAValue] = list(producer.body.block.args)
        self.values: dict[SSAValue, SSAValue] = {}
        self.unsafe = needs_guard(read) if read.default is not None else []

    def run(self) -> SSAValue:
        """Insert the body, and return the value that replaces the read."""
        passed_on = self._guard_of_copy() if self.unsafe else None
        for op in self.producer.body.block.ops:
            if not isinstance(op, YieldOp):
                self._clone(op, passed_on)
        value = self._value(self.producer.yielded)
        if not self.unsafe or passed_on is not None:
            return value
        default = self.read.default
        assert default is not None
        outside = self._add(arith.ConstantOp(default))
        return self._add(SelectOp(self._inside(), value, outside))

    def _guard_of_copy(self) -> IntegerAttr | FloatAttr | None:
        """Return the default if the producer copies elements one to one along the unsafe axes.

        An index is then out of the producer's bounds exactly if it is out of its source's bounds.
        """
        reads = [op for op in self.producer.body.block.ops if isinstance(op, ReadOp)]
        if len(reads) != 1 or self.producer.yielded is not reads[0].result:
            return None
        inner = reads[0]
        if inner.default is not None and inner.default != self.read.default:
            return None
        covered: set[int] = set()
        for expr, size in zip(inner.map.data.results, inner.source_shape, strict=True):
            if isinstance(expr, AffineDimExpr):
                value = inner.indices[expr.position]
                axis = self.axes.index(value) if value in self.axes else -1
                if axis >= 0 and self.producer.spatial_extents[axis] == size:
                    covered.add(axis)
        return self.read.default if covered.issuperset(self.unsafe) else None

    def _add(self, op: Operation) -> SSAValue:
        set_location([op], self.producer.location)
        return insert(op, self.read)

    def _clone(self, op: Operation, passed_on: IntegerAttr | FloatAttr | None) -> None:
        match op:
            case ReadOp():
                self.values[op.result] = self._clone_read(op, passed_on)
            case IndexOp():
                (expr,), operands = self._compose(op.map.data, op.indices)
                self.values[op.result] = self._index(expr, operands)
            case _:
                mapped = {operand: self._value(operand) for operand in op.operands}
                self._add(new := op.clone(mapped))
                self.values.update(zip(op.results, new.results, strict=True))

    def _clone_read(self, op: ReadOp, passed_on: IntegerAttr | FloatAttr | None) -> SSAValue:
        exprs, operands = self._compose(op.map.data, op.indices)
        ranges = extent_ranges(operands)
        default = op.default
        if passed_on is not None:
            default = passed_on
        elif default is None and self.unsafe:
            default = _zero(op.result.type)
        if default is not None and all(
            is_in_range(expr, extent, ranges)
            for expr, extent in zip(exprs, op.source_shape, strict=True)
        ):
            default = None
        map, used = unique_operands(AffineMap(len(operands), 0, tuple(exprs)), operands)
        return self._add(ReadOp(op.source, map, used, default))

    def _compose(
        self, map: AffineMap, indices: Sequence[SSAValue]
    ) -> tuple[list[AffineExpr], list[SSAValue]]:
        """Rewrite a map over values of the producer as a map over values at the read."""
        operands: list[SSAValue] = list(self.read.indices)
        dims: list[AffineExpr] = []
        for value in indices:
            if value in self.axes:
                dims.append(self.read.map.data.results[self.axes.index(value)])
                continue
            outer = self.values.get(value, value)
            if outer not in operands:
                operands.append(outer)
            dims.append(AffineDimExpr(operands.index(outer)))
        ranges = index_ranges(operands)
        return [simplify(substitute(e, dims), ranges) for e in map.results], operands

    def _value(self, value: SSAValue) -> SSAValue:
        """Return the copy of a value of the producer's body; axes become computed indices."""
        if value not in self.values and value in self.axes:
            expr = self.read.map.data.results[self.axes.index(value)]
            simple = simplify(expr, index_ranges(self.read.indices))
            self.values[value] = self._index(simple, list(self.read.indices))
        return self.values.get(value, value)

    def _index(self, expr: AffineExpr, operands: Sequence[SSAValue]) -> SSAValue:
        match expr:
            case AffineDimExpr():
                return operands[expr.position]
            case AffineConstantExpr():
                return self._add(arith.ConstantOp(IntegerAttr.from_index_int_value(expr.value)))
            case _:
                map, used = unique_operands(AffineMap(len(operands), 0, (expr,)), operands)
                return self._add(IndexOp(map, used))

    def _inside(self) -> SSAValue:
        """Return a condition: whether the read's indices are in bounds."""
        operands = list(self.read.indices)
        ranges = index_ranges(operands)
        limits = extent_ranges(operands)
        conditions: list[SSAValue] = []
        for position in self.unsafe:
            expr = simplify(self.read.map.data.results[position], ranges)
            index = self._index(expr, operands)
            extent = self.read.source_shape[position]
            low, _ = bounds(expr, ranges)
            _, high = expression_range(expr, limits)
            if low < 0:
                conditions.append(self._compare("sge", index, 0))
            if lower_bound(extent - high) <= 0:
                conditions.append(self._compare("slt", index, extent))
        total = conditions[0]
        for condition in conditions[1:]:
            total = self._add(arith.AndIOp(total, condition))
        return total

    def _compare(self, predicate: str, index: SSAValue, bound: int) -> SSAValue:
        function = self.producer.parent_op()
        assert function is not None
        limit = self._index(*size_expression(bound, size_arguments(function)))
        return self._add(CmpiOp(index, limit, predicate))


def _zero(type: Attribute) -> IntegerAttr | FloatAttr:
    return number_attr(0, type)


def simplify_body(stage: ComputeOp) -> bool:
    """Merge equal operations of a body and drop unused ones; return whether any were dropped."""
    block = stage.body.block
    values = PureValues()
    for op in block.ops:
        if not isinstance(op, YieldOp) and (known := values.known(op)) is not op.results[0]:
            op.results[0].replace_all_uses_with(known)
    changed = False
    for op in reversed(list(block.ops)):
        if not isinstance(op, YieldOp) and not any(result.uses for result in op.results):
            erase(op)
            changed = True
    return changed
