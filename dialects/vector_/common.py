"""Helpers of the vector ops' verifiers."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    I64,
    AnyFloatConstr,
    ArrayAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    VectorType,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import base
from xdsl.utils.hints import isa

ELEMENT = base(IntegerType) | base(IndexType) | AnyFloatConstr
"""Element types of vectors."""


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """Return the shape of a vector value."""
    assert isa(value.type, VectorType)
    return value.type.get_shape()


def vector_type_of(value: SSAValue) -> VectorType[Attribute]:
    """Return the type of a vector value."""
    assert isa(value.type, VectorType[Attribute])
    return value.type


def int_array(values: Sequence[int]) -> ArrayAttr[IntegerAttr[I64]]:
    """Return integers as an array attribute."""
    return ArrayAttr(IntegerAttr(value, i64) for value in values)


def int_values(array: ArrayAttr[IntegerAttr[I64]]) -> tuple[int, ...]:
    """Return the integers of an array attribute."""
    return tuple(value.value.data for value in array)
