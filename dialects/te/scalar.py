"""Lowering of scalar operations of expressions to arith and math operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    Signedness,
    f32,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.utils.hints import isa

from tcopt.dialects.arith_ import (
    CmpfOp,
    CmpiOp,
    ExtSIOp,
    ExtUIOp,
    FPToSIOp,
    FPToUIOp,
    IndexCastOp,
    IndexCastUIOp,
    RemFOp,
    SelectOp,
    SIToFPOp,
    TruncIOp,
    UIToFPOp,
)
from tcopt.dialects.fast_math import allow
from tcopt.dialects.te.access import IndexOp
from tcopt.dialects.te.dtypes import ExpressionError, is_float, is_unsigned
from tcopt.dialects.te.narrow import code_of, convert
from tcopt.dialects.te.saturation import saturated
from tcopt.dialects.value_ranges import ValueRanges
from tcopt.support.arithmetic.intervals import Range
from tcopt.support.data.dtypes import is_narrow
from tcopt.support.syntax.access_syntax import unique_operands

_FLOAT_BINARY: dict[str, Any] = {
    "add": arith.AddfOp,
    "sub": arith.SubfOp,
    "mul": arith.MulfOp,
    "div": arith.DivfOp,
    "max": arith.MaximumfOp,
    "min": arith.MinimumfOp,
    "fmax": arith.MaxnumfOp,
    "fmin": arith.MinnumfOp,
    "pow": math.PowFOp,
    "fmod": RemFOp,
}
_SIGNED_BINARY: dict[str, Any] = {
    "add": arith.AddiOp,
    "sub": arith.SubiOp,
    "mul": arith.MuliOp,
    "div": arith.DivSIOp,
    "floordiv": arith.FloorDivSIOp,
    "fmod": arith.RemSIOp,
    "max": arith.MaxSIOp,
    "min": arith.MinSIOp,
    "and": arith.AndIOp,
    "or": arith.OrIOp,
    "xor": arith.XOrIOp,
    "shl": arith.ShLIOp,
    "shr": arith.ShRSIOp,
}
_UNSIGNED_BINARY: dict[str, Any] = _SIGNED_BINARY | {
    "div": arith.DivUIOp,
    "floordiv": arith.DivUIOp,
    "fmod": arith.RemUIOp,
    "mod": arith.RemUIOp,
    "max": arith.MaxUIOp,
    "min": arith.MinUIOp,
    "shr": arith.ShRUIOp,
}
_FLOAT_UNARY: dict[str, Any] = {
    "neg": arith.NegfOp,
    "abs": math.AbsFOp,
    "floor": math.FloorOp,
    "ceil": math.CeilOp,
    "round": math.RoundEvenOp,
    "trunc": math.TruncOp,
    "exp": math.ExpOp,
    "log": math.LogOp,
    "sqrt": math.SqrtOp,
    "rsqrt": math.RsqrtOp,
    "erf": math.ErfOp,
    "tanh": math.TanhOp,
    "sin": math.SinOp,
    "cos": math.CosOp,
    "tan": math.TanOp,
    "asin": math.AsinOp,
    "acos": math.AcosOp,
    "atan": math.AtanOp,
    "sinh": math.SinhOp,
    "cosh": math.CoshOp,
    "asinh": math.AsinhOp,
    "acosh": math.AcoshOp,
    "atanh": math.AtanhOp,
}
_DIVISIONS = frozenset({"div", "floordiv", "mod", "fmod"})
_PREDICATES = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})


def _is_safe_divisor(value: SSAValue) -> bool:
    """Whether a divisor is a constant other than 0 and -1, by which every value can be divided."""
    owner = value.owner
    if not isinstance(owner, arith.ConstantOp) or not isinstance(owner.value, IntegerAttr):
        return False
    return owner.value.value.data not in (0, -1)


def storage_type(dtype: Attribute) -> Attribute:
    """Return the signless element type that stores values of `dtype`; i8 for narrow types."""
    if is_narrow(dtype):
        return i8
    if isa(dtype, IntegerType) and dtype.signedness.data is not Signedness.SIGNLESS:
        return IntegerType(dtype.width.data)
    return dtype


def stored_number(value: float, dtype: Attribute) -> float:
    """Return the representation of `value` of type `dtype` in `storage_type`."""
    return code_of(value, dtype) if is_narrow(dtype) else value


def width_of(dtype: Attribute) -> int:
    """Return the bit width of a dtype."""
    assert isinstance(dtype, IntegerType | AnyFloat)
    return dtype.bitwidth


class Emitter:
    """Appends scalar operations to a block; equal constants are emitted once.

    Args:
        contract: whether sums and products of floats get `fastmath<contract>`.
    """

    def __init__(self, block: Block, *, contract: bool = False):
        self.block = block
        self.contract = contract
        self._constants: dict[tuple[str, Attribute], SSAValue] = {}
        self._indices: dict[SSAValue, Range] = {}
        self._ranges = ValueRanges(lambda value, _: self._indices.get(value))

    def add(self, op: Operation) -> SSAValue:
        """Append an operation and return its result."""
        if self.contract:
            allow(op, contract=True)
        self.block.add_op(op)
        return op.results[0]

    def constant(self, value: float, dtype: Attribute) -> SSAValue:
        """Return a constant."""
        element, value = storage_type(dtype), stored_number(value, dtype)
        key = (repr(value), element)
        if key not in self._constants:
            self._constants[key] = self.add(arith.ConstantOp(constant_attr(value, element)))
        return self._constants[key]

    def operation(self, kind: str, operands: Sequence[SSAValue], dtype: Attribute) -> SSAValue:
        """Emit the operation `kind` on operands of type `dtype`.

        Integer `div` rounds towards zero, `floordiv` towards negative infinity; `mod` has the sign
        of the divisor, `fmod` that of the dividend. Integer division by zero returns zero, and the
        minimum divided by -1 wraps around; neither traps.
        """
        if is_narrow(dtype):
            raise ExpressionError(f"'{kind}' is not defined on {dtype}", hint="use te.cast first")
        if kind in _PREDICATES:
            return self.compare(kind, operands[0], operands[1], dtype)
        if len(operands) == 1:
            return self._unary(kind, operands[0], dtype)
        if is_float(dtype):
            return self._float_binary(kind, operands[0], operands[1])
        if kind in _DIVISIONS and isa(dtype, IntegerType) and not _is_safe_divisor(operands[1]):
            return self._safe_division(kind, operands[0], operands[1], dtype)
        return self._integer_binary(kind, operands, dtype)

    def _integer_binary(
        self, kind: str, operands: Sequence[SSAValue], dtype: Attribute
    ) -> SSAValue:
        table = _UNSIGNED_BINARY if is_unsigned(dtype) else _SIGNED_BINARY
        if kind in table:
            return self.add(table[kind](*operands))
        if kind != "mod":
            raise ExpressionError(f"'{kind}' is not defined on {dtype}")
        return self._floor_modulo(operands[0], operands[1], dtype)

    def compare(self, predicate: str, a: SSAValue, b: SSAValue, dtype: Attribute) -> SSAValue:
        """Emit a comparison of two values of type `dtype`."""
        if is_float(dtype):
            return self.add(CmpfOp(a, b, "une" if predicate == "ne" else f"o{predicate}"))
        if predicate not in ("eq", "ne"):
            predicate = ("u" if is_unsigned(dtype) else "s") + predicate
        return self.add(CmpiOp(a, b, predicate))

    def _unary(self, kind: str, x: SSAValue, dtype: Attribute) -> SSAValue:
        if is_float(dtype):
            return self.add(_FLOAT_UNARY[kind](x))
        if kind == "neg":
            return self.add(arith.SubiOp(self.constant(0, dtype), x))
        return self.add(math.AbsIOp(x))

    def _float_binary(self, kind: str, a: SSAValue, b: SSAValue) -> SSAValue:
        if kind in _FLOAT_BINARY:
            return self.add(_FLOAT_BINARY[kind](a, b))
        if kind == "floordiv":
            return self.add(math.FloorOp(self.add(arith.DivfOp(a, b))))
        return self._float_modulo(a, b)

    def _float_modulo(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Return the remainder with the divisor's sign, also for zero; NaN for a divisor of 0."""
        dtype = a.type
        rest, zero = self.add(RemFOp(a, b)), self.constant(0, dtype)
        is_negative = self.compare("lt", rest, zero, dtype)
        signs_differ = self.add(arith.XOrIOp(is_negative, self.compare("lt", b, zero, dtype)))
        moved = self.add(SelectOp(signs_differ, self.add(arith.AddfOp(rest, b)), rest))
        is_zero = self.compare("eq", rest, zero, dtype)
        return self.add(SelectOp(is_zero, self.add(math.CopySignOp(zero, b)), moved))

    def _safe_division(self, kind: str, a: SSAValue, b: SSAValue, dtype: Attribute) -> SSAValue:
        """Emit a division that never traps, not even in unused lanes of a vector."""
        zero, one = self.constant(0, dtype), self.constant(1, dtype)
        is_zero = self.compare("eq", b, zero, dtype)
        refused = is_zero
        if not is_unsigned(dtype):
            least = self.constant(-(1 << (width_of(dtype) - 1)), dtype)
            is_least = self.compare("eq", a, least, dtype)
            is_minus = self.compare("eq", b, self.constant(-1, dtype), dtype)
            overflows = self.add(arith.AndIOp(is_least, is_minus))
            refused = self.add(arith.OrIOp(is_zero, overflows))
        divisor = self.add(SelectOp(refused, one, b))
        value = self._integer_binary(kind, (a, divisor), dtype)
        # The remainder of a division by 1 is already zero.
        return value if "mod" in kind else self.add(SelectOp(is_zero, zero, value))

    def _floor_modulo(self, a: SSAValue, b: SSAValue, dtype: Attribute) -> SSAValue:
        zero = self.constant(0, dtype)
        rest = self.add(arith.RemSIOp(a, b))
        signs_differ = self.add(CmpiOp(self.add(arith.XOrIOp(rest, b)), zero, "slt"))
        inexact = self.add(CmpiOp(rest, zero, "ne"))
        correct = self.add(arith.AndIOp(signs_differ, inexact))
        return self.add(SelectOp(correct, self.add(arith.AddiOp(rest, b)), rest))

    # Conversions.

    def cast(self, x: SSAValue, source: Attribute, target: Attribute) -> SSAValue:
        """Convert `x` from dtype `source` to `target`."""
        if source == target:
            return x
        if is_narrow(source) or is_narrow(target):
            return convert(self, x, source, target)
        if target == i1:
            return self.compare("ne", x, self.constant(0, source), source)
        match is_float(source), is_float(target):
            case True, True:
                return self._float_to_float(x, source, target)
            case True, False:
                return self._float_to_int(x, source, target)
            case False, True:
                op = UIToFPOp if is_unsigned(source) else SIToFPOp
                return self.add(op(x, target))
            case _:
                return self._int_to_int(x, source, target)

    def _float_to_float(self, x: SSAValue, source: Attribute, target: Attribute) -> SSAValue:
        halves = (Float16Type, BFloat16Type)
        if isinstance(source, halves) and isinstance(target, halves):
            return self._float_to_float(self.add(_extf(x, f32)), f32, target)
        if width_of(target) > width_of(source):
            return self.add(_extf(x, target))
        return self.add(_truncf(x, target))

    def _float_to_int(self, x: SSAValue, source: Attribute, target: Attribute) -> SSAValue:
        """Convert towards zero, saturating; NaN becomes 0."""
        assert isinstance(source, AnyFloat)
        integer = cast(IntegerType, target)
        if isinstance(source, Float16Type | BFloat16Type):
            x, source = self.add(_extf(x, f32)), f32
        op = FPToUIOp if is_unsigned(integer) else FPToSIOp

        def convert(value: SSAValue) -> SSAValue:
            return self.add(op(value, storage_type(integer)))

        return saturated(self, x, source, integer, self._ranges.of(x), convert)

    def _int_to_int(self, x: SSAValue, source: Attribute, target: Attribute) -> SSAValue:
        have, want = width_of(source), width_of(target)
        if have == want:
            return x
        if have > want:
            return self.add(TruncIOp(x, storage_type(target)))
        op = ExtUIOp if is_unsigned(source) else ExtSIOp
        return self.add(op(x, storage_type(target)))

    # Indices.

    def to_index(self, x: SSAValue, unsigned: bool) -> SSAValue:
        """Convert an integer to an index."""
        return self.add((IndexCastUIOp if unsigned else IndexCastOp)(x, IndexType()))

    def from_index(self, x: SSAValue, range_: Range, dtype: Attribute) -> SSAValue:
        """Convert an index to a value; through i32 if its range fits, for more lanes per vector."""
        self._indices.setdefault(x, range_)
        if not is_float(dtype) and dtype != i1:
            return self.add(IndexCastOp(x, storage_type(dtype)))
        small = range_[0] >= -(1 << 31) and range_[1] < 1 << 31
        middle = i32 if small else i64
        return self.cast(self.add(IndexCastOp(x, middle)), middle, dtype)

    def index_expr(self, expr: AffineExpr, operands: Sequence[SSAValue]) -> SSAValue:
        """Emit an index expression as a value."""
        match expr:
            case AffineDimExpr():
                return operands[expr.position]
            case AffineConstantExpr():
                return self.index_constant(expr.value)
            case _:
                map, used = unique_operands(AffineMap(len(operands), 0, (expr,)), operands)
                return self.add(IndexOp(map, used))

    def index_constant(self, value: int) -> SSAValue:
        """Return an index constant."""
        attr = IntegerAttr.from_index_int_value(value)
        key = (repr(value), attr.type)
        if key not in self._constants:
            self._constants[key] = self.add(arith.ConstantOp(attr))
        return self._constants[key]


def constant_attr(value: float, element: Attribute) -> IntegerAttr | FloatAttr:
    """Return the attribute of a number; integers wrap around."""
    if isa(element, IntegerType):
        return IntegerAttr(int(value), element, truncate_bits=True)
    assert isinstance(element, AnyFloat)
    return FloatAttr(float(value), element)


def _extf(x: SSAValue, target: Attribute) -> Operation:
    assert isinstance(target, AnyFloat)
    return arith.ExtFOp(x, target)


def _truncf(x: SSAValue, target: Attribute) -> Operation:
    assert isinstance(target, AnyFloat)
    return arith.TruncFOp(x, target)
