"""Lowering of reductions over the threads of a block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, MemRefType, ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from tcopt.dialects import loop
from tcopt.dialects.fast_math import order_reason
from tcopt.dialects.loop.updates import Update, neutral, update_of
from tcopt.dialects.simt import ShuffleOp
from tcopt.dialects.target import ThreadBlocks, thread_blocks_of
from tcopt.passes.loop.edits.conditions import Condition, conditions_of, make_guard
from tcopt.support.errors import PassFailedError
from tcopt.support.ir.rewriting import rewrite


@dataclass(frozen=True)
class LowerThreadReduction(RewritePattern):
    """Lower a reduction over threads to a tree in shared memory, or to shuffles.

        loop.for %t = 0 to 4 thread threadIdx.x {
          %a = loop.load %part[%t]
          %b = loop.load %y[0]
          %c = arith.addf %b, %a
          loop.store %c, %y[0]
        ->
        %sum = loop.alloc shared : memref<4xf32>
        loop.for %t = 0 to 4 thread threadIdx.x { %sum[%t] = %part[%t] }
        loop.for %t = 0 to 2 thread threadIdx.x { %sum[%t] += %sum[%t + 2] }
        loop.for %t = 0 to 1 thread threadIdx.x { %sum[%t] += %sum[%t + 1] }
        loop.for %t = 0 to 1 thread threadIdx.x { %y[0] += %sum[0] }

    Attributes:
        target: target; decides whether to use shuffles, and their width.
    """

    target: ThreadBlocks

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: loop.ForOp, rewriter: PatternRewriter) -> None:
        reduction = _reduction(op) if loop.is_thread(op) else None
        if reduction is not None:
            _lower(reduction, self.target, rewriter)


@dataclass(frozen=True)
class LowerThreadReductionsPass(ModulePass):
    """Lower reductions over the threads of a block.

    A loop over threads whose iterations all update one element becomes a tree of steps in shared
    memory; each step uses half as many threads as the one before:

        loop.for %t = 0 to 8 thread threadIdx.x {
          %a = loop.load %part[%t]
          %b = loop.load %y[0]
          %c = arith.addf %b, %a fastmath<reassoc>
          loop.store %c, %y[0]
        ->
        %sum = loop.alloc shared : memref<8xf32>
        loop.for %t = 0 to 8 thread threadIdx.x { %sum[%t] = %part[%t] }
        loop.for %t = 0 to 4 thread threadIdx.x { %sum[%t] += %sum[%t + 4] }
        loop.for %t = 0 to 2 thread threadIdx.x { %sum[%t] += %sum[%t + 2] }
        loop.for %t = 0 to 1 thread threadIdx.x { %sum[%t] += %sum[%t + 1] }
        loop.for %t = 0 to 1 thread threadIdx.x { %y[0] += %sum[0] }

    If the target has the feature `shuffle` (CUDA always does), the threads of a warp combine their
    values by `simt.shuffle`, and only one value per warp goes through shared memory. A thread whose
    term is under a condition that it does not meet contributes the neutral element.
    `insert-barriers` runs after this pass. Modules for a CPU are not changed.

    Raises:
        PassFailedError: the element is in registers, which only one thread can access, or the
            reduction is a sum or product of floats without `fastmath<reassoc>`.
    """

    name = "lower-thread-reductions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = thread_blocks_of(op)
        if target is not None:
            rewrite(op, [LowerThreadReduction(target)], once=True)


@dataclass(frozen=True)
class _Reduction:
    """A loop over threads that all update one element.

    Attributes:
        guard: conditions around the whole body that are uniform over the threads.
        own: conditions around the whole body that depend on the thread; a thread that does not meet
            them has no term.
        start: guard that initialises the element, if any.
        ops: ops that compute a thread's term.
        store: store of the element.
    """

    loop: loop.ForOp
    guard: Sequence[Condition]
    own: Sequence[Condition]
    start: loop.GuardOp | None
    ops: tuple[Operation, ...]
    store: loop.StoreOp
    update: Update


def _reduction(op: loop.ForOp) -> _Reduction | None:
    variable = op.induction_variable
    if op.trip_count < 2:
        return None
    body, conditions = op.body.block, list[Condition]()
    first = body.first_op
    if isinstance(first, loop.GuardOp) and first.next_op is None:
        body, conditions = first.body.block, conditions_of(first)
    guard = [each for each in conditions if variable not in each[1]]
    own = [each for each in conditions if variable in each[1]]
    ops = list(body.ops)
    start = ops[0] if ops and isinstance(ops[0], loop.GuardOp) else None
    rest = ops[1:] if start is not None else ops
    stores = [each for each in rest if isinstance(each, loop.StoreOp)]
    if len(stores) != 1 or stores[0] is not rest[-1] or any(each.regions for each in rest):
        return None
    store, update = stores[0], update_of(stores[0])
    if update is None or variable in store.indices:
        return None
    if start is not None and list(start.indices) != [variable]:
        return None
    kept = [o for o in rest if o not in (store, update.combine, update.accumulator)]
    return _Reduction(op, guard, own, start, tuple(kept), store, update)


def _lower(reduction: _Reduction, target: ThreadBlocks, rewriter: PatternRewriter) -> None:
    if not reduction.update.in_any_order:
        reason = order_reason(reduction.update.combine)
        raise PassFailedError(
            f"threads would combine their values in pairs: {reason}",
            op=reduction.store,
            hint="allow it by the flag, or let one thread do it",
        )
    alloc = reduction.store.memref.owner
    if isinstance(alloc, loop.AllocOp) and alloc.scope.data.is_private:
        raise PassFailedError(
            f"threads combine their values in %{alloc.result.name_hint or 'unnamed'}, which is "
            "private to each thread",
            op=reduction.store,
            hint="use a shared buffer, or an argument",
        )
    writer = _Writer(reduction, rewriter)
    if _is_for_warps(reduction.loop, target):
        writer.write_shuffles(target.warp)
    else:
        writer.write_tree()
    rewriter.erase(reduction.loop)


def _started_with(reduction: _Reduction, ops: Sequence[Operation]) -> SSAValue | None:
    """Return the value that ops store last, if it is stored to the updated element."""
    last, store = ops[-1] if ops else None, reduction.store
    if not isinstance(last, loop.StoreOp):
        return None
    return last.value if loop.is_same_place(last, store) else None


def _is_for_warps(op: loop.ForOp, target: ThreadBlocks) -> bool:
    """Whether a loop's threads are whole warps, or divide a warp evenly."""
    if not target.shuffles:
        return False
    if op.axis is None or op.axis.data is not loop.ThreadAxis.THREAD_X:
        return False
    count, warp = op.trip_count, target.warp
    warps = -(-count // warp)
    if count & (count - 1) or warp & (warp - 1) or warps > warp:
        return False
    return all(
        other.trip_count <= count
        for other in _launch_of(op).walk()
        if isinstance(other, loop.ForOp) and other.axis == op.axis
    )


def _launch_of(op: Operation) -> Operation:
    while not isinstance(parent := op.parent_op(), loop.FuncOp):
        assert parent is not None
        op = parent
    return op


class _Writer:
    """Emits the lowered form of a reduction before its loop."""

    def __init__(self, reduction: _Reduction, rewriter: PatternRewriter):
        self.reduction = reduction
        self.rewriter = rewriter
        self.others = [
            each
            for each in reversed(list(loop.enclosing_loops(reduction.loop)))
            if loop.is_thread(each)
        ]
        self.rows = [each.trip_count for each in self.others]
        self.row = [each.induction_variable for each in self.others]

    def write_tree(self) -> None:
        """Emit a tree of steps in shared memory."""
        count = self.reduction.loop.trip_count
        shared = self._shared(count)
        self._nest(count, lambda t: self._term(t, shared, AffineDimExpr(0)))
        while count > 1:
            half = (count + 1) // 2
            self._nest(count - half, lambda t, half=half: self._step(shared, t, half))
            count = half
        self._nest(1, lambda t: self._result(t, self._load(shared, AffineConstantExpr(0), t)))

    def write_shuffles(self, warp: int) -> None:
        """Emit steps in each warp, and then a step that combines the warps' values."""
        count = self.reduction.loop.trip_count
        if count <= warp:
            self._nest(count, lambda t: self._in_warp(t, count, self._value, self._finish))
            return
        warps = count // warp
        shared = self._shared(warps)

        def keep(t: SSAValue, value: SSAValue) -> list[Operation]:
            place = self._store(value, shared, AffineDimExpr(0) // warp, t)
            return [self._when(AffineDimExpr(0) % warp, t, [place])]

        def partial(t: SSAValue) -> list[Operation]:
            return [self._load(shared, AffineDimExpr(0) % warps, t)]

        self._nest(count, lambda t: self._in_warp(t, warp, self._value, keep))
        self._nest(count, lambda t: self._in_warp(t, warps, partial, self._finish))

    # Parts of loops

    def _in_warp(
        self,
        t: SSAValue,
        count: int,
        value: Callable[[SSAValue], list[Operation]],
        use: Callable[[SSAValue, SSAValue], list[Operation]],
    ) -> list[Operation]:
        """Return ops that combine values over groups of `count` threads, and use the result."""
        ops = value(t)
        distance = count // 2
        while distance:
            mine = ops[-1].results[0]
            other = ShuffleOp(mine, distance)
            ops += [other, self._combine(mine, other.result)]
            distance //= 2
        return [*ops, *use(t, ops[-1].results[0])]

    def _value(self, t: SSAValue) -> list[Operation]:
        """Return the ops of a thread's term; any guard is uniform over a row of threads."""
        ops, found = self._own_term(t)
        # The term must be the last op.
        term = found.owner
        if isinstance(term, Operation) and term in ops:
            return [*(op for op in ops if op is not term), term]
        raise PassFailedError(
            "threads combine a value that is the same in all of them", op=self.reduction.store
        )

    def _finish(self, t: SSAValue, value: SSAValue) -> list[Operation]:
        return [self._when(AffineDimExpr(0), t, self._guarded(self._updated(value)))]

    def _term(self, t: SSAValue, shared: loop.AllocOp, place: AffineExpr) -> list[Operation]:
        ops, term = self._own_term(t)
        return self._guarded([*ops, self._store(term, shared, place, t)])

    def _step(self, shared: loop.AllocOp, t: SSAValue, distance: int) -> list[Operation]:
        mine = self._load(shared, AffineDimExpr(0), t)
        other = self._load(shared, AffineDimExpr(0) + distance, t)
        combined = self._combine(mine.result, other.result)
        store = self._store(combined.results[0], shared, AffineDimExpr(0), t)
        return self._guarded([mine, other, combined, store])

    def _result(self, t: SSAValue, value: loop.LoadOp) -> list[Operation]:
        return self._guarded([value, *self._updated(value.result)])

    def _updated(self, value: SSAValue) -> list[Operation]:
        """Return the ops that initialise the element and update it by a value."""
        reduction = self.reduction
        start = [] if reduction.start is None else list(reduction.start.body.block.ops)
        mapping: dict[SSAValue, SSAValue] = {}
        ops = [op.clone(mapping) for op in start]
        if (first := _started_with(reduction, ops)) is not None:
            # The initial value need not go through memory.
            ops.pop().erase()
            combined = self._combine(first, value)
            return [
                *ops,
                combined,
                reduction.store.clone({reduction.store.value: combined.results[0]}),
            ]
        old = reduction.update.accumulator.clone()
        combined = self._combine(old.result, value)
        new = reduction.store.clone({reduction.store.value: combined.results[0]})
        return [*ops, old, combined, new]

    # Helpers

    def _own_term(self, t: SSAValue) -> tuple[list[Operation], SSAValue]:
        """Return ops that compute the term of a thread, and the term.

        It is the neutral element for threads without a term.
        """
        ops, mapping = self._copies(t)
        update = self.reduction.update
        term = mapping.get(update.term, update.term)
        if not self.reduction.own:
            return ops, term
        alloc = loop.AllocOp(MemRefType(term.type, [1]), loop.Scope.REGISTER)
        place, first = alloc.result, AffineMap(0, 0, (AffineConstantExpr(0),))
        initial = arith.ConstantOp(neutral(update.kind, term.type))
        start = loop.StoreOp(initial.result, place, first, [])
        body = Region(Block([*ops, loop.StoreOp(term, place, first, [])]))
        variable = self.reduction.loop.induction_variable
        own = [
            (expr, tuple(t if value is variable else value for value in values), extent)
            for expr, values, extent in self.reduction.own
        ]
        load = loop.LoadOp(place, first, [])
        return [alloc, initial, start, make_guard(own, body), load], load.result

    def _copies(self, t: SSAValue) -> tuple[list[Operation], dict[SSAValue, SSAValue]]:
        mapping: dict[SSAValue, SSAValue] = {self.reduction.loop.induction_variable: t}
        return [op.clone(mapping) for op in self.reduction.ops], mapping

    def _combine(self, lhs: SSAValue, rhs: SSAValue) -> Operation:
        combine = self.reduction.update.combine
        return type(combine).create(
            operands=[lhs, rhs],
            result_types=[result.type for result in combine.results],
            properties=combine.properties,
        )

    def _shared(self, count: int) -> loop.AllocOp:
        element = self.reduction.update.term.type
        alloc = loop.AllocOp(MemRefType(element, [*self.rows, count]), loop.Scope.SHARED)
        name = self.reduction.store.memref.name_hint or "sum"
        alloc.result.name_hint = f"{name}_parts"
        outermost = self.others[0] if self.others else self.reduction.loop
        self.rewriter.insert(alloc, InsertPoint.before(outermost))
        return alloc

    def _map(self, place: AffineExpr) -> AffineMap:
        rows = [AffineDimExpr(i + 1) for i in range(len(self.row))]
        return AffineMap(len(rows) + 1, 0, (*rows, place))

    def _load(self, shared: loop.AllocOp, place: AffineExpr, t: SSAValue) -> loop.LoadOp:
        return loop.LoadOp(shared.result, self._map(place), [t, *self.row])

    def _store(
        self, value: SSAValue, shared: loop.AllocOp, place: AffineExpr, t: SSAValue
    ) -> loop.StoreOp:
        return loop.StoreOp(value, shared.result, self._map(place), [t, *self.row])

    def _when(self, expr: AffineExpr, t: SSAValue, ops: Sequence[Operation]) -> Operation:
        """Guard ops so that they run in threads for which an expression of their index is 0."""
        return loop.GuardOp(AffineMap(1, 0, (expr,)), [t], [1], Region(Block(ops)))

    def _guarded(self, ops: Sequence[Operation]) -> list[Operation]:
        if not self.reduction.guard:
            return list(ops)
        return [make_guard(self.reduction.guard, Region(Block(ops)))]

    def _nest(self, count: int, body: Callable[[SSAValue], Sequence[Operation]]) -> None:
        """Insert a loop over the first `count` threads of the axis before the reduction's loop."""
        old = self.reduction.loop
        assert old.axis is not None
        block = Block(arg_types=[IndexType()])
        block.args[0].name_hint = old.induction_variable.name_hint
        block.add_ops(body(block.args[0]))
        new = loop.ForOp(count, Region(block), loop.LoopKind.THREAD, old.axis.data)
        for op in new.walk():
            op.location = self.reduction.store.location
        self.rewriter.insert(new, InsertPoint.before(old))
