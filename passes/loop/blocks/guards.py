"""Moving guards out of loops, and joining neighbours and those inside of each other."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import is_side_effect_free

from tcopt.dialects import loop
from tcopt.support.access_syntax import unique_operands
from tcopt.support.rewriting import erase

Condition = tuple[AffineMap, tuple[SSAValue, ...], int]
"""One expression over index values, and its extent."""

_KEPT_IN_PLACE = (loop.LoopKind.THREAD, loop.LoopKind.VIRTUAL)


def hoist_guards(block: Block) -> None:
    """Join guards of equal neighbours and guards that hold nothing but a guard, and move conditions
    out of loops that do not vary them.

    A condition leaves a loop when everything with an effect in the loop is under it.
    """
    for op in tuple(block.ops):
        if isinstance(op, loop.ForOp | loop.GuardOp):
            hoist_guards(op.body.block)
        if isinstance(op, loop.ForOp):
            _hoist_out_of(op)
        elif isinstance(op, loop.GuardOp):
            _join_inner(op)
    _join_neighbours(block)


def conditions_of(op: loop.GuardOp) -> list[Condition]:
    """The conditions of a guard, each over the values that it uses."""
    result: list[Condition] = []
    for expr, extent in zip(op.map.data.results, op.condition_extents, strict=True):
        map, values = unique_operands(AffineMap(op.map.data.num_dims, 0, (expr,)), op.indices)
        result.append((map, tuple(values), extent))
    return result


def make_guard(conditions: Sequence[Condition], body: Region) -> loop.GuardOp:
    """One guard for several conditions."""
    exprs: list[AffineExpr] = []
    values: list[SSAValue] = []
    for map, operands, _ in conditions:
        dims = [AffineExpr.dimension(len(values) + i) for i in range(len(operands))]
        exprs.append(map.results[0].replace_dims_and_symbols(dims, ()))
        values += operands
    merged, operands = unique_operands(AffineMap(len(values), 0, tuple(exprs)), values)
    return loop.GuardOp(merged, operands, [extent for _, _, extent in conditions], body)


def _hoist_out_of(op: loop.ForOp) -> None:
    parent = op.parent_op()
    nested_parallel = (
        op.loop_kind is loop.LoopKind.PARALLEL
        and isinstance(parent, loop.ForOp)
        and parent.loop_kind is loop.LoopKind.PARALLEL
    )
    if op.loop_kind in _KEPT_IN_PLACE or nested_parallel:
        return
    guards: list[loop.GuardOp] = []
    for inner in op.body.block.ops:
        if isinstance(inner, loop.GuardOp):
            guards.append(inner)
        elif not (is_side_effect_free(inner) or isinstance(inner, loop.AllocOp)):
            return
    if not guards:
        return
    variant = set[SSAValue](op.body.block.args).union(*(o.results for o in op.body.block.ops))
    shared = [c for c in conditions_of(guards[0]) if variant.isdisjoint(c[1])]
    # Lanes are one thread's, and no others are waited for between them.
    is_alone = op.loop_kind is loop.LoopKind.VECTORIZED
    if any(map(_is_of_a_thread, shared)) and not is_alone and _threads_meet(op):
        shared = [c for c in shared if not _is_of_a_thread(c)]
    for guard in guards[1:]:
        present = conditions_of(guard)
        shared = [c for c in shared if c in present]
    if not shared:
        return
    for guard in guards:
        _remove_conditions(guard, shared)
    outer = make_guard(shared, Region(Block()))
    Rewriter.insert_op(outer, InsertPoint.before(op))
    op.detach()
    outer.body.block.add_op(op)


def _may_join(first: loop.GuardOp, second: loop.GuardOp) -> bool:
    conditions = conditions_of(first)
    if conditions != conditions_of(second):
        return False
    apart = any(map(_is_of_a_thread, conditions)) and _threads_meet(first) and _threads_meet(second)
    return not apart


def _threads_meet(op: Operation) -> bool:
    """Whether threads of a block do something together in an op, for which all should be there:
    use memory that they share, or spread work over all of them."""
    for inner in op.walk():
        if isinstance(inner, loop.LoadOp | loop.StoreOp):
            alloc = inner.memref.owner
            if isinstance(alloc, loop.AllocOp) and alloc.scope.data.is_shared:
                return True
        elif isinstance(inner, loop.ForOp) and loop.is_thread(inner):
            return True
    return False


def _is_of_a_thread(condition: Condition) -> bool:
    """Whether some threads of a block may meet a condition and others not."""
    loops = [loop.loop_of(value) for value in condition[1]]
    return any(each is None or loop.is_thread(each) for each in loops)


def _remove_conditions(guard: loop.GuardOp, conditions: Sequence[Condition]) -> None:
    rest = [c for c in conditions_of(guard) if c not in conditions]
    if rest:
        body = Region(Block())
        _move(guard.body.block, body.block)
        Rewriter.insert_op(make_guard(rest, body), InsertPoint.before(guard))
    else:
        for inner in tuple(guard.body.block.ops):
            inner.detach()
            Rewriter.insert_op(inner, InsertPoint.before(guard))
    erase(guard)


def _join_inner(op: loop.GuardOp) -> None:
    """Give a guard the conditions of the one that is all it holds."""
    inner = op.body.block.first_op
    if not isinstance(inner, loop.GuardOp) or inner.next_op is not None:
        return
    conditions = [*conditions_of(op), *conditions_of(inner)]
    body = Region(Block())
    _move(inner.body.block, body.block)
    joined = make_guard(list(dict.fromkeys(conditions)), body)
    Rewriter.insert_op(joined, InsertPoint.before(op))
    erase(op)


def _join_neighbours(block: Block) -> None:
    previous: loop.GuardOp | None = None
    for op in tuple(block.ops):
        if not isinstance(op, loop.GuardOp):
            previous = None
            continue
        if previous is not None and _may_join(previous, op):
            _move(op.body.block, previous.body.block)
            erase(op)
        else:
            previous = op


def _move(source: Block, target: Block) -> None:
    for op in tuple(source.ops):
        op.detach()
        target.add_op(op)
