"""Folding of products by table entries, and of their sums, in unrolled loops."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr
from xdsl.utils.hints import isa
from xdsl.utils.type import get_element_type_or_self

from tcopt.dialects import loop
from tcopt.dialects.table import ScaleOp
from tcopt.support.ir.quick_ir import new_op
from tcopt.support.memo import memo

WRAPS = {"overflowFlags": arith.IntegerOverflowAttr("none")}
"""Properties of integer products and differences."""


class TableFolds:
    """Known facts about the values of one copy of a body, by the values of the original.

    A term whose entry is 0 is omitted from sums. A term with entry 1 is its operand, and a term
    with entry -1 is subtracted instead of added:

        %a = table.scale %x by %i of [0.0, 1.0, -1.0] : f32      %i is 0, then 1, then 2
        %s = arith.addf %y, %a : f32
        ->
        uses of %s become %y, then %s = %y + %x, then %s = %y - %x

    Integers are folded like floats.
    """

    def __init__(self) -> None:
        self.absent: set[SSAValue] = set()
        self.negated: dict[SSAValue, SSAValue] = {}
        self._entries: dict[ScaleOp, tuple[float, ...]] = {}

    def scale(
        self, op: ScaleOp, x: SSAValue, index: SSAValue | int, result: list[Operation]
    ) -> SSAValue | None:
        """Return the product with a known entry, and append its ops; None if it is unknown."""
        number = index if isinstance(index, int) else constant_index(index)
        self.absent.discard(op.result)
        self.negated.pop(op.result, None)
        if number is None:
            return None
        entries = self._entries.get(op)
        if entries is None:
            entries = self._entries[op] = op.entries
        entry = entries[number]
        if entry == 1:
            return x
        if entry == -1:
            self.negated[op.result] = x
            return _negative(x, result)
        if entry == 0:
            self.absent.add(op.result)
            return _constant(-0.0, x.type, result)
        factor = _constant(entry, x.type, result)
        if is_integral(x.type):
            return _add(new_op(arith.MuliOp, (x, factor), (x.type,), WRAPS), result)
        product = new_op(arith.MulfOp, (x, factor), (x.type,), {"fastmath": op.fastmath})
        return _add(product, result)

    def add(
        self, op: arith.AddfOp | arith.AddiOp, lhs: SSAValue, rhs: SSAValue, result: list[Operation]
    ) -> SSAValue | None:
        """Return the sum of two terms one of which is absent or negated; None for other sums."""
        absent, negated = self.absent, self.negated
        total = op.results[0]
        old_lhs, old_rhs = op.operands
        absent.discard(total)
        negated.pop(total, None)
        if old_lhs in absent and old_rhs in absent:
            absent.add(total)
            return lhs
        for term, kept, other in ((old_lhs, old_rhs, rhs), (old_rhs, old_lhs, lhs)):
            if term in absent:
                if kept in negated:
                    negated[total] = negated[kept]
                return other
        for term, other in ((old_rhs, lhs), (old_lhs, rhs)):
            if term in negated:
                operands = (other, negated[term])
                if isinstance(op, arith.AddiOp):
                    return _add(new_op(arith.SubiOp, operands, (other.type,), WRAPS), result)
                flags = {"fastmath": op.fastmath}
                return _add(new_op(arith.SubfOp, operands, (other.type,), flags), result)
        return None


def constant_index(value: SSAValue) -> int | None:
    """Return the value of a constant index, or None."""
    match value.owner:
        case arith.ConstantOp(value=IntegerAttr() as attr):
            return attr.value.data
        case loop.IndexOp() as op if isinstance(op.map.data.results[0], AffineConstantExpr):
            return op.map.data.results[0].value
        case _:
            return None


def is_integral(type: Attribute) -> bool:
    """Whether a type is an integer type or a vector of integers."""
    return isinstance(get_element_type_or_self(type), IntegerType)


def splat(number: float, type: Attribute) -> FloatAttr | IntegerAttr | DenseIntOrFPElementsAttr:
    """Return a value as an attribute of a float or integer type, or of a vector type."""
    return _splat(float(number).hex(), type)


@memo(4096)
def _splat(text: str, type: Attribute) -> FloatAttr | IntegerAttr | DenseIntOrFPElementsAttr:
    # As text, 0.0 and -0.0 have different keys.
    number = float.fromhex(text)
    if isa(type, VectorType[IntegerType]):
        return DenseIntOrFPElementsAttr.from_list(type, [int(number)])
    if isa(type, IntegerType):
        return IntegerAttr(int(number), type)
    if isa(type, VectorType[AnyFloat]):
        return DenseIntOrFPElementsAttr.from_list(type, [number])
    assert isinstance(type, AnyFloat)
    return FloatAttr(number, type)


def _add(op: Operation, result: list[Operation]) -> SSAValue:
    result.append(op)
    return op.results[0]


def _negative(x: SSAValue, result: list[Operation]) -> SSAValue:
    if not is_integral(x.type):
        return _add(new_op(arith.NegfOp, (x,), (x.type,)), result)
    zero = _constant(0, x.type, result)
    return _add(new_op(arith.SubiOp, (zero, x), (x.type,), WRAPS), result)


def _constant(number: float, type: Attribute, result: list[Operation]) -> SSAValue:
    return _add(new_op(arith.ConstantOp, (), (type,), {"value": splat(number, type)}), result)
