"""Conversions between ONNX element types, IR types and numpy dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from onnx import TensorProto, TypeProto
from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute

from tcopt.dialects.graph.core.types import element_of
from tcopt.support.data.strings import TEXT
from tcopt.support.data.structures import Kind
from tcopt.support.errors import UnsupportedError

_DTYPES: dict[int, np.dtype] = {
    TensorProto.FLOAT: np.dtype(np.float32),
    TensorProto.DOUBLE: np.dtype(np.float64),
    TensorProto.FLOAT16: np.dtype(np.float16),
    TensorProto.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
    TensorProto.INT8: np.dtype(np.int8),
    TensorProto.INT16: np.dtype(np.int16),
    TensorProto.INT32: np.dtype(np.int32),
    TensorProto.INT64: np.dtype(np.int64),
    TensorProto.UINT8: np.dtype(np.uint8),
    TensorProto.UINT16: np.dtype(np.uint16),
    TensorProto.UINT32: np.dtype(np.uint32),
    TensorProto.UINT64: np.dtype(np.uint64),
    TensorProto.BOOL: np.dtype(np.bool_),
    TensorProto.INT2: np.dtype(ml_dtypes.int2),
    TensorProto.UINT2: np.dtype(ml_dtypes.uint2),
    TensorProto.INT4: np.dtype(ml_dtypes.int4),
    TensorProto.UINT4: np.dtype(ml_dtypes.uint4),
    TensorProto.FLOAT4E2M1: np.dtype(ml_dtypes.float4_e2m1fn),
    TensorProto.FLOAT8E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    TensorProto.FLOAT8E4M3FNUZ: np.dtype(ml_dtypes.float8_e4m3fnuz),
    TensorProto.FLOAT8E5M2: np.dtype(ml_dtypes.float8_e5m2),
    TensorProto.FLOAT8E5M2FNUZ: np.dtype(ml_dtypes.float8_e5m2fnuz),
    TensorProto.FLOAT8E8M0: np.dtype(ml_dtypes.float8_e8m0fnu),
}
_PACKED: dict[int, int] = {
    TensorProto.INT2: 4,
    TensorProto.UINT2: 4,
    TensorProto.INT4: 2,
    TensorProto.UINT4: 2,
    TensorProto.FLOAT4E2M1: 2,
}
_NUMBER_OF = {element_of(dtype): number for number, dtype in _DTYPES.items()}


def onnx_type_name(elem_type: int) -> str:
    """Return ONNX's name of an element type for messages: `float`, `int64`, `string`."""
    if elem_type in TensorProto.DataType.values():
        return TensorProto.DataType.Name(elem_type).lower()
    return f"number {elem_type}"


def numpy_dtype(elem_type: int, where: str) -> np.dtype:
    """Return the numpy dtype of an ONNX element type.

    Raises:
        UnsupportedError: strings, complex numbers, 6-bit floats.
    """
    dtype = _DTYPES.get(elem_type)
    if dtype is None:
        raise UnsupportedError(
            f"tensors of type {onnx_type_name(elem_type)} are not supported", where=where
        )
    return dtype


def declared_dtype(elem_type: int, where: str) -> np.dtype:
    """Return the numpy dtype of a declared element type, including strings; see `numpy_dtype`."""
    return TEXT if elem_type == TensorProto.STRING else numpy_dtype(elem_type, where)


def declared_element(elem_type: int, where: str) -> Attribute:
    """Return the IR element type of a declared one; strings are indices into the string table."""
    return i64 if elem_type == TensorProto.STRING else element_type(elem_type, where)


def elements_per_byte(elem_type: int) -> int:
    """Return the number of elements of a type that ONNX packs into a byte."""
    return _PACKED.get(elem_type, 1)


def element_type(elem_type: int, where: str) -> Attribute:
    """Return the IR element type of an ONNX element type; raises as `numpy_dtype`."""
    return element_of(numpy_dtype(elem_type, where))


def onnx_element_type(element: Attribute) -> int:
    """Return the ONNX number of an IR element type."""
    return _NUMBER_OF[element]


TEXT_TENSOR = "tensor(string)"
"""Name of a string tensor in ONNX's operator schemas."""


def schema_type_name(element: Attribute) -> str:
    """Return the name of a tensor type in ONNX's operator schemas: `tensor(float)`."""
    return f"tensor({onnx_type_name(_NUMBER_OF[element])})"


_KINDS_NAMED = 4


def tensor_declaration(type_: TypeProto) -> tuple[Kind | None, TypeProto.Tensor]:
    """Return the kind of a declared type and its tensor type; the kind is None if undeclared.

    Raises:
        TypeError: the kind is not supported; the message names it.
    """
    kinds = [type_]
    while (name := kinds[-1].WhichOneof("value")) in ("sequence_type", "optional_type"):
        kinds.append(getattr(kinds[-1], name).elem_type)
    names = [k.WhichOneof("value") for k in kinds]
    if names == [None]:
        return None, TypeProto.Tensor()
    match names:
        case ["tensor_type"]:
            kind = Kind.TENSOR
        case ["sequence_type", "map_type"]:
            value = kinds[-1].map_type.value_type.tensor_type
            return Kind.MAPS, TypeProto.Tensor(elem_type=value.elem_type)
        case ["sequence_type", "tensor_type" | None]:
            kind = Kind.SEQUENCE
        case ["optional_type", "tensor_type"]:
            kind = Kind.OPTIONAL
        case ["optional_type", "sequence_type", "tensor_type" | None]:
            kind = Kind.OPTIONAL_SEQUENCE
        case _:
            words = [str(n or "nothing").removesuffix("_type").replace("_", " ") for n in names]
            raise TypeError(" of ".join(words[:_KINDS_NAMED]))
    return kind, kinds[-1].tensor_type
