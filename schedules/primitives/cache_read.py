"""cache_read: make a block read a copy of a buffer in another memory scope."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AffineMapAttr, MemRefType
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.utils.hints import isa

from tcopt.dialects.loop import AllocOp, BlockOp, LoadOp, Scope
from tcopt.dialects.loop.analysis import value_ranges
from tcopt.dialects.size import extents_of, sized_memref
from tcopt.schedules.analysis.regions import box_under, reads_of
from tcopt.schedules.dependences.order import check_passed
from tcopt.schedules.edits.copies import copy_nest, redirect
from tcopt.schedules.edits.nest import alloc_like
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import (
    State,
    alloc_of,
    ancestor_in,
    buffers_read,
    buffers_written,
    meeting_block,
    precedes,
    value_label,
)
from tcopt.support.arithmetic.affine import LinearSum, linear_sum, to_expr
from tcopt.support.arithmetic.sizes import Extent, ceildiv

_NAME = "cache_read"


def cache_read(
    state: State,
    block: BlockOp,
    buffer: int | str,
    scope: Scope,
    steps: Sequence[int] | None = None,
) -> BlockOp:
    """Copy the part of a buffer that `block` reads to a new buffer, which it reads instead.

        loop.for %i = 0 to 64 {
          loop.block "double" (%vi: spatial 64 = %i) {...}     // reads %x

    becomes, for `cache_read(double, "x", "shared")`,

        %x_shared = loop.alloc shared : memref<64xf32>
        loop.for %d0 = 0 to 64 {
          loop.block "x_shared" (%vd0: spatial 64 = %d0) {...}   // copies %x to %x_shared
        }
        loop.for %i = 0 to 64 {
          loop.block "double" (%vi: spatial 64 = %i) {...}     // reads %x_shared

    `compute_at` moves the copy to where the data is used.

    With steps, only every n-th index along each dimension is copied, if the block reads no others:
    `%x[%vi * 2]` becomes `%x_shared[%vi]` for `steps [2]`.

    Args:
        block: the reader.
        buffer: name of a buffer it reads, or its position in the order of its reads.
        scope: memory scope of the copy.
        steps: one for each dimension of the buffer; by default all indices are copied.
    Returns:
        The copying block, `<buffer>_<scope>`.
    Raises:
        ScheduleError: the block does not read the buffer, or also writes it; or it reads indices
            that `steps` skips.
    """
    source = _source(block, buffer)
    if source in buffers_written(block):
        raise illegal(_NAME, "buffer", f"the block writes {value_label(source)} too", op=block)
    writers = [w for w in state.writers(source) if precedes(w, block)]
    home = alloc_of(source)
    body = meeting_block(block, writers if home is None else [*writers, home], state.func)
    holder = ancestor_in(body, block)
    check_passed(state.known, _NAME, block, [source], [holder], "buffer")
    type_ = source.type
    assert isa(type_, MemRefType)
    if steps is not None:
        type_ = sized_memref(_divided(block, source, steps), type_.get_element_type())
    alloc = AllocOp(type_, scope)
    base = f"{source.name_hint or block.block_name.data}_{scope.value}"
    alloc.result.name_hint = base
    redirect(block, source, alloc.result)
    box = box_under([(a, holder) for a in reads_of(block, alloc.result)], alloc.result)
    copy, nest = copy_nest(state.fresh_name(base), source, alloc.result, box, block, steps=steps)
    body.insert_op_before(nest, holder)
    state.add_block(copy)
    alloc_like(state, alloc, [copy, block])
    return copy


def _divided(block: BlockOp, source: SSAValue, steps: Sequence[int]) -> list[Extent]:
    """Divide the indices of a block's reads by steps; return the remaining extents."""
    shape, label = extents_of(source.type), value_label(source)
    if len(steps) != len(shape) or any(step < 1 for step in steps):
        reason = f"{list(steps)} are not {len(shape)} positive numbers"
        raise illegal(_NAME, "steps", reason, op=block)
    loads = [op for op in block.body.walk() if isinstance(op, LoadOp) and op.memref is source]
    divided: list[list[AffineExpr]] = []
    for op in loads:
        ranges = value_ranges(list(op.indices))
        exprs: list[AffineExpr] = []
        for expr, step in zip(op.map.data.results, steps, strict=True):
            if step == 1:
                exprs.append(expr)
                continue
            total = linear_sum(expr, ranges)
            if (
                op.default is not None
                or total.constant % step
                or any(factor % step for _, factor in total.terms)
            ):
                reason = f"the block reads other indices of {label} than every {step}"
                raise illegal(_NAME, "steps", reason, op=block)
            terms = tuple((atom, factor // step) for atom, factor in total.terms)
            exprs.append(to_expr(LinearSum(terms, total.constant // step)))
        divided.append(exprs)
    for op, exprs in zip(loads, divided, strict=True):
        op.map = AffineMapAttr(AffineMap(op.map.data.num_dims, 0, tuple(exprs)))
    return [ceildiv(extent, step) for extent, step in zip(shape, steps, strict=True)]


def _source(block: BlockOp, buffer: int | str) -> SSAValue:
    found = buffers_read(block)
    names = [value.name_hint for value in found]
    if isinstance(buffer, str):
        if names.count(buffer) == 1:
            return found[names.index(buffer)]
    elif 0 <= buffer < len(found):
        return found[buffer]
    known = ", ".join(f"{i} %{n}" for i, n in enumerate(names))
    raise illegal(
        _NAME, "buffer", f"the block reads no buffer {buffer!r}; it reads {known}", op=block
    )
