"""Element types as numpy dtypes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    Signedness,
)
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from tcopt.support.errors import UnsupportedError

_FLOATS: dict[type[Attribute], Any] = {
    Float16Type: np.float16,
    Float32Type: np.float32,
    Float64Type: np.float64,
}


@lru_cache(maxsize=64)
def numpy_dtype(element: Attribute) -> np.dtype[Any]:
    """The numpy dtype whose arrays hold elements of a type; i1 is bool, index is int64.

    Raises:
        UnsupportedError: numpy has none.
    """
    if (found := _FLOATS.get(type(element))) is not None:
        return np.dtype(found)
    if isinstance(element, BFloat16Type):
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    if isinstance(element, IndexType):
        return np.dtype(np.int64)
    if isa(element, IntegerType):
        width = element.width.data
        if width == 1:
            return np.dtype(np.bool_)
        if width in (8, 16, 32, 64):
            prefix = "u" if element.signedness.data is Signedness.UNSIGNED else ""
            return np.dtype(f"{prefix}int{width}")
    raise UnsupportedError(f"numpy has no arrays of {element}")
