"""Whether a convolution of single elements had better stay on plain data."""

from __future__ import annotations

from math import prod

from xdsl.dialects import func
from xdsl.ir import SSAValue

from tcopt.dialects.graph.conv import ConvOp
from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.dialects.graph.types import bytes_of, shape_of, type_of
from tcopt.passes.graph.layout.channel_blocks import block_of
from tcopt.support.remarks import remark

MOVED_BYTES = 16
"""Bytes a cycle that a change of layout reads and writes, as measured on data in the second and
third cache."""

PRODUCTS = 2
"""Vectors of products that a core computes a cycle."""


def stays_plain(op: ConvOp, lanes: int) -> bool:
    """Whether to compute on plain data, given that the operand is plain.

    On plain data it is a product of matrices, whose vectors hold pixels: no data changes its
    layout, but the last vector of an image may be filled in part only.
    """
    window = op.window
    if op.group_count != 1 or not window.is_pointwise or window.is_padded:
        return False
    if set(window.strides) != {1} or not _ends_plain(op.results[0], lanes):
        return False
    pixels = prod(op.shape[2:])
    spare = -pixels % lanes * op.shape[0] * op.shape[1] * shape_of(op.x)[1]
    moved = 2 * (bytes_of(type_of(op.x)) + bytes_of(type_of(op.results[0])))
    wasted, changed = spare / lanes / PRODUCTS, moved / MOVED_BYTES
    remark(
        "convert-layout",
        op,
        f"est. {wasted:.0f} cycles lost in vectors along plain images, "
        f"{changed:.0f} for changes of the layout",
    )
    return wasted < changed


def _ends_plain(value: SSAValue, lanes: int) -> bool:
    """Whether a value goes to results alone, or to ops that have no form in blocks, through
    nothing but elementwise ops."""
    return all(
        isinstance(use.operation, func.ReturnOp)
        or (isinstance(use.operation, GraphOp) and _is_plain(use.operation, lanes))
        for use in value.uses
    )


def _is_plain(op: GraphOp, lanes: int) -> bool:
    if op.is_elementwise:
        return _ends_plain(op.results[0], lanes)
    return len(op.shape) > 1 and op.stays_plain(block_of(op.shape[1], lanes))
