"""reverse_compute_at: move a consumer to where its input is produced."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr

from tcopt.dialects.loop import BlockOp, ForOp, IterKind, LoopKind
from tcopt.dialects.loop.analysis import Access, Box, binding_values, over, value_ranges
from tcopt.schedules.analysis.regions import box_under, reads_of, variable_at, writes_of
from tcopt.schedules.dependences.order import check_move, check_single
from tcopt.schedules.edits.nest import (
    Span,
    build_nest,
    check_movable,
    drop_guards,
    full_spans,
    hoist_alloc,
    sink_alloc,
)
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import (
    State,
    ancestor_in,
    block_label,
    buffers_read,
    buffers_written,
    loops_of,
    precedes,
    value_label,
)
from tcopt.support.arithmetic.affine import simplify
from tcopt.support.arithmetic.integer_points import determines

_NAME = "reverse_compute_at"


@dataclass(frozen=True)
class _Produced:
    """The parts of a buffer that one iteration of the loop, and the whole function, writes."""

    buffer: SSAValue
    now: Box
    ever: Box


def reverse_compute_at(state: State, block: BlockOp, loop: ForOp) -> None:
    """In each iteration of a producer's loop, consume the part that this iteration completes.

        loop.for %jo = 0 to 4 {
          loop.for %k = 0 to 32 {
            loop.for %ji = 0 to 16 {
              loop.block "mm" (%vj: spatial 64 = %jo * 16 + %ji, %vk: reduce 32 = %k) {...}
        ...
        loop.for %j = 0 to 64 {
          loop.block "relu" (%vj: spatial 64 = %j) {...}

    becomes, for `reverse_compute_at(relu, jo)`,

        loop.for %jo = 0 to 4 {
          loop.for %k = 0 to 32 { ... "mm" ... }
          loop.for %j = 0 to 16 {
            loop.block "relu" (%vj: spatial 64 = %jo * 16 + %j) {...}

    The consumer gets new loops. It must still run once for each of its points.

    Args:
        block: a block that reads what blocks inside the loop write.
        loop: a loop around those producers, outside all loops that they reduce over.
    Raises:
        ScheduleError: a producer is not complete within one iteration; the consumer would not run
            exactly once for each point; or another of its inputs is not ready yet.
    """
    if loop.loop_kind is LoopKind.VECTORIZED:
        raise illegal(_NAME, "loop", "a vectorized loop holds no other loops", op=loop)
    if not loop.is_ancestor(block) and not precedes(loop, block):
        raise illegal(_NAME, "block", "it comes before the loop", op=block)
    check_movable(_NAME, block)
    for buffer in buffers_written(block):
        check_single(state.known, _NAME, block, buffer)
    produced = _produced(state, block, loop)
    last = _last_producer(state, block, produced, loop)
    _check_outputs(state, block, loop, last)
    to = last if loop.is_ancestor(block) else loop
    check_move(state.known, _NAME, block, to, buffers_read(block))
    outer = [*loops_of(loop), loop]
    values: list[SSAValue] = [o.induction_variable for o in outer]
    spans = _spans(block, produced, values)
    _check_once(block, loop, spans, values)
    _check_reductions(block, outer, spans, values)
    parent = block.parent_op()
    block.detach()
    state.prune(parent, f"its block {block_label(block)} moved")
    kept = drop_guards(block)
    nest = build_nest(block, [spans[p] for p in kept], values)
    loop.body.block.insert_op_after(nest, last)
    for item in produced:
        sink_alloc(state, item.buffer)
    for buffer in buffers_written(block):
        hoist_alloc(state, buffer)


def _produced(state: State, block: BlockOp, loop: ForOp) -> list[_Produced]:
    """Return the parts that the loop produces for the block; check that other inputs are ready."""
    found: list[_Produced] = []
    for buffer in buffers_read(block):
        writers = [w for w in state.writers(buffer) if w is not block]
        inside = [w for w in writers if loop.is_ancestor(w)]
        if not inside:
            _check_ready(writers, buffer, loop, block)
            continue
        items: list[tuple[Access, Operation]] = []
        whole: list[tuple[Access, Operation]] = []
        for writer in writers:
            if writer not in inside:
                reason = f"block {block_label(writer)} writes {value_label(buffer)} outside it"
                raise illegal(_NAME, "loop", reason, op=loop)
            _check_complete(writer, loop)
            holder = ancestor_in(loop.body.block, writer)
            items += [(a, holder) for a in writes_of(writer, buffer)]
            whole += [(a, state.func) for a in writes_of(writer, buffer)]
        found.append(_Produced(buffer, box_under(items, buffer), box_under(whole, buffer)))
    if not found:
        reason = f"{value_label(loop.induction_variable)} produces nothing that the block reads"
        raise illegal(_NAME, "loop", reason, op=loop)
    return found


def _check_ready(writers: list[BlockOp], buffer: SSAValue, loop: ForOp, block: BlockOp) -> None:
    for writer in writers:
        if not precedes(writer, loop):
            raise illegal(
                _NAME,
                "block",
                f"its input {value_label(buffer)} is written by {block_label(writer)}, "
                "after the loop",
                op=block,
            )


def _check_complete(writer: BlockOp, loop: ForOp) -> None:
    around = {o.induction_variable: o for o in (*loops_of(loop), loop)}
    for position, kind in enumerate(writer.iter_kinds):
        if kind is not IterKind.REDUCE:
            continue
        for value in binding_values(writer, position):
            if value not in around:
                continue
            raise illegal(
                _NAME,
                "loop",
                f"block {block_label(writer)} reduces over {value_label(value)}, so its result "
                "is not complete inside",
                op=loop,
                hint="choose a loop outside all loops of the reduction",
            )


def _last_producer(
    state: State, block: BlockOp, produced: list[_Produced], loop: ForOp
) -> Operation:
    """Return the op of the loop's body after which all producers are complete."""
    body = loop.body.block
    holders = {
        ancestor_in(body, writer)
        for item in produced
        for writer in state.writers(item.buffer)
        if writer is not block
    }
    return [op for op in body.ops if op in holders][-1]


def _check_outputs(state: State, block: BlockOp, loop: ForOp, last: Operation) -> None:
    for buffer in buffers_written(block):
        for writer in state.writers(buffer):
            if writer is not block:
                reason = f"block {block_label(writer)} writes {value_label(buffer)} too"
                raise illegal(_NAME, "block", reason, op=block)
        for reader in state.readers(buffer):
            if reader is not block and loop.is_ancestor(reader) and not precedes(last, reader):
                reason = f"block {block_label(reader)} needs its result before it would be computed"
                raise illegal(_NAME, "loop", reason, op=loop)


def _spans(block: BlockOp, produced: list[_Produced], values: list[SSAValue]) -> list[Span]:
    """Return, for each variable of the consumer, the values that one iteration produces."""
    spans: list[Span | None] = [None] * len(block.domain)
    ranges = value_ranges(values)
    for item in produced:
        for access in reads_of(block, item.buffer):
            for dim, now in enumerate(item.now.dims):
                ever = item.ever.dims[dim]
                if now == ever and isinstance(now.base, AffineConstantExpr):
                    continue
                position, offset = _variable(block, access, dim, item)
                _check_covered(block, position, offset, item, dim)
                base = simplify(over(now.base, item.now.operands, values) - offset, ranges)
                span = Span(base, now.extent)
                if spans[position] not in (None, span):
                    raise illegal(
                        _NAME,
                        "block",
                        f"its reads need different values of "
                        f"{value_label(block.iter_vars[position])} in one iteration",
                        op=block,
                    )
                spans[position] = span
    full = full_spans(block.domain)
    return [f if s is None else s for s, f in zip(spans, full, strict=True)]


def _variable(block: BlockOp, access: Access, dim: int, item: _Produced) -> tuple[int, int]:
    variable = variable_at(access, dim, block)
    if variable is None:
        raise illegal(
            _NAME,
            "block",
            f"index {dim} of its read of {value_label(item.buffer)} is not a variable plus a "
            "constant, so one iteration does not hold all it needs",
            op=block,
        )
    return variable


def _check_covered(block: BlockOp, position: int, offset: int, item: _Produced, dim: int) -> None:
    ever = item.ever.dims[dim]
    low = ever.base.value if isinstance(ever.base, AffineConstantExpr) else 0
    if offset < low or block.domain[position] + offset > low + ever.extent:
        raise illegal(
            _NAME,
            "block",
            f"{value_label(block.iter_vars[position])} has values for which "
            f"{value_label(item.buffer)} is never written, and no iteration would run them",
            op=block,
        )


def _check_once(block: BlockOp, loop: ForOp, spans: list[Span], values: list[SSAValue]) -> None:
    """Check that the enclosing and the new loops bind the variables to each point only once."""
    ranges = [*value_ranges(values)]
    exprs: list[AffineExpr] = []
    for span in spans:
        exprs.append(span.base + AffineDimExpr(len(ranges)))
        ranges.append((0, span.extent - 1))
    for wanted, value in enumerate(values):
        if not determines(exprs, ranges, [wanted]):
            raise illegal(
                _NAME,
                "loop",
                f"iterations of {value_label(value)} would run block {block_label(block)} for "
                "the same points again",
                op=loop,
            )


def _check_reductions(
    block: BlockOp, outer: list[ForOp], spans: list[Span], values: list[SSAValue]
) -> None:
    for span, kind in zip(spans, block.iter_kinds, strict=True):
        if kind is not IterKind.REDUCE:
            continue
        used = {values[d] for d in span.base.used_dims()}
        for loop in outer:
            if loop.induction_variable in used and loop.loop_kind is not LoopKind.SERIAL:
                raise illegal(
                    _NAME,
                    "loop",
                    f"the block would reduce over {value_label(loop.induction_variable)}, "
                    f"which is {loop.loop_kind.value}",
                    op=loop,
                )
