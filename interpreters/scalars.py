"""Evaluation of scalar arith and math ops on numpy arrays, element by element.

Signless integers are stored as signed arrays; unsigned operations reinterpret their bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.arith import CMPF_COMPARISON_OPERATIONS, CMPI_COMPARISON_OPERATIONS
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, VectorType
from xdsl.ir import Attribute, Operation

from tcopt.dialects.graph.core.types import numpy_dtype
from tcopt.dialects.graph.elementwise.numerics import erf
from tcopt.dialects.table import LookupOp, ScaleOp
from tcopt.interpreters.meanings import meaning_of
from tcopt.support.errors import UnsupportedError

Array = NDArray[Any]


def dtype_of(element: Attribute) -> np.dtype[Any]:
    """Return the numpy dtype of a scalar type, or of a vector's elements; indices are int64."""
    if isinstance(element, VectorType):
        element = element.element_type
    return np.dtype(np.int64) if isinstance(element, IndexType) else numpy_dtype(element)


def unsigned(array: Array) -> Array:
    """Reinterpret signed integers as unsigned; other arrays are returned unchanged."""
    return array if array.dtype.kind != "i" else array.view(f"u{array.dtype.itemsize}")


def evaluate_scalar(op: Operation, operands: Sequence[Array]) -> Array:
    """Return the result of an op on arrays that broadcast.

    Raises:
        UnsupportedError: there is no rule for the op.
    """
    rule, meaning = _RULES.get(op.name), meaning_of(op)
    dtype = dtype_of(op.results[0].type)
    if meaning is not None:
        result = np.asarray(meaning(*operands))
    elif rule is not None:
        result = np.asarray(rule(op, operands, dtype))
    else:
        raise UnsupportedError("no numpy rule for this operation", op=op)
    if result.dtype.kind == "u" and dtype.kind == "i" and result.itemsize == dtype.itemsize:
        return result.view(dtype)
    return result.astype(dtype, copy=False)


_Rule = Callable[[Any, Sequence[Array], np.dtype[Any]], Any]


def _on_values(function: Callable[..., Any]) -> _Rule:
    return lambda op, operands, dtype: function(*operands)


def _on_unsigned(function: Callable[..., Any]) -> _Rule:
    return lambda op, operands, dtype: function(*map(unsigned, operands))


def _as_dtype(op: Operation, operands: Sequence[Array], dtype: np.dtype[Any]) -> Any:
    return operands[0].astype(dtype)


def _from_unsigned(op: Operation, operands: Sequence[Array], dtype: np.dtype[Any]) -> Any:
    return unsigned(operands[0]).astype(dtype)


def _to_unsigned(op: Operation, operands: Sequence[Array], dtype: np.dtype[Any]) -> Any:
    return operands[0].astype(f"u{dtype.itemsize}")


def _same_bits(op: Operation, operands: Sequence[Array], dtype: np.dtype[Any]) -> Any:
    return np.ascontiguousarray(operands[0]).view(dtype).reshape(operands[0].shape)


def _constant(op: Any, operands: Sequence[Array], dtype: np.dtype[Any]) -> Any:
    value = op.value
    if not isinstance(value, IntegerAttr | FloatAttr):
        raise UnsupportedError("only scalar constants are evaluated", op=op)
    number = value.value.data
    return np.asarray(bool(number) if dtype.kind == "b" else number).astype(dtype)


_BY_NAME: dict[str, np.ufunc] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _cmpi(op: Any, operands: Sequence[Array], dtype: np.dtype[Any]) -> Any:
    predicate = CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
    if predicate[0] == "u":
        return _BY_NAME[predicate[1:]](*map(unsigned, operands))
    return _BY_NAME[predicate.removeprefix("s")](*operands)


def _cmpf(op: Any, operands: Sequence[Array], dtype: np.dtype[Any]) -> Any:
    predicate = CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]
    lhs, rhs = operands
    unordered = np.isnan(lhs) | np.isnan(rhs)
    match predicate:
        case "false" | "true":
            return np.full_like(unordered, predicate == "true")
        case "ord" | "uno":
            return unordered == (predicate == "uno")
        case _:
            holds = _BY_NAME[predicate[1:]](lhs, rhs)
            return holds | unordered if predicate[0] == "u" else holds & ~unordered


def _truncating(divide: bool) -> Callable[[Array, Array], Array]:
    """Return a signed division towards zero, or its remainder; division by zero is zero."""

    def function(lhs: Array, rhs: Array) -> Array:
        divisor = np.where(rhs == 0, 1, rhs)
        rest = np.fmod(lhs, divisor)
        result = (lhs - rest) // divisor if divide else rest
        return np.where(rhs == 0, 0, result)

    return function


def _floor_divide(lhs: Array, rhs: Array) -> Array:
    return np.where(rhs == 0, 0, lhs // np.where(rhs == 0, 1, rhs))


def _remainder(lhs: Array, rhs: Array) -> Array:
    return np.where(rhs == 0, 0, lhs % np.where(rhs == 0, 1, rhs))


def _fma(a: Array, b: Array, c: Array) -> Array:
    return a * b + c


def _scale(op: ScaleOp, operands: Sequence[Array], dtype: np.dtype[Any]) -> Any:
    x, index = operands
    entries = np.asarray(op.entries, dtype)[index]
    if dtype.kind == "i":
        return x * entries
    with np.errstate(invalid="ignore"):
        return np.where(entries == 0, np.asarray(-0.0, dtype), x * entries)


def _lookup(op: LookupOp, operands: Sequence[Array], dtype: np.dtype[Any]) -> Any:
    return np.asarray(op.entries, dtype)[unsigned(operands[0])]


_RULES: dict[str, _Rule] = {
    "arith.constant": _constant,
    "arith.cmpi": _cmpi,
    "arith.cmpf": _cmpf,
    "arith.select": _on_values(np.where),
    "arith.addf": _on_values(np.add),
    "arith.subf": _on_values(np.subtract),
    "arith.mulf": _on_values(np.multiply),
    "arith.divf": _on_values(np.divide),
    "arith.remf": _on_values(np.fmod),
    "arith.negf": _on_values(np.negative),
    "arith.maximumf": _on_values(np.maximum),
    "arith.minimumf": _on_values(np.minimum),
    "arith.maxnumf": _on_values(np.fmax),
    "arith.minnumf": _on_values(np.fmin),
    "arith.addi": _on_values(np.add),
    "arith.subi": _on_values(np.subtract),
    "arith.muli": _on_values(np.multiply),
    "arith.divsi": _on_values(_truncating(True)),
    "arith.remsi": _on_values(_truncating(False)),
    "arith.floordivsi": _on_values(_floor_divide),
    "arith.divui": _on_unsigned(_floor_divide),
    "arith.remui": _on_unsigned(_remainder),
    "arith.maxsi": _on_values(np.maximum),
    "arith.minsi": _on_values(np.minimum),
    "arith.maxui": _on_unsigned(np.maximum),
    "arith.minui": _on_unsigned(np.minimum),
    "arith.andi": _on_values(np.bitwise_and),
    "arith.ori": _on_values(np.bitwise_or),
    "arith.xori": _on_values(np.bitwise_xor),
    "arith.shli": _on_values(np.left_shift),
    "arith.shrsi": _on_values(np.right_shift),
    "arith.shrui": _on_unsigned(np.right_shift),
    "arith.extf": _as_dtype,
    "arith.truncf": _as_dtype,
    "arith.sitofp": _as_dtype,
    "arith.uitofp": _from_unsigned,
    "arith.fptosi": _as_dtype,
    "arith.fptoui": _to_unsigned,
    "arith.extsi": _as_dtype,
    "arith.extui": _from_unsigned,
    "arith.trunci": _as_dtype,
    "arith.bitcast": _same_bits,
    "arith.index_cast": _as_dtype,
    "arith.index_castui": _from_unsigned,
    "math.absf": _on_values(np.abs),
    "math.absi": _on_values(np.abs),
    "math.floor": _on_values(np.floor),
    "math.ceil": _on_values(np.ceil),
    "math.round": _on_values(lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x)),
    "math.roundeven": _on_values(np.rint),
    "math.trunc": _on_values(np.trunc),
    "math.exp": _on_values(np.exp),
    "math.exp2": _on_values(np.exp2),
    "math.expm1": _on_values(np.expm1),
    "math.log": _on_values(np.log),
    "math.log2": _on_values(np.log2),
    "math.log1p": _on_values(np.log1p),
    "math.sqrt": _on_values(np.sqrt),
    "math.rsqrt": _on_values(lambda x: 1 / np.sqrt(x)),
    "math.cbrt": _on_values(np.cbrt),
    "math.erf": _on_values(erf),
    "math.tanh": _on_values(np.tanh),
    "math.sin": _on_values(np.sin),
    "math.cos": _on_values(np.cos),
    "math.tan": _on_values(np.tan),
    "math.asin": _on_values(np.arcsin),
    "math.acos": _on_values(np.arccos),
    "math.atan": _on_values(np.arctan),
    "math.atan2": _on_values(np.arctan2),
    "math.sinh": _on_values(np.sinh),
    "math.cosh": _on_values(np.cosh),
    "math.asinh": _on_values(np.arcsinh),
    "math.acosh": _on_values(np.arccosh),
    "math.atanh": _on_values(np.arctanh),
    "math.powf": _on_values(np.power),
    "math.copysign": _on_values(np.copysign),
    "math.fma": _on_values(_fma),
    "table.scale": _scale,
    "table.lookup": _lookup,
}
