"""Builder of f32 and f64 arithmetic on scalars or vectors, and the registries of expansions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import copysign

from xdsl.dialects import arith, math, vector
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    VectorType,
    f32,
    f64,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.hints import isa

from tcopt.dialects import arith_
from tcopt.support.ir.pure_values import PureValues
from tcopt.support.memo import memo
from tcopt.support.registries.registration import Registry
from tcopt.support.registries.registry import import_all

Number = SSAValue | float
Expansion = Callable[["FloatBuilder", SSAValue], SSAValue]

EXPANSIONS: Registry[type[Operation], Expansion] = Registry(
    "expansion of", lambda: import_all("tcopt.passes.kernel.math.polynomials")
)
"""f32 expansions by op class."""


def expands(op: type[Operation]) -> Callable[[Expansion], Expansion]:
    """Register a function as the f32 expansion of a unary math op."""

    def register(expansion: Expansion) -> Expansion:
        EXPANSIONS[op] = expansion
        return expansion

    return register


def expansions() -> Mapping[type[Operation], Expansion]:
    """Return all expansions by op class, importing their modules first."""
    return EXPANSIONS.values_by_key()


WIDE_EXPANSIONS: Registry[type[Operation], Expansion] = Registry(
    "expansion for f64 of", lambda: import_all("tcopt.passes.kernel.math.polynomials")
)
"""f64 expansions by op class."""


def expands_wide(op: type[Operation]) -> Callable[[Expansion], Expansion]:
    """Register a function as the f64 expansion of a unary math op."""

    def register(expansion: Expansion) -> Expansion:
        WIDE_EXPANSIONS[op] = expansion
        return expansion

    return register


def wide_expansions() -> Mapping[type[Operation], Expansion]:
    """Return all expansions for f64 by op class, importing their modules first."""
    return WIDE_EXPANSIONS.values_by_key()


@dataclass
class FloatBuilder:
    """Creates ops on values of one shape, in program order.

    Python numbers become constants of that shape. The ops have no fastmath flags, as error
    compensation relies on exact rounding.
    """

    shape: VectorType[Attribute] | None
    """A vector type with the shape of the values; None for scalars."""
    fused: bool = True
    """Whether the target has fused multiply-add."""
    ops: list[Operation] = field(default_factory=list[Operation])
    exact: list[SSAValue] = field(default_factory=list[SSAValue])
    """Products by powers of two, which are exact."""
    constants: PureValues = field(default_factory=PureValues)
    """Existing constants for reuse; new ones are added."""

    def type_of(self, element: Attribute) -> Attribute:
        """Return the type of values with these elements."""
        return element if self.shape is None else _vector_type(element, self.shape)

    def add_op(self, op: Operation) -> SSAValue:
        """Append an op and return its result."""
        self.ops.append(op)
        return op.results[0]

    def constant(self, value: float, element: Attribute = f32) -> SSAValue:
        """Return a constant in every element."""
        type = self.type_of(element)
        number = _constant_attr(element, value, copysign(1.0, value) < 0, type)
        return self.constants.make(arith.ConstantOp, (), type, {"value": number}, self.ops.append)

    def _values(self, *numbers: Number) -> list[SSAValue]:
        kind = next(n.type for n in numbers if isinstance(n, SSAValue))
        element = kind.element_type if isa(kind, VectorType) else kind
        return [n if isinstance(n, SSAValue) else self.constant(n, element) for n in numbers]

    def add(self, lhs: Number, rhs: Number) -> SSAValue:
        lhs, rhs = self._values(lhs, rhs)
        return self.add_op(arith.AddfOp(lhs, rhs))

    def sub(self, lhs: Number, rhs: Number) -> SSAValue:
        lhs, rhs = self._values(lhs, rhs)
        return self.add_op(arith.SubfOp(lhs, rhs))

    def mul(self, lhs: Number, rhs: Number) -> SSAValue:
        lhs, rhs = self._values(lhs, rhs)
        return self.add_op(arith.MulfOp(lhs, rhs))

    def div(self, lhs: Number, rhs: Number) -> SSAValue:
        lhs, rhs = self._values(lhs, rhs)
        return self.add_op(arith.DivfOp(lhs, rhs))

    def fma(self, lhs: Number, rhs: Number, acc: Number) -> SSAValue:
        """Return `lhs * rhs + acc`, rounded once if the target supports it."""
        a, b, c = self._values(lhs, rhs, acc)
        if not self.fused:
            return self.add(self.mul(a, b), c)
        return self.add_op(math.FmaOp(a, b, c) if self.shape is None else vector.FMAOp(a, b, c))

    def product(self, lhs: Number, rhs: Number) -> SSAValue:
        """Return `lhs * rhs` for use between multiply-adds.

        It is a multiply-add itself if the target has them: a product with a shorter latency makes
        schedulers replay dependent instructions (2.4 times the time of an exp on Zen 3).
        """
        return self.fma(lhs, rhs, -0.0) if self.fused else self.mul(lhs, rhs)

    def scaled(self, value: SSAValue, power: SSAValue) -> SSAValue:
        """Return a value times a power of two."""
        result = self.product(value, power)
        self.exact.append(result)
        return result

    def maximum(self, value: SSAValue, bound: float) -> SSAValue:
        """Return the larger of a value and a constant; NaN is propagated."""
        lhs, rhs = self._values(value, bound)
        return self.add_op(arith.MaximumfOp(lhs, rhs))

    def minimum(self, value: SSAValue, bound: float) -> SSAValue:
        """Return the smaller of a value and a constant; NaN is propagated."""
        lhs, rhs = self._values(value, bound)
        return self.add_op(arith.MinimumfOp(lhs, rhs))

    def absolute(self, value: SSAValue) -> SSAValue:
        return self.add_op(math.AbsFOp(value))

    def with_sign(self, value: SSAValue, sign: SSAValue) -> SSAValue:
        """Return the magnitude of `value` with the sign of `sign`."""
        return self.add_op(math.CopySignOp(value, sign))

    def compare(self, predicate: str, lhs: Number, rhs: Number) -> SSAValue:
        lhs, rhs = self._values(lhs, rhs)
        return self.add_op(arith_.CmpfOp(lhs, rhs, predicate))

    def select(self, condition: SSAValue, lhs: Number, rhs: Number) -> SSAValue:
        lhs, rhs = self._values(lhs, rhs)
        return self.add_op(arith_.SelectOp(condition, lhs, rhs))

    def polynomial(self, x: SSAValue, coefficients: Sequence[float]) -> SSAValue:
        """Return `c[0] + c[1] x + c[2] x^2 + ...` by Horner's rule."""
        result: Number = coefficients[-1]
        for coefficient in reversed(coefficients[:-1]):
            result = self.fma(result, x, coefficient)
        assert isinstance(result, SSAValue)
        return result

    def polynomial_by_pairs(
        self, x: SSAValue, square: SSAValue, coefficients: Sequence[float]
    ) -> SSAValue:
        """Return a polynomial by Horner's rule in x^2, on pairs `c[i] + c[i+1] x`.

        This halves the dependency chain, at the cost of an additional rounding in each pair.
        """
        result: SSAValue | None = None
        for at in reversed(range(0, len(coefficients), 2)):
            pair: Number = coefficients[at]
            if at + 1 < len(coefficients):
                pair = self.fma(coefficients[at + 1], x, pair)
            if result is not None:
                pair = self.fma(result, square, pair)
            result = self._values(pair, x)[0]
        assert result is not None
        return result

    # Operations on bits.

    def bits(self, value: SSAValue) -> SSAValue:
        """Return the bits of f32 values as i32."""
        return self.add_op(arith.BitcastOp(value, self.type_of(i32)))

    def from_bits(self, value: SSAValue) -> SSAValue:
        """Return f32 values of the given bits."""
        return self.add_op(arith.BitcastOp(value, self.type_of(f32)))

    def integer(self, value: int) -> SSAValue:
        return self.constant(value, i32)

    def shift_left(self, value: SSAValue, count: int) -> SSAValue:
        return self.add_op(arith.ShLIOp(value, self.integer(count)))

    def shift_right(self, value: SSAValue, count: int) -> SSAValue:
        """Shift right, repeating the sign bit."""
        return self.add_op(arith.ShRSIOp(value, self.integer(count)))

    def add_bits(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self.add_op(arith.AddiOp(lhs, rhs))

    def sub_bits(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self.add_op(arith.SubiOp(lhs, rhs))

    def and_bits(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self.add_op(arith.AndIOp(lhs, rhs))

    def to_float(self, value: SSAValue) -> SSAValue:
        """Convert i32 values to f32."""
        return self.add_op(arith_.SIToFPOp(value, self.type_of(f32)))

    def widen(self, value: SSAValue) -> SSAValue:
        """Extend f32 values to f64."""
        return self.add_op(arith.ExtFOp(value, self.type_of(f64)))

    def narrow(self, value: SSAValue, element: AnyFloat = f32) -> SSAValue:
        """Round values to a narrower float type."""
        return self.add_op(arith.TruncFOp(value, self.type_of(element)))


@memo(256)
def _vector_type(element: Attribute, like: VectorType[Attribute]) -> VectorType[Attribute]:
    return VectorType(element, like.shape)


@memo(4096)
def _constant_attr(
    element: Attribute, value: float, negative: bool, type: Attribute
) -> IntegerAttr | FloatAttr | DenseIntOrFPElementsAttr:
    """Return the attribute of a constant; `negative` distinguishes zeros, which are equal as keys.

    Attributes are immutable, and creating one takes a hundred times as long as looking it up.
    """
    if isinstance(element, IntegerType):
        number = int(value)
        if isa(type, VectorType[IntegerType]):
            return DenseIntOrFPElementsAttr.from_list(type, [number])
        return IntegerAttr(number, element)  # pyright: ignore
    assert isinstance(element, AnyFloat)
    if isa(type, VectorType[AnyFloat]):
        return DenseIntOrFPElementsAttr.from_list(type, [float(value)])
    return FloatAttr(float(value), element)
