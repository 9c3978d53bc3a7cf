"""Selection, conversion and computed indices in tensor expressions."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType, i1
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineDimExpr
from xdsl.utils.hints import isa

from tcopt.dialects.table import BYTES, is_scaled_integer
from tcopt.dialects.te.dtypes import (
    DType,
    ExpressionError,
    element_type,
    is_float,
    is_unsigned,
)
from tcopt.dialects.te.expr import (
    Cast,
    Const,
    Expr,
    ExprLike,
    FromIndex,
    Index,
    IndexLike,
    as_expr,
    as_index,
    binary,
    compare,
    select,
)
from tcopt.support.data.dtypes import is_narrow


class Scaled(Expr):
    """`operand` times the entry of a constant table at an index; omitted where the entry is 0."""

    def __init__(self, operand: Expr, table: Sequence[float], index: Index):
        super().__init__(operand.dtype)
        self.operand = operand
        self.table = tuple(table)
        self.index = index


class Lookup(Expr):
    """The entry of a constant table at a byte index."""

    def __init__(self, operand: Expr, table: Sequence[int], dtype: Attribute):
        super().__init__(dtype)
        self.operand = operand
        self.table = tuple(table)


class ComputedIndex(Index):
    """An integer value used as an index."""

    def __init__(self, value: Expr):
        super().__init__((self,), AffineDimExpr(0))
        self.value = value

    def label(self) -> str:
        return "(computed)"


def cast(x: ExprLike, dtype: DType) -> Expr:
    """Convert `x` to `dtype`: to integers by truncation, to i1 by comparison with zero."""
    element = element_type(dtype)
    value = as_expr(x, element)
    if value.dtype == element:
        return value
    if isinstance(value, Const):
        return _cast_const(value, element)
    return Cast(value, element)


def _cast_const(value: Const, element: Attribute) -> Expr:
    if is_narrow(element) or is_narrow(value.dtype):
        return Cast(value, element)
    if element == i1:
        return Const(int(value.value != 0), element)
    if isa(element, IntegerType):
        if value.value in (float("inf"), float("-inf")) or value.value != value.value:
            return Cast(value, element)
        return Const(int(value.value), element)
    return Const(float(value.value), element)


def scale(x: Expr, table: Sequence[Sequence[float]], row: IndexLike, column: IndexLike) -> Expr:
    """Multiply `x` by `table[row][column]`; 0 if the entry is 0, even for infinity or nan.

    Integer products wrap around.

    Args:
        table: a matrix of constants, with rows of equal length.
        row, column: indices into the table, which must be in bounds.
    """
    value = as_expr(x)
    if not is_float(value.dtype) and not is_scaled_integer(value.dtype):
        raise ExpressionError(f"te.scale needs floats or integers, got {value.dtype}")
    width = len(table[0])
    if any(len(each) != width for each in table):
        raise ExpressionError("the rows of the table differ in length")
    numbers = [float(number) for each in table for number in each]
    if not is_float(value.dtype) and not all(number.is_integer() for number in numbers):
        raise ExpressionError(f"a table for {value.dtype} must hold integers")
    return Scaled(value, numbers, as_index(row) * width + as_index(column))


def lookup(x: Expr, table: Sequence[int], dtype: DType) -> Expr:
    """Look up `x`, taken as an unsigned byte, in a table of 256 entries.

    Args:
        x: an 8-bit integer.
        table: 256 values from -128 to 127.
        dtype: an 8-bit type; entries are its bit patterns.
    """
    value, element = as_expr(x), element_type(dtype)
    for each in (value.dtype, element):
        if not isa(each, IntegerType) or each.width.data != 8:
            raise ExpressionError(f"te.lookup needs 8-bit integers, got {each}")
    if len(table) != BYTES:
        raise ExpressionError(f"the table has {len(table)} entries, not {BYTES}")
    return Lookup(value, table, element)


def saturate(x: Expr, low: int, high: int, dtype: DType = "i64") -> Expr:
    """Truncate a float to an integer clamped to `[low, high]`; nan becomes `low`.

    A plain `cast` is unspecified for values outside the range of the type.
    """
    least = as_expr(low, x.dtype)
    number = select(compare("gt", x, least), x, least)
    return cast(binary("min", number, as_expr(high, x.dtype)), dtype)


def index(value: ExprLike) -> Index:
    """Convert an integer value to an index, as in `x[te.index(rows[i]), j]`.

    An out-of-bounds index is clamped to the nearest element; a read with a default returns the
    default instead.
    """
    if isinstance(value, Index):
        return value
    expr = as_expr(value)
    if isinstance(expr, Const) and isa(expr.dtype, IntegerType):
        return as_index(int(expr.value))
    if isinstance(expr, FromIndex) and isa(expr.dtype, IntegerType):
        return expr.index
    if not isa(expr.dtype, IntegerType) or expr.dtype == i1:
        raise ExpressionError(f"an index must be an integer, got {expr.dtype}")
    if is_unsigned(expr.dtype) and expr.dtype.width.data == 64:
        # Index is signed: clamp so that a large value does not become negative.
        expr = binary("min", expr, 1 << 62)
    return ComputedIndex(expr)
