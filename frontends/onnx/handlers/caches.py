"""Caches of keys and values: past rows, to which a step adds new ones.

The past is either the rows of earlier steps, and the present has new rows after them, or a buffer
with room for later rows, in which new rows are written at their positions.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.core.types import as_extent
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.handlers.casting import cast
from tcopt.frontends.onnx.handlers.indexing import written
from tcopt.frontends.onnx.handlers.shaping import reshaped
from tcopt.support.arithmetic.sizes import is_fixed, maximum, minimum, upper_bound


@dataclass(frozen=True)
class Cache:
    """Extents of a cache [batch, heads, positions, size] in a step; they may be sizes.

    Attributes:
        batch, length: extents of the new rows.
        room: number of rows of the past.
        total: number of rows that are attended to.
        present: number of rows of the present.
        past: number of earlier rows of each sequence, i64 [batch], where new rows are written; None
            if they follow the past.
    """

    batch: int
    length: int
    room: int
    total: int
    present: int
    past: SSAValue | None = None

    def positions(self, ctx: NodeContext) -> SSAValue:
        """Return the positions of the new rows, i64 [batch, length]."""
        shape = (self.batch, self.length)
        if self.past is None:
            own = ctx.positions(self.length, start=self.total - self.length)
        else:
            first = reshaped(ctx, self.past, (self.batch, 1))
            own = ctx.emit(graph.AddOp(ctx.positions(self.length), first))
        return own if ctx.shape(own) == shape else ctx.emit(graph.BroadcastToOp(own, shape))

    def extended(
        self, ctx: NodeContext, past: SSAValue | None, new: SSAValue
    ) -> tuple[SSAValue, SSAValue]:
        """Return the keys or values that are attended to, and the present."""
        if past is None or self.room == 0:
            return new, new
        batch, heads, _, size = ctx.shape(new)
        shape = (batch, heads, self.room, size)
        own = list(ctx.shape(past))
        ctx.check(own == list(shape), f"the past {own} should be {list(shape)}")
        if self.past is None:
            whole = ctx.emit(graph.ConcatOp([past, new], axis=2))
            return whole, whole
        rows = self.room
        if self.present != rows:
            past, rows = ctx.emit(graph.ConcatOp([past, new], axis=2)), rows + self.length
        whole = written(ctx, past, new, self.past, axis=2)

        keys = whole
        if self.total != rows:
            keys = ctx.emit(graph.SliceOp(whole, [0] * 4, [batch, heads, self.total, size]))
        if self.present != rows:
            # A slice has to prove that the maximum of two sizes is in range.
            whole = ctx.emit(graph.GatherOp(whole, ctx.positions(self.present), axis=2))
        return keys, whole


def cache_of(ctx: NodeContext, past: SSAValue | None, batch: int, length: int) -> Cache:
    """Return the extents of the cache of GroupQueryAttention.

    `total_sequence_length` is a number, a size, or computed when the program runs. `seqlens_k` has
    the last position of each sequence; those of a first step may be shorter than its rows.
    """
    room: int = 0 if past is None else ctx.shape(past)[2]
    total = _total(ctx, room, length)
    after = room + length
    if total == after:
        # Only in a first step, sequences may be shorter.
        least = as_extent(minimum(room, 1) * (total - 1))
        ctx.require(ctx.input(5), least, total - 1, "seqlens_k")
        return Cache(batch, length, room, total, total)
    ctx.check(upper_bound(after - total) >= 0, f"there are {after} keys, not {total}")
    ctx.require(ctx.input(5), 0, total - 1, "seqlens_k")
    ends = cast(ctx, reshaped(ctx, ctx.input(5), (batch,)), i64)
    earlier = ctx.emit(graph.AddOp(ends, ctx.sizes([1 - length])))
    earlier = ctx.emit(graph.MaxOp(earlier, ctx.sizes([0])))
    present = as_extent(maximum(total, room))
    return Cache(batch, length, room, total, present, earlier)


def _total(ctx: NodeContext, room: int, length: int) -> int:
    """Return the number of rows that are attended to, `total_sequence_length`."""
    given, what = ctx.input(6), "total_sequence_length"
    builder, after = ctx.builder, room + length
    if not builder.may_define(given):
        (total,) = ctx.known_ints(given, what)
        ctx.check(upper_bound(total - length) >= 0, f"{total} rows include {length} new ones")
        return total
    if not is_fixed((room,)) or room == 0:
        ctx.require(given, after, after, what)
        return after
    ctx.require(given, length, after, what)
    count = cast(ctx, reshaped(ctx, given, (1,)), i64)
    earlier = ctx.emit(graph.SubOp(count, ctx.sizes([length])))
    return builder.defined.define("past_sequence_length", earlier, room) + length
