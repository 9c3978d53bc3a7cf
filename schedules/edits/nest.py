"""Edits of loop nests: new loops, bindings, guards and allocations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from tcopt.dialects.loop import AllocOp, BlockOp, ForOp, IterKind, LoopKind
from tcopt.dialects.loop.analysis import binding_values, value_ranges
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import (
    State,
    alloc_of,
    ancestor_in,
    common_block,
    loops_of,
    precedes,
    value_label,
)
from tcopt.support.arithmetic.affine import linear_sum, simplify, substitute, sum_range
from tcopt.support.arithmetic.sizes import Extent
from tcopt.support.syntax.access_syntax import unique_operands

_CONCURRENT = (LoopKind.PARALLEL, LoopKind.THREAD, LoopKind.VIRTUAL)


@dataclass(frozen=True)
class Span:
    """`extent` consecutive values from `base`, an expression over values passed separately."""

    base: AffineExpr
    extent: int


def new_loop(
    extent: int, name: str | None, origin: Operation, kind: LoopKind = LoopKind.SERIAL
) -> ForOp:
    """Create an empty loop whose variable is called `name`, with the location of `origin`."""
    body = Block(arg_types=[IndexType()])
    body.args[0].name_hint = name
    loop = ForOp(extent, Region(body), kind)
    loop.location = origin.location
    return loop


def loop_name(variable: SSAValue) -> str | None:
    """Return the name of a loop over an iteration variable: `j` for `vj`."""
    hint = variable.name_hint
    return hint[1:] if hint and hint[0] == "v" and hint[1:2].isalpha() else hint


def set_bindings(block: BlockOp, exprs: Sequence[AffineExpr], values: Sequence[SSAValue]) -> None:
    """Bind a block's variables to expressions over `values`, simplified."""
    map, kept = unique_operands(AffineMap(len(values), 0, tuple(exprs)), values)
    ranges = value_ranges(kept)
    simple = tuple(simplify(e, ranges) for e in map.results)
    map, kept = unique_operands(AffineMap(len(kept), 0, simple), kept)
    block.rebind(map.results, kept)


def replace_variable(loop: ForOp, expr: AffineExpr, values: Sequence[SSAValue]) -> None:
    """Replace a loop's variable by `expr` over `values` in every binding."""
    variable = loop.induction_variable
    for block in bound_blocks(loop):
        operands = list(block.operands_)
        shift: list[AffineExpr] = [AffineDimExpr(len(operands) + i) for i in range(len(values))]
        dims = [
            substitute(expr, shift) if operand is variable else AffineDimExpr(i)
            for i, operand in enumerate(operands)
        ]
        exprs = [substitute(e, dims) for e in block.bindings.data.results]
        set_bindings(block, exprs, [*operands, *values])


def bound_blocks(loop: ForOp) -> list[BlockOp]:
    """Return the blocks with a binding over the loop's variable."""
    users = dict.fromkeys(use.operation for use in loop.induction_variable.uses)
    return [op for op in users if isinstance(op, BlockOp)]


def move_ops(source: Block, target: Block) -> None:
    """Append all ops of `source` to `target`."""
    for op in list(source.ops):
        op.detach()
        target.add_op(op)


def add_guard(block: BlockOp, expr: AffineExpr, values: Sequence[SSAValue], extent: Extent) -> None:
    """Run `block` only where `0 <= expr < extent`, by adding an iteration variable.

    The variable is spatial even over loops of a reduction: it takes no part in the reduction.
    """
    operands = list(block.operands_)
    shift: list[AffineExpr] = [AffineDimExpr(len(operands) + i) for i in range(len(values))]
    exprs = [*block.bindings.data.results, substitute(expr, shift)]
    block.set_variables([*block.iter_kinds, IterKind.SPATIAL], [*block.live_domain, extent])
    variable = block.body.block.insert_arg(IndexType(), len(block.iter_vars))
    variable.name_hint = "guard"
    set_bindings(block, exprs, [*operands, *values])


def bound_values(block: BlockOp, kind: IterKind) -> set[SSAValue]:
    """Return the loop variables to which the block's variables of one kind are bound.

    Spatial variables that the body does not use only guard it, and are excluded.
    """
    return {
        value
        for position, each in enumerate(block.iter_kinds)
        if each is kind
        and (kind is IterKind.REDUCE or block.iter_vars[position].first_use is not None)
        for value in binding_values(block, position)
    }


def is_guard(block: BlockOp, position: int) -> bool:
    """Whether a variable only guards part of another variable's binding, as created by `split`."""
    if block.iter_vars[position].first_use is not None:
        return False
    if block.iter_kinds[position] is not IterKind.SPATIAL:
        return False
    if block.is_size_guard(position):
        return False
    ranges = value_ranges(list(block.operands_))
    sums = [linear_sum(e, ranges) for e in block.bindings.data.results]
    mine = dict(sums[position].terms)
    for other, total in enumerate(sums):
        terms = dict(total.terms)
        if other == position or not mine.keys() <= terms.keys():
            continue
        if len({terms[atom] / factor for atom, factor in mine.items()}) <= 1:
            return True
    return False


def drop_guards(block: BlockOp) -> list[int]:
    """Remove the guards of loops that are about to be removed.

    Returns:
        The positions of the remaining variables.
    """
    count = len(block.iter_vars)
    kept = [p for p in range(count) if not is_guard(block, p)]
    kinds = [block.iter_kinds[p] for p in kept]
    if len(kept) == count:
        return list(range(count))
    exprs = [block.bindings.data.results[p] for p in kept]
    block.set_variables(kinds, [block.live_domain[p] for p in kept])
    body = block.body.block
    for position in sorted(set(range(count)) - set(kept), reverse=True):
        body.erase_arg(body.args[position])
    set_bindings(block, exprs, list(block.operands_))
    return kept


def check_movable(primitive: str, block: BlockOp) -> None:
    """Raise ScheduleError if a variable relates others, so that they have no loops of their own."""
    for position, variable in enumerate(block.iter_vars):
        unused = variable.first_use is None and block.iter_kinds[position] is IterKind.SPATIAL
        if unused and block.domain[position] > 1 and not is_guard(block, position):
            raise illegal(
                primitive,
                "block",
                f"its variables are tied together by {value_label(variable)}",
                op=block,
                hint="rfactor by a divisor of the reduction's extent",
            )


def overshoot_is_clipped(block: BlockOp, loop: ForOp, padded: int) -> bool:
    """Whether the block's domain excludes every iteration from the trip count up to `padded`."""
    values = list(block.operands_)
    if loop.induction_variable not in values:
        return False
    ranges = list(value_ranges(values))
    ranges[values.index(loop.induction_variable)] = (loop.trip_count, padded - 1)
    for expr, extent in zip(block.bindings.data.results, block.domain, strict=True):
        low, high = sum_range(linear_sum(expr, ranges), ranges)
        if low >= extent or high < 0:
            return True
    return False


def build_nest(
    block: BlockOp,
    spans: Sequence[Span],
    values: Sequence[SSAValue],
    kinds: Sequence[LoopKind] | None = None,
) -> Operation:
    """Wrap a detached block in one loop for each span longer than 1, and bind it to the loops.

    Returns:
        The outermost op, detached.
    """
    exprs: list[AffineExpr] = []
    loops: list[ForOp] = []
    operands = list(values)
    for position, span in enumerate(spans):
        if span.extent == 1:
            exprs.append(span.base)
            continue
        kind = LoopKind.SERIAL if kinds is None else kinds[position]
        loop = new_loop(span.extent, loop_name(block.iter_vars[position]), block, kind)
        exprs.append(span.base + AffineDimExpr(len(operands)))
        operands.append(loop.induction_variable)
        loops.append(loop)
    set_bindings(block, exprs, operands)
    outer: Operation = block
    for loop in reversed(loops):
        loop.body.block.add_op(outer)
        outer = loop
    return outer


def full_spans(extents: Sequence[int]) -> list[Span]:
    """Return spans that cover whole domains."""
    return [Span(AffineConstantExpr(0), extent) for extent in extents]


def sink_alloc(state: State, buffer: SSAValue) -> None:
    """Move a buffer's allocation to the innermost body that contains all of its users."""
    alloc = alloc_of(buffer)
    users = {*state.readers(buffer), *state.writers(buffer)}
    if alloc is None or len(users) < 2:
        return
    body = common_block(users, state.func)
    if body is not alloc.parent_block():
        alloc.detach()
        insert_first(alloc, body)


def _is_visible(alloc: AllocOp, user: Operation) -> bool:
    body = alloc.parent_block()
    return body is not None and body.is_ancestor(user) and precedes(alloc, user)


def check_visible(
    primitive: str, block: BlockOp, buffers: Sequence[SSAValue], place: Operation
) -> None:
    """Check that buffers of `block` may be made visible at `place`, outside their loops.

    Raises:
        ScheduleError: a buffer is private to an iteration of a concurrent loop, and would become
            shared between iterations.
    """
    visible = loops_of(place)
    for buffer in buffers:
        alloc = alloc_of(buffer)
        for loop in () if alloc is None else loops_of(alloc):
            if loop not in visible and loop.loop_kind in _CONCURRENT:
                raise illegal(
                    primitive,
                    "block",
                    f"its buffer {value_label(buffer)} exists in each iteration of the "
                    f"{loop.loop_kind.value} loop {value_label(loop.induction_variable)} only",
                    op=block,
                )


def hoist_alloc(state: State, buffer: SSAValue) -> None:
    """Move a buffer's allocation before all of its users, unless it already is."""
    alloc = alloc_of(buffer)
    users = [*state.readers(buffer), *state.writers(buffer)]
    if alloc is not None and not all(_is_visible(alloc, user) for user in users):
        alloc.detach()
        insert_first(alloc, common_block(users, state.func))


def insert_first(op: Operation, body: Block) -> None:
    """Insert `op` at the start of `body`."""
    if (first := body.first_op) is None:
        body.add_op(op)
    else:
        body.insert_op_before(op, first)


def alloc_like(state: State, alloc: AllocOp, users: Sequence[Operation]) -> None:
    """Insert a new allocation before its users, in the innermost body that contains them."""
    body = common_block(users, state.func)
    first = min((ancestor_in(body, u) for u in users), key=lambda op: _position(body, op))
    body.insert_op_before(alloc, first)


def _position(body: Block, op: Operation) -> int:
    return next(i for i, other in enumerate(body.ops) if other is op)
