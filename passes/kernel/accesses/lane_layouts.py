"""Memory layout of the lanes of an access."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    MemRefType,
    VectorType,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.hints import isa

from tcopt.support.memo import memo


def constant_prefix(mask: SSAValue) -> int | None:
    """Return the number of active lanes of a constant mask that is on for a prefix of the lanes;
    None for other masks.
    """
    constant = mask.owner
    if not isinstance(constant, arith.ConstantOp) or not isa(
        constant.value, DenseIntOrFPElementsAttr
    ):
        return None
    bits = [bool(bit) for bit in constant.value.get_values()]
    count = sum(bits)
    return count if count and all(bits[:count]) else None


def memref_type(buffer: SSAValue) -> MemRefType[Any]:
    """Return the type of a buffer."""
    assert isa(buffer.type, MemRefType)
    return buffer.type


@memo(4096)
def lane_count(type_: Attribute) -> int:
    """Return the number of lanes of a vector; 0 for other types."""
    return type_.get_shape()[0] if isa(type_, VectorType) else 0


def is_adjacent(buffer: Attribute, rows: Sequence[tuple[int, ...]], shape: Sequence[int]) -> bool:
    """Whether a vector's elements are contiguous in a buffer, row after row."""
    extents = buffer_extents(buffer)
    count = len(shape)
    if count > len(extents) or list(extents[-count + 1 :]) != list(shape[1:]):
        return False
    return all(
        not any(step for dim, step in enumerate(steps) if dim != len(extents) - count + row)
        and steps[len(extents) - count + row] == 1
        for row, steps in enumerate(rows)
    )


def buffer_extents(buffer: Attribute) -> tuple[int, ...]:
    """Return the extents of a buffer's type."""
    assert isa(buffer, MemRefType)
    return buffer.get_shape()


@memo(4096)
def lane_steps(lanes: DenseArrayBase[Any]) -> tuple[int, ...]:
    """Return the step from one lane to the next, along each dimension."""
    return tuple(map(int, lanes.get_values()))


@memo(4096)
def flat_step(buffer: Attribute, steps: tuple[int, ...]) -> int:
    """Return the stride between neighbouring lanes in elements."""
    assert isa(buffer, MemRefType)
    stride, total = 1, 0
    for step, extent in reversed(list(zip(steps, buffer.get_shape(), strict=True))):
        total += step * stride
        stride *= extent
    return total
