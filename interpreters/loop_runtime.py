"""Runtime of interpreted loop functions: IEEE-conforming scalar functions and typed buffers."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, MutableSequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.support.errors import InputError

Buffer = MutableSequence[Any]

_ARRAY_CODES = {
    "float32": "f",
    "float64": "d",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "bool": "B",
}


class RoundedList(list[float]):
    """A buffer of floats of a type that Python's `array` lacks, rounded at each store."""

    def __init__(self, values: list[float], dtype: np.dtype[Any]):
        super().__init__(values)
        self.dtype = dtype

    def __setitem__(self, position: Any, value: Any) -> None:
        super().__setitem__(position, float(self.dtype.type(value)))


def to_buffer(values: NDArray[Any]) -> Buffer:
    """Return the elements in row-major order, as a buffer with fast indexing."""
    code = _ARRAY_CODES.get(values.dtype.name)
    if code is None:
        return RoundedList(values.astype(np.float64).ravel().tolist(), values.dtype)
    return array(code, np.ascontiguousarray(values).tobytes())


def write_back(buffer: Buffer, target: NDArray[Any]) -> None:
    """Copy a buffer's elements into an array of any strides."""
    if isinstance(buffer, array):
        target[...] = np.frombuffer(buffer, target.dtype).reshape(target.shape)
    else:
        target[...] = np.array(buffer, np.float64).astype(target.dtype).reshape(target.shape)


def unwritten(dtype: np.dtype[Any], size: int) -> Buffer:
    """Return a buffer with values that show up in results: NaN, or the minimum integer."""
    if dtype.kind in "biu":
        worst: Any = dtype.kind == "b" or np.iinfo(dtype).min
    else:
        worst = np.nan
    return to_buffer(np.full(max(size, 1), worst, dtype))


def checked(index: int, extent: int) -> int:
    """Return `index`, after checking it.

    Raises:
        InputError: it is outside of [0, extent).
    """
    if 0 <= index < extent:
        return index
    raise InputError(f"index {index} is outside a buffer dimension of {extent}")


def _guarded(name: str, fallback: Callable[[float], Any]) -> Callable[[float], float]:
    """Return a function of `math` that returns the IEEE result where Python's raises an error."""
    function: Callable[[float], float] = getattr(math, name)

    def call(x: float) -> float:
        try:
            return float(function(x))
        except (ValueError, OverflowError):
            with np.errstate(all="ignore"):
                return float(fallback(np.float64(x)))

    return call


def _rsqrt(x: float) -> float:
    return divide(1.0, _SQRT(x))


def _round_away(x: float) -> float:
    return math.copysign(math.floor(abs(x) + 0.5), x) if math.isfinite(x) else x


def _whole(function: Callable[[float], int]) -> Callable[[float], float]:
    return lambda x: math.copysign(float(function(x)), x) if math.isfinite(x) else x


_SQRT = _guarded("sqrt", np.sqrt)
UNARY_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "acos": _guarded("acos", np.arccos),
    "acosh": _guarded("acosh", np.arccosh),
    "asin": _guarded("asin", np.arcsin),
    "asinh": _guarded("asinh", np.arcsinh),
    "atan": _guarded("atan", np.arctan),
    "atanh": _guarded("atanh", np.arctanh),
    "cbrt": _guarded("cbrt", np.cbrt),
    "ceil": _whole(math.ceil),
    "cos": _guarded("cos", np.cos),
    "cosh": _guarded("cosh", np.cosh),
    "erf": math.erf,
    "exp": _guarded("exp", np.exp),
    "exp2": _guarded("exp2", np.exp2),
    "expm1": _guarded("expm1", np.expm1),
    "floor": _whole(math.floor),
    "log": _guarded("log", np.log),
    "log10": _guarded("log10", np.log10),
    "log1p": _guarded("log1p", np.log1p),
    "log2": _guarded("log2", np.log2),
    "round": _round_away,
    "roundeven": _whole(round),
    "rsqrt": _rsqrt,
    "sin": _guarded("sin", np.sin),
    "sinh": _guarded("sinh", np.sinh),
    "sqrt": _SQRT,
    "tan": _guarded("tan", np.tan),
    "tanh": math.tanh,
    "trunc": _whole(math.trunc),
}


def divide(a: float, b: float) -> float:
    if b != 0.0:
        return a / b
    if a == 0.0 or a != a:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _divsi(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _remsi(a: int, b: int) -> int:
    return a - b * _divsi(a, b)


def _maximum(a: float, b: float) -> float:
    return a if a != a or a > b else b


def _minimum(a: float, b: float) -> float:
    return a if a != a or a < b else b


def _maxnum(a: float, b: float) -> float:
    return b if a != a else a if b != b or a > b else b


def _minnum(a: float, b: float) -> float:
    return b if a != a else a if b != b or a < b else b


def _powf(a: float, b: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.power(np.float64(a), np.float64(b)))


def _remf(a: float, b: float) -> float:
    return math.fmod(a, b) if b and math.isfinite(a) else math.nan


def _trunc(x: float) -> int:
    if math.isfinite(x):
        return int(x)
    return 0 if x != x else (1 << 63) - 1 if x > 0 else -(1 << 63)


def _round(x: float, dtype: str) -> float:
    with np.errstate(over="ignore"):
        return float(np.dtype(dtype).type(x))


def _bitcast(x: Any, source: str, target: str) -> Any:
    return np.dtype(source).type(x).view(np.dtype(target)).item()


RUNTIME: dict[str, Any] = {
    "_array": array,
    "_atan2": math.atan2,
    "_bitcast": _bitcast,
    "_checked": checked,
    "_copysign": math.copysign,
    "_divf": divide,
    "_divsi": _divsi,
    "_inf": math.inf,
    "_maximum": _maximum,
    "_maxnum": _maxnum,
    "_minimum": _minimum,
    "_minnum": _minnum,
    "_nan": math.nan,
    "_powf": _powf,
    "_remf": _remf,
    "_remsi": _remsi,
    "_round": _round,
    "_trunc": _trunc,
    **{f"_math_{name}": function for name, function in UNARY_FUNCTIONS.items()},
}
"""The names that generated code may use."""
