"""compute_at: move a producer to where its results are used."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tcopt.dialects.loop import BlockOp, ForOp, IterKind, LoopKind
from tcopt.dialects.loop.analysis import Box, over
from tcopt.schedules.analysis.regions import (
    box_under,
    reads_of,
    sharing_loops,
    variables_of,
    writes_of,
)
from tcopt.schedules.dependences.order import check_move, check_single
from tcopt.schedules.edits.nest import (
    Span,
    build_nest,
    check_movable,
    check_visible,
    drop_guards,
    full_spans,
    hoist_alloc,
    sink_alloc,
)
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import (
    State,
    alloc_of,
    ancestor_in,
    block_label,
    buffers_read,
    precedes,
    value_label,
    written_buffer,
)


def compute_at(state: State, block: BlockOp, loop: ForOp) -> None:
    """Compute the part of a producer that an iteration of a consumer's loop needs, inside of the
    loop.

        loop.for %i = 0 to 64 {
          loop.block "double" (%vi: spatial 64 = %i) {...}          // writes %d[%vi]
        }
        loop.for %io = 0 to 8 {
          loop.for %ii = 0 to 8 {
            loop.block "add" (%vi: spatial 62 = %io * 8 + %ii) {...}  // reads %d[%vi], %d[%vi + 2]

    becomes, for `compute_at(double, io)`,

        loop.for %io = 0 to 8 {
          loop.for %i = 0 to 10 {
            loop.block "double" (%vi: spatial 64 = %io * 8 + %i) {...}
          }
          loop.for %ii = 0 to 8 {
            loop.block "add" ...

    The producer gets new loops, one for each of its variables; its domain excludes points out of
    bounds. Its buffer also moves into the loop. For a buffer in a shared scope, loops bound to
    `threadIdx` and virtual threads count as a whole: the part is computed for all threads of a
    block. Bind these loops first, and the producer's loops afterwards.

    Args:
        block: the only writer of a buffer that the function allocates.
        loop: a loop around every reader of that buffer.
    Raises:
        ScheduleError: the buffer is an argument, has other writers, or is read outside the loop; or
            an input of the block is overwritten in between.
    """
    buffer = written_buffer(block, "compute_at")
    _check_buffer(state, block, buffer)
    check_single(state.known, "compute_at", block, buffer)
    check_movable("compute_at", block)
    if loop.loop_kind is LoopKind.VECTORIZED:
        raise illegal("compute_at", "loop", "a vectorized loop holds no other loops", op=loop)
    consumers = _consumers(state, block, buffer, loop)
    place = _first(consumers, loop)
    _check_inputs(state, block, place)
    check_move(state.known, "compute_at", block, loop, buffers_read(block), "loop")
    check_visible("compute_at", block, buffers_read(block), consumers[0])
    body = loop.body.block
    items = [(a, ancestor_in(body, c)) for c in consumers for a in reads_of(c, buffer)]
    box = box_under(items, buffer, sharing_loops(buffer, loop))
    parent = block.parent_op()
    block.detach()
    state.prune(parent, f"its block {block_label(block)} moved")
    drop_guards(block)
    values: list[SSAValue] = list(box.operands)
    nest = build_nest(block, _spans(block, buffer, box, values), values)
    body.insert_op_before(nest, place)
    sink_alloc(state, buffer)
    for source in buffers_read(block):
        hoist_alloc(state, source)


def _check_buffer(state: State, block: BlockOp, buffer: SSAValue) -> None:
    label = value_label(buffer)
    if alloc_of(buffer) is None:
        reason = f"it writes {label}, an argument that must be written completely"
        hint = "cache_write gives it a buffer of its own"
        raise illegal("compute_at", "block", reason, op=block, hint=hint)
    for other in state.writers(buffer):
        if other is not block:
            reason = f"block {block_label(other)} writes {label} too"
            hint = "compute_at comes before decompose_reduction"
            raise illegal("compute_at", "block", reason, op=block, hint=hint)


def _consumers(state: State, block: BlockOp, buffer: SSAValue, loop: ForOp) -> list[BlockOp]:
    consumers = [b for b in state.readers(buffer) if b is not block]
    if not consumers:
        raise illegal("compute_at", "block", f"nothing reads {value_label(buffer)}", op=block)
    for consumer in consumers:
        if not loop.is_ancestor(consumer):
            raise illegal(
                "compute_at",
                "loop",
                f"block {block_label(consumer)}, which reads {value_label(buffer)}, "
                f"is outside {value_label(loop.induction_variable)}",
                op=loop,
            )
    return consumers


def _check_inputs(state: State, block: BlockOp, place: Operation) -> None:
    for buffer in buffers_read(block):
        for writer in state.writers(buffer):
            if writer is not block and not precedes(writer, place):
                raise illegal(
                    "compute_at",
                    "loop",
                    f"its input {value_label(buffer)} is written by {block_label(writer)}, "
                    "which does not precede the consumer",
                    op=block,
                    hint="move the input's producer first, or choose a loop further inside",
                )


def _spans(block: BlockOp, buffer: SSAValue, box: Box, values: list[SSAValue]) -> list[Span]:
    """Return, for each variable of the producer, the values that the box needs."""
    spans = full_spans(block.domain)
    for access in writes_of(block, buffer):
        for position, (dim, offset) in variables_of(access, block).items():
            need = box.dims[dim]
            if block.iter_kinds[position] is IterKind.SPATIAL:
                if need.extent >= block.domain[position]:
                    continue
                base = over(need.base, box.operands, values) - offset
                spans[position] = Span(base, need.extent)
    return spans


def _first(consumers: list[BlockOp], loop: ForOp) -> Operation:
    """Return the op of the loop's body that contains the first consumer."""
    holders = {ancestor_in(loop.body.block, c) for c in consumers}
    return next(op for op in loop.body.block.ops if op in holders)
