"""Legality of reorderings: checks that primitives make before they edit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations_with_replacement

from xdsl.ir import Operation, SSAValue

from tcopt.dialects.loop import (
    AllocOp,
    BlockOp,
    ForOp,
    FuncOp,
    GuardOp,
    InitOp,
    LoadOp,
    PrefetchOp,
    StoreOp,
)
from tcopt.dialects.loop.dependences import Alias, Relation, Relations, Touch, alias, touches
from tcopt.schedules.dependences.single_assignment import classify, updates_commute
from tcopt.schedules.dependences.texts import access_text
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import ancestor_in, common_block, is_inside, loops_of, value_label


class Dependences:
    """Dependences between accesses to a function's buffers.

    Computed once, before the first step; steps update it when they replace a buffer.

    Attributes:
        shared: buffers whose reads and writes may depend on order, with the reason.
        ordered: buffers whose elements are each computed once, by updates that do not commute.
        fence: an op that is ordered with all memory accesses, if there is one.
    """

    def __init__(self, func: FuncOp):
        self.func = func
        classes = classify(func)
        self.shared, self.ordered, self.fence = classes.shared, classes.ordered, classes.fence

    @property
    def is_free(self) -> bool:
        """Whether every buffer is written once and then read: no pairs of accesses are compared."""
        return not self.shared and not self.ordered and self.fence is None

    def replace(self, old: SSAValue, new: SSAValue) -> None:
        """Record that buffer `new` replaced `old`."""
        for found in (self.shared, self.ordered):
            if old in found:
                found[new] = found.pop(old)

    def touched(self, root: Operation, buffers: Iterable[SSAValue]) -> Iterator[list[Touch]]:
        """Yield the accesses at or below `root` to each of `buffers` that is written there."""
        for buffer in buffers:
            found = touches(buffer, root)
            if any(touch.is_write for touch in found):
                yield found

    def check_fences(self, primitive: str, argument: str, op: Operation) -> None:
        """Raise ScheduleError if the function contains an op that orders all memory accesses."""
        if self.fence is not None:
            reason = f"the function contains a {self.fence.name}, which orders all memory accesses"
            raise illegal(primitive, argument, reason, op=op)


def check_single(
    known: Dependences, primitive: str, block: BlockOp, buffer: SSAValue, *, any_order: bool = True
) -> None:
    """Check that each element that a block writes is computed once, before it is read.

    Args:
        any_order: whether the terms of a reduction may be reordered too.
    Raises:
        ScheduleError: with the reason, if this does not hold.
    """
    known.check_fences(primitive, "block", block)
    reason = known.shared.get(buffer)
    if reason is None and any_order:
        reason = known.ordered.get(buffer)
    if reason is not None:
        label = value_label(buffer)
        raise illegal(
            primitive,
            "block",
            f"it writes {label}, whose elements may depend on the order of steps: {reason}",
            op=block,
        )


def check_runs(primitive: str, block: BlockOp) -> None:
    """Raise ScheduleError if a block never runs: code moved next to it might run instead."""
    if 0 in block.domain or any(loop.trip_count == 0 for loop in loops_of(block)):
        raise illegal(primitive, "block", "it never runs", op=block)


def check_iterations(known: Dependences, primitive: str, loop: ForOp) -> None:
    """Check that iterations of `loop` do not write elements of shared buffers that others access.

    Raises:
        ScheduleError: the message names the two accesses.
    """
    if known.is_free:
        return
    known.check_fences(primitive, "loop", loop)
    around = {each: Relation.EQUAL for each in loops_of(loop)}
    for found in known.touched(loop, known.shared):
        if is_inside(found[0].buffer, loop):
            continue
        for a, b in _pairs(found):
            for relation in (Relation.BEFORE, Relation.AFTER):
                if _may_alias(a, b, {**around, loop: relation}):
                    raise _between_iterations(primitive, a, b, loop)


def _may_alias(first: Touch, second: Touch, relations: Relations) -> bool:
    return alias(first, second, relations) is not Alias.NEVER


def _text(touch: Touch) -> str:
    return access_text(touch.op, touch.buffer)


def _pairs(found: Sequence[Touch]) -> Iterator[tuple[Touch, Touch]]:
    for a, b in combinations_with_replacement(found, 2):
        if a.is_write or b.is_write:
            yield a, b


def _between_iterations(primitive: str, a: Touch, b: Touch, loop: ForOp) -> Exception:
    label = value_label(loop.induction_variable)
    pair = _text(a) if a.op is b.op else f"{_text(a)} and {_text(b)}"
    reason = f"{pair} may access the same element in two iterations of {label}"
    return illegal(primitive, "loop", reason, op=loop)


def check_permutation(
    known: Dependences, primitive: str, chain: Sequence[ForOp], order: Sequence[ForOp]
) -> None:
    """Check that accesses which may alias keep their order if the loops of `chain` are permuted.

    Raises:
        ScheduleError: the message names the two accesses and the loops.
    """
    if known.is_free:
        return
    known.check_fences(primitive, "loops", chain[0])
    around = {each: Relation.EQUAL for each in loops_of(chain[0])}
    cases = list(_exchanged(chain, order))
    for found in known.touched(chain[0], {**known.shared, **known.ordered}):
        if is_inside(found[0].buffer, chain[-1]):
            continue
        for a in found:
            for b in found:
                if not (a.is_write or b.is_write) or _commute(a, b):
                    continue
                for relations, outer, inner in cases:
                    if _may_alias(a, b, {**around, **relations}):
                        raise _exchanged_order(a, b, outer, inner, chain[0], primitive)


def _exchanged(
    chain: Sequence[ForOp], order: Sequence[ForOp]
) -> Iterator[tuple[Relations, ForOp, ForOp]]:
    """Yield the cases in which one iteration precedes another in the old order only.

    A case has the relations of the loops, the loop that determines the old order, and the loop that
    determines the new order.
    """
    for place, outer in enumerate(chain):
        for new_place, inner in enumerate(order):
            if chain.index(inner) <= place or order.index(outer) <= new_place:
                continue
            equal = [*chain[:place], *order[:new_place]]
            relations = dict.fromkeys(equal, Relation.EQUAL)
            if outer not in relations and inner not in relations:
                yield {**relations, outer: Relation.BEFORE, inner: Relation.AFTER}, outer, inner


def _commute(a: Touch, b: Touch) -> bool:
    """Whether two accesses belong to the same update of a block, with terms that commute."""
    if a.block is None or a.block is not b.block:
        return False
    stores = [op for op in a.block.body.walk() if isinstance(op, StoreOp) and op.memref is a.buffer]
    steps = [op for op in stores if not isinstance(op.parent_op(), InitOp)]
    if len(steps) != 1 or not updates_commute(steps[0]):
        return False
    loads = [op for op in a.block.body.walk() if isinstance(op, LoadOp) and op.memref is a.buffer]
    same = all(each.map == steps[0].map for each in (*loads, *stores))
    is_one = same and all([*each.indices] == [*steps[0].indices] for each in (*loads, *stores))
    return is_one and len(loads) == 1


def _exchanged_order(
    a: Touch, b: Touch, outer: ForOp, inner: ForOp, op: ForOp, primitive: str
) -> Exception:
    labels = [value_label(each.induction_variable) for each in (outer, inner)]
    pair = f"two runs of {_text(a)}" if a.op is b.op else f"{_text(a)} and {_text(b)}"
    reason = (
        f"{pair}, which may access the same element, would be exchanged: {labels[1]} would "
        f"determine their order instead of {labels[0]}"
    )
    return illegal(primitive, "loops", reason, op=op)


def check_move(
    known: Dependences,
    primitive: str,
    block: BlockOp,
    to: Operation,
    moved: Iterable[SSAValue],
    argument: str = "block",
) -> None:
    """Check that moving a block does not change the values that it reads.

    Args:
        to: the destination; the block passes every other op from its old position to here.
        moved: buffers that the block reads.
    Raises:
        ScheduleError: the message names the two accesses.
    """
    if known.is_free:
        return
    known.check_fences(primitive, argument, block)
    body = common_block([block, to], known.func)
    passed = list(_span(ancestor_in(body, block), ancestor_in(body, to)))
    check_passed(known, primitive, block, moved, passed, argument)


def check_passed(
    known: Dependences,
    primitive: str,
    block: BlockOp,
    moved: Iterable[SSAValue],
    passed: Sequence[Operation],
    argument: str = "block",
) -> None:
    """Check that accesses of a block may be exchanged with those of other ops in one body.

    Args:
        moved: buffers whose accesses by the block move; accesses to other buffers stay.
    """
    if known.is_free:
        return
    equal: Relations = dict.fromkeys(loops_of(passed[0]), Relation.EQUAL)
    for buffer in moved:
        if buffer not in known.shared and buffer not in known.ordered:
            continue
        others = [t for op in passed for t in touches(buffer, op) if t.block is not block]
        for a in touches(buffer, block):
            for b in others:
                if (a.is_write or b.is_write) and _may_alias(a, b, equal):
                    raise illegal(
                        primitive,
                        argument,
                        f"{_text(a)} would be moved past {_text(b)}, and both may access the same "
                        "element",
                        op=block,
                    )


def _span(one: Operation, other: Operation) -> Iterator[Operation]:
    """Yield the ops of a body between two ops, both included, in program order."""
    first, last = (one, other) if one is other or one.is_before_in_block(other) else (other, one)
    op: Operation | None = first
    while op is not None:
        yield op
        op = None if op is last else op.next_op


def check_blocks_only(primitive: str, argument: str, loop: ForOp) -> None:
    """Raise ScheduleError if code outside of blocks uses the loop's variable."""
    for use in loop.induction_variable.uses:
        op = use.operation
        if not isinstance(op, BlockOp):
            label = value_label(loop.induction_variable)
            reason = f"code outside of blocks uses {label}"
            raise illegal(primitive, argument, reason, op=loop)


def check_repeatable(primitive: str, argument: str, loop: ForOp) -> None:
    """Raise ScheduleError if a loop contains code outside of blocks.

    No guard would keep such code from running in added iterations.
    """
    rest: list[Operation] = list(loop.body.block.ops)
    for op in rest:
        match op:
            case ForOp():
                rest += op.body.block.ops
            case GuardOp() if all(isinstance(each, PrefetchOp) for each in op.body.block.ops):
                pass
            case AllocOp() | BlockOp() | PrefetchOp():
                pass
            case _:
                reason = f"its last iteration would run a {op.name} outside of blocks again"
                hint = "factors that divide add no iterations"
                raise illegal(primitive, argument, reason, op=loop, hint=hint)
