"""Expressions of the tensor-expression language: what the body of a stage computes.

An `Expr` is one scalar; an `Index` is affine in axes and computed indices. Both are plain Python
trees, which `build.py` turns into operations. A shared subexpression is emitted once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias, TypeGuard, overload

import numpy as np
from xdsl.dialects.builtin import IntegerType, f32, f64, i1, i64
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr
from xdsl.utils.hints import isa

from tcopt.dialects.te.dtypes import DType, ExpressionError, element_type, is_float, is_unsigned
from tcopt.dialects.te.numpy_kinds import NUMPY_KINDS
from tcopt.dialects.te.ops import Combiner
from tcopt.support.arithmetic.affine import substitute
from tcopt.support.arithmetic.sizes import Size, lower_bound
from tcopt.support.memo import memo

if TYPE_CHECKING:
    from tcopt.dialects.te.tensor import Tensor

Number: TypeAlias = "int | float | bool"
ExprLike: TypeAlias = "Expr | Index | int | float | bool"
IndexLike: TypeAlias = "Index | int"


class Comparable:
    """Base of values and indices, whose comparisons build a condition: an `Expr` of type i1."""

    __array_ufunc__ = None

    def __lt__(self, other: ExprLike) -> Expr:
        return _compare("lt", self, other)

    def __le__(self, other: ExprLike) -> Expr:
        return _compare("le", self, other)

    def __gt__(self, other: ExprLike) -> Expr:
        return _compare("gt", self, other)

    def __ge__(self, other: ExprLike) -> Expr:
        return _compare("ge", self, other)

    def __eq__(self, other: ExprLike) -> Expr:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _compare("eq", self, other)

    def __ne__(self, other: ExprLike) -> Expr:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _compare("ne", self, other)

    __hash__ = object.__hash__


def _compare(predicate: str, a: Comparable, b: ExprLike) -> Expr:
    assert isinstance(a, Expr | Index)
    return compare(predicate, a, b)


class Index(Comparable):
    """An index: affine in axes and computed indices."""

    def __init__(self, dims: tuple[Index, ...], expr: AffineExpr):
        self.dims = dims
        self.expr = expr

    def __repr__(self) -> str:
        names = [dim.label() for dim in self.dims]
        text = str(self.expr)
        for position in reversed(range(len(names))):
            text = text.replace(f"d{position}", names[position])
        return text

    def label(self) -> str:
        """The name of the index in messages."""
        return repr(self)

    # An index combined with an int or index stays affine; with an Expr it becomes a value.

    def _combine(
        self, other: IndexLike, function: Callable[[AffineExpr, AffineExpr], AffineExpr]
    ) -> Index:
        rhs = as_index(other)
        dims = list(self.dims)
        renumber: list[AffineExpr] = []
        for dim in rhs.dims:
            known = [i for i, have in enumerate(dims) if have is dim]
            renumber.append(AffineDimExpr(known[0] if known else len(dims)))
            if not known:
                dims.append(dim)
        return Index(tuple(dims), function(self.expr, substitute(rhs.expr, renumber)))

    @overload
    def __add__(self, other: IndexLike) -> Index: ...
    @overload
    def __add__(self, other: Expr | float) -> Expr: ...
    def __add__(self, other: ExprLike) -> Index | Expr:
        if is_index_like(other):
            return self._combine(other, lambda a, b: a + b)
        return binary("add", self, other)

    @overload
    def __radd__(self, other: IndexLike) -> Index: ...
    @overload
    def __radd__(self, other: Expr | float) -> Expr: ...
    def __radd__(self, other: ExprLike) -> Index | Expr:
        return self + other if is_index_like(other) else binary("add", other, self)

    @overload
    def __sub__(self, other: IndexLike) -> Index: ...
    @overload
    def __sub__(self, other: Expr | float) -> Expr: ...
    def __sub__(self, other: ExprLike) -> Index | Expr:
        if is_index_like(other):
            return self._combine(other, lambda a, b: a - b)
        return binary("sub", self, other)

    @overload
    def __rsub__(self, other: IndexLike) -> Index: ...
    @overload
    def __rsub__(self, other: Expr | float) -> Expr: ...
    def __rsub__(self, other: ExprLike) -> Index | Expr:
        if is_index_like(other):
            return as_index(other)._combine(self, lambda a, b: a - b)
        return binary("sub", other, self)

    @overload
    def __mul__(self, other: IndexLike) -> Index: ...
    @overload
    def __mul__(self, other: Expr | float) -> Expr: ...
    def __mul__(self, other: ExprLike) -> Index | Expr:
        if not is_index_like(other):
            return binary("mul", self, other)
        other = as_index(other)
        if other.dims and self.dims:
            raise ExpressionError(
                f"the product of indices {self} and {other} is not affine",
                hint="compute it as a value with te.cast, then convert it with te.index",
            )
        return self._combine(other, lambda a, b: a * b)

    @overload
    def __rmul__(self, other: IndexLike) -> Index: ...
    @overload
    def __rmul__(self, other: Expr | float) -> Expr: ...
    def __rmul__(self, other: ExprLike) -> Index | Expr:
        return self * other if is_index_like(other) else binary("mul", other, self)

    def __neg__(self) -> Index:
        return self._combine(-1, lambda a, b: a * b)

    def __floordiv__(self, other: int) -> Index:
        return self._combine(_divisor(other), lambda a, b: a // b)

    def __mod__(self, other: int) -> Index:
        return self._combine(_divisor(other), lambda a, b: a % b)

    def __truediv__(self, other: ExprLike) -> Expr:
        if is_index_like(other):
            raise ExpressionError(f"cannot divide index {self} with '/'", hint="use '//'")
        return binary("div", self, other)

    def __rtruediv__(self, other: ExprLike) -> Expr:
        return binary("div", other, self)


def _divisor(value: object) -> int:
    if isinstance(value, Size):
        raise ExpressionError(
            f"an index cannot be divided by {value}, which is known when the program runs"
        )
    if not isinstance(value, SupportsIndex) or value.__index__() <= 0:
        raise ExpressionError("an index can only be divided by a positive int")
    return value.__index__()


def is_index_like(value: object) -> TypeGuard[IndexLike]:
    """Whether a value is an index, a size or an integer, NumPy integers included."""
    return isinstance(value, Index | Size | SupportsIndex)


def as_index(value: object) -> Index:
    """Return an index for an int or a size, or the index itself."""
    if isinstance(value, Index):
        return value
    if isinstance(value, Size):
        return size_index(value)
    if isinstance(value, SupportsIndex):
        return Index((), AffineConstantExpr(value.__index__()))
    if isinstance(value, Expr):
        raise ExpressionError(
            "a value is used as an index", hint="convert it to an index with te.index(value)"
        )
    raise ExpressionError(f"{value!r} is not an index")


class Axis(Index):
    """An iteration axis of a stage, `0 <= axis < extent`.

    It can be used as an index, and as a value in arithmetic. The extent may be a size.
    """

    def __init__(self, extent: int, name: str, *, is_reduce: bool = False):
        if lower_bound(extent) < 0:
            raise ExpressionError(f"axis '{name}' has the negative extent {extent}")
        super().__init__((self,), AffineDimExpr(0))
        self.extent = extent_of(extent)
        self.name = name
        self.is_reduce = is_reduce

    def label(self) -> str:
        return self.name


def extent_of(value: int) -> int:
    """Return a size unchanged, and other integers, such as NumPy's, as ints."""
    return value if isinstance(value, Size) else int(value)


class SizeIndex(Index):
    """A size used as an index; see `size_index`."""

    def __init__(self, size: Size):
        super().__init__((self,), AffineDimExpr(0))
        self.size = size

    def label(self) -> str:
        return str(self.size)


@memo(1024)
def size_index(size: Size) -> SizeIndex:
    """Return the index of a size; equal sizes have one, so that they cancel in expressions."""
    return SizeIndex(size)


_Operator: TypeAlias = "Callable[[Expr, ExprLike], Expr]"


def _operators(kind: str) -> tuple[_Operator, _Operator]:
    """Return the methods of a binary operator and of its reflected form."""
    return lambda a, b: binary(kind, a, b), lambda b, a: binary(kind, a, b)


class Expr(Comparable):
    """One scalar value of type `dtype`.

    numpy's functions accept expressions too: `np.exp(x)` and `np.where(x < 0, 0, x)` are the
    expressions of the same functions.
    """

    def __init__(self, dtype: Attribute):
        self.dtype = dtype

    def __array_ufunc__(
        self, function: np.ufunc, method: str, *operands: Any, **options: Any
    ) -> Expr:
        kind = NUMPY_KINDS.get(function.__name__)
        if kind is None or method != "__call__" or options:
            raise ExpressionError(f"np.{function.__name__} is not defined on expressions")
        if kind in _COMPARISONS:
            return compare(kind, *operands)
        if kind == "pow":
            return power(*operands)
        return (unary if len(operands) == 1 else binary)(kind, *operands)

    def __array_function__(
        self,
        function: Callable[..., Any],
        types: object,
        operands: tuple[Any, ...],
        options: object,
    ) -> Expr:
        if function is not np.where or options:
            raise ExpressionError(f"np.{function.__name__} is not defined on expressions")
        return select(*operands)

    __add__, __radd__ = _operators("add")
    __sub__, __rsub__ = _operators("sub")
    __mul__, __rmul__ = _operators("mul")
    __truediv__, __rtruediv__ = _operators("div")
    __floordiv__, __rfloordiv__ = _operators("floordiv")
    __mod__, __rmod__ = _operators("mod")
    __and__, __rand__ = _operators("and")
    __or__, __ror__ = _operators("or")
    __xor__, __rxor__ = _operators("xor")

    def __pow__(self, other: ExprLike) -> Expr:
        return power(self, other)

    def __invert__(self) -> Expr:
        return binary("xor", self, Const(1 if self.dtype == i1 else -1, self.dtype))

    def __neg__(self) -> Expr:
        return unary("neg", self)

    def __abs__(self) -> Expr:
        return unary("abs", self)

    def __bool__(self) -> bool:
        raise ExpressionError(
            "a tensor expression has no truth value",
            hint="use te.select or te.if_then_else, and & | ~ between conditions",
        )


class Const(Expr):
    """A constant."""

    def __init__(self, value: Number, dtype: Attribute):
        super().__init__(dtype)
        self.value = value


class Read(Expr):
    """One element of a tensor; with `default`, out-of-bounds indices read the default."""

    def __init__(self, tensor: Tensor, indices: Sequence[Index], default: Number | None):
        super().__init__(tensor.dtype)
        self.tensor = tensor
        self.indices = tuple(indices)
        self.default = default


class Op(Expr):
    """An operation `kind` on operands of one dtype, except for the condition of `select`."""

    def __init__(self, kind: str, operands: Sequence[Expr], dtype: Attribute):
        super().__init__(dtype)
        self.kind = kind
        self.operands = tuple(operands)


class Cast(Expr):
    """The operand converted to `dtype`."""

    def __init__(self, operand: Expr, dtype: Attribute):
        super().__init__(dtype)
        self.operand = operand


class FromIndex(Expr):
    """An index converted to a value."""

    def __init__(self, index: Index, dtype: Attribute):
        super().__init__(dtype)
        self.index = index


class IndexCompare(Expr):
    """A comparison of two indices."""

    def __init__(self, predicate: str, lhs: Index, rhs: Index):
        super().__init__(i1)
        self.predicate = predicate
        self.lhs = lhs
        self.rhs = rhs


class Reduce(Expr):
    """A reduction of `term` over axes; legal only as the whole expression of a stage."""

    def __init__(self, combiner: Combiner, term: Expr, axes: Sequence[Axis]):
        super().__init__(term.dtype)
        self.combiner = combiner
        self.term = term
        self.axes = tuple(axes)


def checked(value: Expr) -> Expr:
    """Return `value`; reject a reduction, which cannot be part of an expression."""
    if isinstance(value, Reduce):
        raise ExpressionError(
            f"te.{value.combiner.value} must be the whole expression of a te.compute",
            hint="compute the reduction in its own stage and read that stage",
        )
    return value


def as_expr(value: ExprLike, dtype: Attribute | None = None) -> Expr:
    """Return an expression for a number or an index, of type `dtype`, or the expression itself.

    Without `dtype`, an index becomes i64, a float f32, an int i64 and a bool i1.
    """
    if isinstance(value, Expr):
        return checked(value)
    if isinstance(value, Index | Size):
        return FromIndex(as_index(value), dtype or i64)
    if dtype is None:
        dtype = i1 if isinstance(value, bool) else i64 if isinstance(value, int) else f32
    return const(value, dtype)


def const(value: Number, dtype: DType) -> Expr:
    """Return the constant `value` of type `dtype`; it may be a size."""
    element = element_type(dtype)
    if isinstance(value, Size):
        return as_expr(value, element)
    if isa(element, IntegerType):
        if value != int(value):
            raise ExpressionError(f"{value} is not a value of {element}")
        return Const(int(value), element)
    return Const(float(value), element)


def common(a: ExprLike, b: ExprLike, what: str) -> tuple[Expr, Expr]:
    """Return two operands of one type; a number or an index takes the other operand's type."""
    if isinstance(a, Expr):
        lhs, rhs = checked(a), as_expr(b, a.dtype)
    elif isinstance(b, Expr):
        lhs, rhs = as_expr(a, b.dtype), checked(b)
    else:
        lhs = as_expr(a)
        rhs = as_expr(b, lhs.dtype)
    if lhs.dtype != rhs.dtype:
        raise ExpressionError(
            f"operands of '{what}' have types {lhs.dtype} and {rhs.dtype}",
            hint="convert one with te.cast",
        )
    return lhs, rhs


_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_BITWISE = frozenset({"and", "or", "xor", "shl", "shr"})
_LOGICAL = {"max": "or", "min": "and", "mul": "and"}


def binary(kind: str, a: ExprLike, b: ExprLike) -> Expr:
    """Build a binary operation; a number or an index takes the other operand's type."""
    lhs, rhs = common(a, b, kind)
    if kind in _BITWISE and is_float(lhs.dtype):
        raise ExpressionError(f"'{kind}' needs integers or conditions, got {lhs.dtype}")
    if lhs.dtype == i1 and kind not in _BITWISE:
        if kind not in _LOGICAL:
            raise ExpressionError(f"'{kind}' is not defined on i1", hint="use te.cast first")
        kind = _LOGICAL[kind]
    return Op(kind, (lhs, rhs), lhs.dtype)


def compare(predicate: str, a: ExprLike, b: ExprLike) -> Expr:
    """Build a comparison `eq`, `ne`, `lt`, `le`, `gt` or `ge` of values or indices."""
    if is_index_like(a) and is_index_like(b):
        return IndexCompare(predicate, as_index(a), as_index(b))
    return Op(predicate, common(a, b, predicate), i1)


_ANY_NUMBER = frozenset({"neg", "abs"})
_ROUNDING = frozenset({"floor", "ceil", "round", "trunc"})


def unary(kind: str, x: ExprLike) -> Expr:
    """Build a unary function. Transcendental functions need floats; rounding keeps integers."""
    value = as_expr(x, f32 if isinstance(x, int | Index | Size) else None)
    if not is_float(value.dtype):
        if kind in _ROUNDING or (kind == "abs" and is_unsigned(value.dtype)):
            return value
        if kind not in _ANY_NUMBER or value.dtype == i1:
            raise ExpressionError(f"'{kind}' needs floats, got {value.dtype}")
    return Op(kind, (value,), value.dtype)


def select(condition: ExprLike, a: ExprLike, b: ExprLike, *, guard: bool = False) -> Expr:
    """`a` where the condition holds, `b` elsewhere; both are evaluated.

    With `guard` it is `te.if_then_else`: reads in `a` and `b` that may be out of bounds return
    zero, so each branch must be valid only where it is taken.
    """
    test = as_expr(condition)
    if test.dtype != i1:
        raise ExpressionError(f"a condition must be i1, got {test.dtype}")
    lhs, rhs = common(a, b, "select")
    return Op("guarded_select" if guard else "select", (test, lhs, rhs), lhs.dtype)


def power(x: ExprLike, exponent: ExprLike) -> Expr:
    """`x` to the power `exponent`; small constant exponents become multiplications."""
    base, exp = common(x, exponent, "pow")
    if isinstance(exp, Const):
        if exp.value == 1:
            return base
        if exp.value == 2:
            return base * base
        if exp.value == 3:
            return base * base * base
        if exp.value == 0.5 and is_float(base.dtype):
            return unary("sqrt", base)
        if exp.value == -1 and is_float(base.dtype):
            return Const(1.0, base.dtype) / base
    if is_float(base.dtype):
        return Op("pow", (base, exp), base.dtype)
    real = Op("pow", (Cast(base, f64), Cast(exp, f64)), f64)
    return Cast(real, base.dtype)
