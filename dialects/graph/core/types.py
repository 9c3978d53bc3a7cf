"""Tensor types of the graph level, their numpy counterparts, and shape arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, TypeAlias, cast

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
    TensorType,
    bf16,
    f4E2M1FN,
    f8E4M3FN,
    f8E4M3FNUZ,
    f8E5M2,
    f8E5M2FNUZ,
    f8E8M0FNU,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.size import extents_of, sized_tensor
from tcopt.support.arithmetic.intervals import Range
from tcopt.support.arithmetic.sizes import Extent, Size, bounds_of, is_fixed
from tcopt.support.errors import UndecidedSize
from tcopt.support.memo import memo

AnyTensor: TypeAlias = TensorType[Attribute]
Array: TypeAlias = NDArray[Any]

# A plain class: `isa` on the generic one is a thousand times slower.
_TENSOR: type[Any] = TensorType

_UNSIGNED = {bits: IntegerType(bits, Signedness.UNSIGNED) for bits in (8, 16, 32, 64)}

_NUMPY_TO_ELEMENT: dict[np.dtype[Any], Attribute] = {
    np.dtype(np.float16): f16,
    np.dtype(ml_dtypes.bfloat16): bf16,
    np.dtype(np.float32): f32,
    np.dtype(np.float64): f64,
    np.dtype(np.bool_): i1,
    np.dtype(np.int8): i8,
    np.dtype(np.int16): i16,
    np.dtype(np.int32): i32,
    np.dtype(np.int64): i64,
    np.dtype(np.uint8): _UNSIGNED[8],
    np.dtype(np.uint16): _UNSIGNED[16],
    np.dtype(np.uint32): _UNSIGNED[32],
    np.dtype(np.uint64): _UNSIGNED[64],
    np.dtype(ml_dtypes.int2): IntegerType(2),
    np.dtype(ml_dtypes.int4): IntegerType(4),
    np.dtype(ml_dtypes.uint2): IntegerType(2, Signedness.UNSIGNED),
    np.dtype(ml_dtypes.uint4): IntegerType(4, Signedness.UNSIGNED),
    np.dtype(ml_dtypes.float4_e2m1fn): f4E2M1FN,
    np.dtype(ml_dtypes.float8_e4m3fn): f8E4M3FN,
    np.dtype(ml_dtypes.float8_e4m3fnuz): f8E4M3FNUZ,
    np.dtype(ml_dtypes.float8_e5m2): f8E5M2,
    np.dtype(ml_dtypes.float8_e5m2fnuz): f8E5M2FNUZ,
    np.dtype(ml_dtypes.float8_e8m0fnu): f8E8M0FNU,
}
_ELEMENT_TO_NUMPY = {element: dtype for dtype, element in _NUMPY_TO_ELEMENT.items()}


@memo(8192)
def _tensor(shape: tuple[int, ...], element: Attribute) -> AnyTensor:
    return TensorType(element, shape) if is_fixed(shape) else sized_tensor(shape, element)


def tensor(shape: Sequence[Extent], element: Attribute) -> AnyTensor:
    """Return `tensor<shape x element>`; equal requests share one attribute.

    Extents may be sizes, which become the type's encoding.
    """
    return _tensor(tuple(as_extents(shape)), element)


def as_extent(value: Extent) -> int:
    """Return an int or a size, declared as an int; numpy's integers are converted."""
    return cast(int, value) if isinstance(value, Size) else int(value)


def as_extents(shape: Iterable[Extent]) -> list[int]:
    """Return a shape of ints and sizes, see `as_extent`."""
    return [as_extent(n) for n in shape]


def like(array: Array) -> AnyTensor:
    """Return the tensor type of a numpy array."""
    return tensor(array.shape, element_of(array.dtype))


def zeros(type_: AnyTensor) -> Array:
    """Return an array of zeros of a tensor type."""
    return np.zeros(shape_of_type(type_), numpy_dtype(type_.element_type))


def numpy_dtype(element: Attribute) -> np.dtype[Any]:
    """Return the numpy dtype of an element type; VerifyException if there is none."""
    dtype = _ELEMENT_TO_NUMPY.get(element)
    if dtype is None:
        raise VerifyException(f"tensors of {element} are not supported at the graph level")
    return dtype


def element_of(dtype: np.dtype[Any]) -> Attribute:
    """Return the element type of a numpy dtype; VerifyException if there is none."""
    element = _NUMPY_TO_ELEMENT.get(np.dtype(dtype))
    if element is None:
        raise VerifyException(f"numpy arrays of {dtype} are not supported at the graph level")
    return element


def type_of(value: SSAValue) -> AnyTensor:
    """Return the ranked, static tensor type of a value; VerifyException if it has another type."""
    if not isinstance(value.type, _TENSOR):
        raise VerifyException(f"expected a ranked tensor, got {value.type}")
    return cast(AnyTensor, value.type)


@memo(8192)
def shape_of_type(type: AnyTensor) -> tuple[int, ...]:
    """Return the extents of a tensor type; see `shape_of`."""
    return cast("tuple[int, ...]", extents_of(type))


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """Return the extents of a tensor value.

    An extent that is only known at run time is a `Size`. It has the arithmetic of an int, and is
    declared as one. A comparison that its range does not decide raises UndecidedSize.
    """
    return shape_of_type(type_of(value))


def is_sized(value: SSAValue) -> bool:
    """Whether some extent of a tensor value is a size."""
    return not is_fixed(shape_of(value))


def element_type(value: SSAValue) -> Attribute:
    """Return the element type of a tensor value."""
    return type_of(value).element_type


def bytes_of(type: AnyTensor) -> int:
    """Return the number of bytes that a tensor needs: for sizes, that of their upper bounds."""
    return math.prod(type.get_shape()) * numpy_dtype(type.element_type).itemsize


def is_float(element: Attribute) -> bool:
    """Whether an element type is a floating-point type."""
    return isinstance(element, AnyFloat)


def is_half(element: Attribute) -> bool:
    """Whether an element type is a 16-bit float, whose arithmetic is done in f32."""
    return isinstance(element, Float16Type | BFloat16Type)


def is_signed_int(element: Attribute) -> bool:
    """Whether an element type is a signed or signless integer; False for i1."""
    return element in (i8, i16, i32, i64)


def is_unsigned_int(element: Attribute) -> bool:
    """Whether an element type is an unsigned integer."""
    return element in _UNSIGNED.values()


def bits_of(element: Attribute) -> int:
    """Return the number of bits in which an element is stored; 1 for i1."""
    return 1 if element == i1 else 8 * numpy_dtype(element).itemsize


def lowest(element: Attribute) -> float | int:
    """Return the identity of max: minus infinity, or an integer type's minimum."""
    if isinstance(element, Float16Type | BFloat16Type | Float32Type | Float64Type):
        return -math.inf
    return 0 if element == i1 else int(np.iinfo(numpy_dtype(element)).min)


def highest(element: Attribute) -> float | int:
    """Return the identity of min: infinity, or an integer type's maximum."""
    if is_float(element):
        return math.inf
    return 1 if element == i1 else int(np.iinfo(numpy_dtype(element)).max)


def integer_range(element: Attribute) -> Range:
    """Return the minimum and maximum of an integer type."""
    limits = ml_dtypes.iinfo(numpy_dtype(element))
    return int(limits.min), int(limits.max)


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Return the numpy broadcast of shapes.

    A size broadcasts with 1 and with itself.

    Raises:
        VerifyException: the shapes do not broadcast.
        UndecidedSize: they do for some values of sizes.
    """
    rank = max(map(len, shapes))
    result = [1] * rank
    for shape in shapes:
        for axis, extent in enumerate(shape, rank - len(shape)):
            if extent == result[axis] or extent == 1:
                continue
            if result[axis] != 1:
                _refuse_broadcast(shapes, result[axis], extent)
            result[axis] = extent
    return tuple(result)


class UnequalSizes(UndecidedSize):
    """Extents have to be equal, or one of them 1, but are different sizes.

    Attributes:
        extents: the two extents.
    """

    def __init__(self, a: Extent, b: Extent, hint: str):
        self.extents = a, b
        super().__init__(str(a), "=", str(b), hint)


def _refuse_broadcast(shapes: Sequence[Sequence[int]], a: int, b: int) -> NoReturn:
    text = " and ".join("x".join(map(str, s)) or "()" for s in shapes)
    (low, high), (least, most) = bounds_of(a), bounds_of(b)
    # Equal extents broadcast, and so does 1.
    if max(low, least) <= min(high, most) or low <= 1 <= high or least <= 1 <= most:
        hint = f"shapes {text} have to broadcast: give equal dimensions one name"
        raise UnequalSizes(a, b, hint)
    raise VerifyException(f"shapes {text} do not broadcast")


def normalize_axis(axis: int, rank: int, name: str = "axis") -> int:
    """Map a possibly negative axis into [0, rank); VerifyException if it is outside."""
    if not -rank <= axis < max(rank, 1):
        raise VerifyException(f"{name} {axis} is outside a tensor of rank {rank}")
    return axis % rank if rank else 0


def check_permutation(perm: Sequence[int], rank: int) -> None:
    """Raise VerifyException unless perm contains each of 0..rank-1 once."""
    if sorted(perm) != list(range(rank)):
        raise VerifyException(f"perm {list(perm)} is not a permutation of {rank} axes")
