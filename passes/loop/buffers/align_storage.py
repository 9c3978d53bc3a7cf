"""Padding of the rows of buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import I64, DenseArrayBase, MemRefType, ModuleOp, i64
from xdsl.ir.affine import AffineConstantExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.dialects.loop.memory import STORAGE_ALIGN
from tcopt.dialects.size import extents_of
from tcopt.passes.loop.analysis.indexing import set_access
from tcopt.support.arithmetic.sizes import is_fixed
from tcopt.support.ir.literals import integers
from tcopt.support.ir.rewriting import rewrite


class AlignStorage(RewritePattern):
    """Pad the rows of a buffer as its attribute specifies, and rewrite its accesses.

        %t = loop.alloc global {storage_align = array<i64: 0, 32, 16>} : memref<6x4x16xf32>
        ... loop.load %t[%i, %j, %k]
    ->
        %t = loop.alloc global : memref<6x80xf32>
        ... loop.load %t[%i, %j * 16 + %k]
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: loop.AllocOp, rewriter: PatternRewriter) -> None:
        wanted = op.attributes.pop(STORAGE_ALIGN, None)
        if wanted is None:
            return
        rewriter.notify_op_modified(op)
        if isa(wanted, DenseArrayBase[I64]) and not op.scope.data.in_registers:
            dim, factor, offset = integers(wanted)
            _align(op, dim, factor, offset, rewriter)


def _align(
    alloc: loop.AllocOp, dim: int, factor: int, offset: int, rewriter: PatternRewriter
) -> None:
    type_ = alloc.result.type
    assert isa(type_, MemRefType)
    shape = type_.get_shape()
    used = prod(shape[dim + 1 :])
    stride = used + (offset - used) % factor
    users = [use.operation for use in alloc.result.uses]
    accesses = [op for op in users if isinstance(op, loop.LoadOp | loop.StoreOp)]
    movable = len(accesses) == len(users) and not any(_is_special(op) for op in accesses)
    if stride == used or not movable or not is_fixed(extents_of(type_)):
        return
    new_type = MemRefType(
        type_.get_element_type(), [*shape[: dim + 1], stride], type_.layout, type_.memory_space
    )
    for op in dict.fromkeys(accesses):
        exprs = op.map.data.results
        flat: AffineExpr = AffineConstantExpr(0)
        for expr, extent in zip(exprs[dim + 1 :], shape[dim + 1 :], strict=True):
            flat = flat * extent + expr
        results = (*exprs[: dim + 1], flat)
        set_access(op, AffineMap(op.map.data.num_dims, 0, results), list(op.indices))
        if op.lanes is not None:
            op.lanes = DenseArrayBase.from_list(i64, _flat_lanes(op, shape, dim))
    new = loop.AllocOp.create(
        result_types=[new_type], properties=alloc.properties, attributes=alloc.attributes
    )
    rewriter.replace(alloc, new)


def _flat_lanes(op: loop.LoadOp | loop.StoreOp, shape: Sequence[int], dim: int) -> list[int]:
    """Return the lane steps with the dimensions after `dim` flattened."""
    lanes: list[int] = []
    for steps in op.lane_steps:
        flat = 0
        for step, extent in zip(steps[dim + 1 :], shape[dim + 1 :], strict=True):
            flat = flat * extent + step
        lanes += [*steps[: dim + 1], flat]
    return lanes


def _is_special(op: loop.LoadOp | loop.StoreOp) -> bool:
    """Whether an access has a mask or a default."""
    return op.mask is not None or (isinstance(op, loop.LoadOp) and op.default is not None)


@dataclass(frozen=True)
class AlignStoragePass(ModulePass):
    """Pad the rows of buffers as `sched.storage_align` specifies.

    The dimensions after the aligned one are flattened, and padded at the end.

        %t = loop.alloc global {storage_align = array<i64: 0, 32, 16>} : memref<6x4x16xf32>
        ... loop.load %t[%i, %j, %k]
    ->
        %t = loop.alloc global : memref<6x80xf32>
        ... loop.load %t[%i, %j * 16 + %k]

    The pass runs after `compact-buffers`, which decides the extents. Buffers in registers have no
    strides and are not changed. Nor are buffers that are used by ops other than loads and stores,
    or read out of bounds.
    """

    name = "align-storage"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [AlignStorage()])
