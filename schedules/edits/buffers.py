"""Edits of buffers and their accesses."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AffineMapAttr, MemRefType
from xdsl.ir.affine import AffineMap
from xdsl.rewriter import Rewriter
from xdsl.utils.hints import isa

from tcopt.dialects.loop import AllocOp, LoadOp, StoreOp
from tcopt.dialects.size import sized_memref
from tcopt.support.arithmetic.sizes import Extent


def with_shape(alloc: AllocOp, shape: Sequence[Extent]) -> AllocOp:
    """Replace a buffer by one of another shape; its accesses do not change."""
    type_ = alloc.result.type
    assert isa(type_, MemRefType)
    new_type = sized_memref(shape, type_.get_element_type(), type_.memory_space)
    new = AllocOp.create(
        result_types=[new_type], properties=alloc.properties, attributes=alloc.attributes
    )
    new.result.name_hint = alloc.result.name_hint
    new.location = alloc.location
    Rewriter.replace_op(alloc, new)
    return new


def permute_indices(op: LoadOp | StoreOp, order: Sequence[int]) -> None:
    """Permute the indices of an access."""
    map = op.map.data
    op.map = AffineMapAttr(AffineMap(map.num_dims, 0, tuple(map.results[dim] for dim in order)))
