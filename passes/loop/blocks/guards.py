"""Motion of guards out of loops, and merging of adjacent and nested guards."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.traits import is_side_effect_free

from tcopt.dialects import loop
from tcopt.dialects.loop.structure import is_uniform
from tcopt.passes.loop.edits.conditions import Condition, conditions_of, make_guard
from tcopt.support.ir.rewriting import move, move_before

_KEPT_IN_PLACE = (loop.LoopKind.THREAD, loop.LoopKind.VIRTUAL)


class JoinGuards(RewritePattern):
    """Merge adjacent guards with equal conditions.

    loop.guard ([%i] in 7) { loop.store %a, %x[%i] : memref<7xf32> }
    loop.guard ([%i] in 7) { loop.store %a, %y[%i] : memref<7xf32> }
    ->
    loop.guard ([%i] in 7) {
      loop.store %a, %x[%i] : memref<7xf32>
      loop.store %a, %y[%i] : memref<7xf32>
    }
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: loop.FuncOp | loop.ForOp | loop.GuardOp, rewriter: PatternRewriter
    ) -> None:
        previous: loop.GuardOp | None = None
        for inner in tuple(op.body.block.ops):
            if not isinstance(inner, loop.GuardOp):
                previous = None
            elif previous is not None and _may_join(previous, inner):
                move(tuple(inner.body.block.ops), previous.body.block)
                rewriter.erase(inner)
                rewriter.notify_op_modified(op)
            else:
                previous = inner


class MergeNestedGuard(RewritePattern):
    """Merge a guard with the single guard that it contains.

    loop.guard ([%i] in 7) {
      loop.guard ([%j] in 5) { loop.store %a, %y[%i, %j] : memref<7x5xf32> }
    }
    ->
    loop.guard ([%i] in 7, [%j] in 5) { loop.store %a, %y[%i, %j] : memref<7x5xf32> }
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: loop.GuardOp, rewriter: PatternRewriter) -> None:
        inner = op.body.block.first_op
        if not isinstance(inner, loop.GuardOp) or inner.next_op is not None:
            return
        conditions = [*conditions_of(op), *conditions_of(inner)]
        merged = rewriter.insert(make_guard(list(dict.fromkeys(conditions)), Region(Block())))
        move(tuple(inner.body.block.ops), merged.body.block)
        rewriter.erase(op)


class HoistGuards(RewritePattern):
    """Move loop-invariant conditions out of a loop, if they guard all side effects in it.

    loop.for %j = 0 to 8 {
      loop.guard ([%i] in 7, [%j] in 5) { loop.store %a, %y[%i, %j] : memref<7x5xf32> }
    }
    ->
    loop.guard ([%i] in 7) {
      loop.for %j = 0 to 8 {
        loop.guard ([%j] in 5) { loop.store %a, %y[%i, %j] : memref<7x5xf32> }
      }
    }
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: loop.ForOp, rewriter: PatternRewriter) -> None:
        guards = _guards_of_all(op)
        shared = _invariant_conditions(op, guards)
        if not shared:
            return
        for guard in guards:
            _remove_conditions(guard, shared, rewriter)
        outer = rewriter.insert(make_guard(shared, Region(Block())))
        move([op], outer.body.block)


def _guards_of_all(op: loop.ForOp) -> list[loop.GuardOp]:
    """Return the guards in a loop's body if there are no side effects outside of them."""
    parent = op.parent_op()
    nested_parallel = (
        op.loop_kind is loop.LoopKind.PARALLEL
        and isinstance(parent, loop.ForOp)
        and parent.loop_kind is loop.LoopKind.PARALLEL
    )
    if op.loop_kind in _KEPT_IN_PLACE or nested_parallel:
        return []
    guards = [inner for inner in op.body.block.ops if isinstance(inner, loop.GuardOp)]
    # Effects are checked last, as this walks all nested ops.
    if guards and all(
        isinstance(inner, loop.GuardOp | loop.AllocOp) or is_side_effect_free(inner)
        for inner in op.body.block.ops
    ):
        return guards
    return []


def _invariant_conditions(op: loop.ForOp, guards: Sequence[loop.GuardOp]) -> list[Condition]:
    """Return the conditions that all guards in a loop share and that may be moved out of it."""
    if not guards:
        return []
    variant = set[SSAValue](op.body.block.args).union(*(o.results for o in op.body.block.ops))
    shared = [c for c in conditions_of(guards[0]) if variant.isdisjoint(c[1])]
    # The loop needs no barriers if its iterations are lanes of one thread, or if it only writes to
    # the block's memory.
    is_alone = op.loop_kind is loop.LoopKind.VECTORIZED or _only_fills(op)
    if any(map(_is_of_a_thread, shared)) and not is_alone and threads_meet(op):
        shared = [c for c in shared if not _is_of_a_thread(c)]
    for guard in guards[1:]:
        present = conditions_of(guard)
        shared = [c for c in shared if c in present]
    return shared


def _may_join(first: loop.GuardOp, second: loop.GuardOp) -> bool:
    conditions = conditions_of(first)
    if conditions != conditions_of(second):
        return False
    apart = any(map(_is_of_a_thread, conditions)) and threads_meet(first) and threads_meet(second)
    return not apart


def _only_fills(op: loop.ForOp) -> bool:
    """Whether an unrolled loop of a thread does not read shared memory."""
    if op.loop_kind is not loop.LoopKind.UNROLLED:
        return False
    for inner in op.walk():
        if isinstance(inner, loop.LoadOp):
            alloc = inner.memref.owner
            if isinstance(alloc, loop.AllocOp) and alloc.scope.data.is_shared:
                return False
        is_thread = isinstance(inner, loop.ForOp) and loop.is_thread(inner)
        if is_thread or isinstance(inner, loop.BarrierOp | loop.IntrinOp):
            return False
    return True


def threads_meet(op: Operation) -> bool:
    """Whether an op needs all threads of a block: it uses shared memory or has a thread loop."""
    for inner in op.walk():
        if isinstance(inner, loop.LoadOp | loop.StoreOp):
            alloc = inner.memref.owner
            if isinstance(alloc, loop.AllocOp) and alloc.scope.data.is_shared:
                return True
        elif isinstance(inner, loop.ForOp) and loop.is_thread(inner):
            return True
    return False


def _is_of_a_thread(condition: Condition) -> bool:
    """Whether a condition may differ between threads of a block."""
    return not all(map(is_uniform, condition[1]))


def _remove_conditions(
    guard: loop.GuardOp, conditions: Sequence[Condition], rewriter: PatternRewriter
) -> None:
    rest = [c for c in conditions_of(guard) if c not in conditions]
    inside = tuple(guard.body.block.ops)
    if not rest:
        move_before(inside, guard)
        rewriter.erase(guard)
        return
    body = Block()
    move(inside, body)
    rewriter.replace(guard, make_guard(rest, Region(body)))
