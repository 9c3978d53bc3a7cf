"""rfactor: split a reduction into partial reductions and a reduction of their results."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, MemRefType, StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.utils.hints import isa

from tcopt.dialects.fast_math import order_reason
from tcopt.dialects.loop import AllocOp, BlockOp, ForOp, InitOp, IterKind, LoadOp, StoreOp
from tcopt.dialects.loop.analysis import binding_values, value_ranges
from tcopt.dialects.loop.updates import Update, counts_twice, update_of
from tcopt.dialects.size import extents_of, sized_memref
from tcopt.schedules.dependences.order import check_blocks_only, check_runs, check_single
from tcopt.schedules.edits.bodies import IndexExpr, set_access, substitute_indices
from tcopt.schedules.edits.nest import (
    add_guard,
    bound_blocks,
    bound_values,
    insert_first,
    new_loop,
    set_bindings,
)
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import (
    State,
    block_label,
    loops_of,
    written_buffer,
)
from tcopt.support.arithmetic.affine import (
    Dim,
    FloorDiv,
    LinearSum,
    linear_sum,
    substitute,
    sum_range,
)
from tcopt.support.arithmetic.sizes import Extent, lower_bound

_NAME = "rfactor"


@dataclass(frozen=True)
class _Plan:
    """Result of the checks that precede all edits.

    Attributes:
        positions: the reduce variables that the loop moves, and those bound to the same loops.
        values: variables of the loops to which they are bound, that of the factored loop first.
        factor: number of partial results of an element.
    """

    block: BlockOp
    loop: ForOp
    buffer: SSAValue
    store: StoreOp
    update: Update
    positions: tuple[int, ...]
    values: tuple[SSAValue, ...]
    factor: int


def rfactor(state: State, loop: ForOp, axis: int = 0) -> BlockOp:
    """Compute a separate partial result in each iteration of a reduction's loop.

        loop.for %i = 0 to 8 {
          loop.for %ko = 0 to 32 {
            loop.for %ki = 0 to 16 {
              loop.block "sum" (%vi: spatial 8 = %i, %vk: reduce 512 = %ko * 16 + %ki) {
                ...                                     // %y[%vi] += %x[%vi, %vk]

    becomes, for `rfactor(ki)`,

        loop.for %i = 0 to 8 {
          %y_rf = loop.alloc global : memref<16x8xf32>
          loop.for %ko = 0 to 32 {
            loop.for %ki = 0 to 16 {
              loop.block "sum_rf" (%vi: spatial 8 = %i, %vki: spatial 16 = %ki,
                                   %vko: reduce 32 = %ko) {
                ...                                     // %y_rf[%vki, %vi] += ...
          loop.for %ki = 0 to 16 {
            loop.block "sum" (%vi: spatial 8 = %i, %vki: reduce 16 = %ki) {
              ...                                       // %y[%vi] += %y_rf[%vki, %vi]

    Now `%ki` is spatial for "sum_rf" and may be vectorized or parallelised. The loop may also come
    from splitting a fusion of the loops of several reduce variables, and then factors all of these.

    Args:
        loop: a loop to which only reduce variables of a single block are bound.
        axis: position of the new dimension in the buffer of partial results.
    Returns:
        The block of partial results, `<block>_rf`; the old name stays with the final one.
    Raises:
        ScheduleError: the block is not a simple reduction over this loop, was decomposed, or adds
            or multiplies floats without `fastmath<reassoc>`.
    """
    plan = _plan(state, loop)
    rank = len(plan.store.map.data.results)
    if not 0 <= axis <= rank:
        raise illegal(_NAME, "axis", f"{axis} is outside [0, {rank}]", op=loop)
    outermost = _outermost(plan)
    name = plan.block.block_name.data
    buffer = _partial_buffer(plan, axis)
    final = _final_block(plan, buffer.result, axis)
    _factor(plan, buffer.result, axis)
    plan.block.block_name = StringAttr(state.fresh_name(f"{name}_rf"))
    state.add_block(plan.block)
    state.add_block(final)
    nest = _final_nest(plan, final, outermost)
    parent = outermost.parent_block()
    assert parent is not None
    parent.insert_op_after(nest, outermost)
    if outermost.parent_op() is state.func:
        parent.insert_op_before(buffer, outermost)
    else:
        insert_first(buffer, parent)
    return plan.block


def _plan(state: State, loop: ForOp) -> _Plan:
    check_blocks_only(_NAME, "loop", loop)
    bound = bound_blocks(loop)
    if len(bound) != 1:
        raise illegal(_NAME, "loop", f"{len(bound)} blocks run over it, not one", op=loop)
    block = bound[0]
    label = block_label(block)
    if block.init is None:
        hint = "rfactor comes before decompose_reduction"
        raise illegal(_NAME, "loop", f"block {label} has no loop.init", op=loop, hint=hint)
    kinds = {
        block.iter_kinds[p]
        for p in range(len(block.iter_vars))
        if loop.induction_variable in binding_values(block, p) and not _excludes(block, p)
    }
    if kinds != {IterKind.REDUCE}:
        reason = f"it does not run over reduce variables of block {label} alone"
        raise illegal(_NAME, "loop", reason, op=loop)
    if loop.trip_count < 2:
        raise illegal(_NAME, "loop", "it has fewer than two iterations", op=loop)
    buffer = written_buffer(block, _NAME)
    check_runs(_NAME, block)
    check_single(state.known, _NAME, block, buffer)
    store, update = _update(block, buffer, loop)
    _check_start(block, update, loop)
    positions, values = _group(block, loop)
    factor = _factor_extent(block, positions, loop)
    return _Plan(block, loop, buffer, store, update, positions, values, factor)


def _update(block: BlockOp, buffer: SSAValue, loop: ForOp) -> tuple[StoreOp, Update]:
    stores = [op for op in block.body.block.ops if isinstance(op, StoreOp)]
    update = update_of(stores[0]) if len(stores) == 1 else None
    if update is None or stores[0].memref is not buffer:
        reason = (
            f"block {block_label(block)} does not combine its result with one new term by an "
            "associative operation"
        )
        raise illegal(_NAME, "loop", reason, op=loop)
    if not update.in_any_order:
        reason = f"in block {block_label(block)} {order_reason(update.combine)}"
        raise illegal(_NAME, "loop", reason, op=loop)
    return stores[0], update


def _check_start(block: BlockOp, update: Update, loop: ForOp) -> None:
    """Check that the initial value is neutral, as each partial result also starts with it."""
    if block.init is None:
        return
    stores = [op for op in block.init.body.block.ops if isinstance(op, StoreOp)]
    constant = stores[0].value.owner
    value = constant.value if isinstance(constant, arith.ConstantOp) else None
    number = value.value.data if isinstance(value, IntegerAttr | FloatAttr) else math.nan
    if counts_twice(update.kind, number):
        reason = f"block {block_label(block)} starts with a value that each part would count again"
        raise illegal(_NAME, "loop", reason, op=loop)


def _group(block: BlockOp, loop: ForOp) -> tuple[tuple[int, ...], tuple[SSAValue, ...]]:
    """Return the reduce variables that share loops with those of `loop`.

    Also return the variables of these loops, that of `loop` first.
    """
    values = dict.fromkeys([loop.induction_variable])
    positions: dict[int, None] = {}
    reduce = [p for p, kind in enumerate(block.iter_kinds) if kind is IterKind.REDUCE]
    while found := [
        p
        for p in reduce
        if p not in positions and not values.keys().isdisjoint(binding_values(block, p))
    ]:
        for position in found:
            positions[position] = None
            values.update(dict.fromkeys(binding_values(block, position)))
    shared = {
        v
        for p in range(len(block.iter_vars))
        if p not in positions and not _excludes(block, p)
        for v in binding_values(block, p)
    }
    tied = not shared.isdisjoint(values) or not _spatial(block).isdisjoint(_reduced(block))
    if tied or not all(_is_growing(block, p) for p in positions):
        label = block_label(block)
        raise illegal(
            _NAME, "loop", f"the reduction of block {label} is not over loops of its own", op=loop
        )
    return tuple(sorted(positions)), tuple(values)


def _excludes(block: BlockOp, position: int) -> bool:
    """Whether a variable is a guard: it only excludes points."""
    is_spatial = block.iter_kinds[position] is IterKind.SPATIAL
    return is_spatial and block.iter_vars[position].first_use is None


def _is_growing(block: BlockOp, position: int) -> bool:
    """Whether a variable starts at 0 and leaves its domain at most once, in later iterations.

    It must always be in its domain, or be non-decreasing in each of its loops.
    """
    ranges = value_ranges(list(block.operands_))
    total = linear_sum(block.bindings.data.results[position], ranges)
    low, high = sum_range(total, ranges)
    if low or total.constant:
        return False
    return high < block.domain[position] or _never_falls(total)


def _never_falls(total: LinearSum) -> bool:
    return all(
        factor > 0 and (isinstance(a, Dim) or (isinstance(a, FloorDiv) and _never_falls(a.operand)))
        for a, factor in total.terms
    )


def _factor_extent(block: BlockOp, positions: Sequence[int], loop: ForOp) -> int:
    """Return the number of iterations of `loop` that run at all.

    These are the iterations whose first step is in every domain; the number must not depend on
    loops outside of the reduction.
    """
    around, reduced = list(block.operands_), _reduced(block)
    excluding = [
        p
        for p in range(len(block.iter_vars))
        if _excludes(block, p) and loop.induction_variable in binding_values(block, p)
    ]
    checked = [(block.bindings.data.results[p], block.domain[p]) for p in (*positions, *excluding)]
    counts: set[int] = set()
    for is_last in (False, True):
        dims = [_owner(v).trip_count - 1 if is_last and v not in reduced else 0 for v in around]

        def is_left_out(iteration: int, dims: list[int] = dims) -> bool:
            dims[around.index(loop.induction_variable)] = iteration
            return any(expr.eval(dims, []) >= extent for expr, extent in checked)

        counts.add(bisect_left(range(loop.trip_count), True, key=is_left_out))
    if len(counts) > 1 or 0 in counts or not all(_is_growing(block, p) for p in excluding):
        reason = f"not all of its iterations have a first step of block {block_label(block)}"
        raise illegal(_NAME, "loop", reason, op=loop, hint="split the reduction in another order")
    return counts.pop()


def _spatial(block: BlockOp) -> set[SSAValue]:
    return bound_values(block, IterKind.SPATIAL)


def _reduced(block: BlockOp) -> set[SSAValue]:
    return bound_values(block, IterKind.REDUCE)


def _outermost(plan: _Plan) -> ForOp:
    """Return the outermost loop of the reduction; it may contain nothing but the block."""
    reduced = _reduced(plan.block)
    around = loops_of(plan.block)
    return next(o for o in around if o.induction_variable in reduced)


def _partial_buffer(plan: _Plan, axis: int) -> AllocOp:
    type_ = plan.buffer.type
    assert isa(type_, MemRefType)
    shape = list(extents_of(type_))
    shape.insert(axis, plan.factor)
    alloc = AllocOp(sized_memref(shape, type_.get_element_type()))
    alloc.result.name_hint = f"{plan.buffer.name_hint or plan.block.block_name.data}_rf"
    return alloc


def _with_axis(map: AffineMap, axis: int) -> AffineMap:
    """Return `map` with an additional dimension, and this dimension as index at `axis`."""
    results = list(map.results)
    results.insert(axis, AffineDimExpr(map.num_dims))
    return AffineMap(map.num_dims + 1, 0, tuple(results))


def _factor(plan: _Plan, buffer: SSAValue, axis: int) -> None:
    """Turn the block into the block of partial results, in place."""
    block, body = plan.block, plan.block.body.block
    exprs = list(block.bindings.data.results)
    kinds, extents = list(block.iter_kinds), list(block.live_domain)
    values = list(block.operands_)
    old = [block.iter_vars[p] for p in plan.positions]
    fresh: list[SSAValue] = []
    for value in plan.values:
        is_factor = not fresh
        variable = body.insert_arg(IndexType(), len(body.args))
        variable.name_hint = f"v{value.name_hint or ''}"
        kinds.append(IterKind.SPATIAL if is_factor else IterKind.REDUCE)
        extents.append(plan.factor if is_factor else _owner(value).trip_count)
        exprs.append(AffineDimExpr(values.index(value)))
        fresh.append(variable)
    places = [plan.values.index(v) if v in plan.values else 0 for v in values]
    dims: list[AffineExpr] = [AffineDimExpr(place) for place in places]
    indices = [IndexExpr(substitute(exprs[p], dims), tuple(fresh)) for p in plan.positions]
    # Index substitution reads the ranges of the new variables from the block.
    block.set_variables(kinds, extents)
    for op in list(body.walk()):
        if isinstance(op, LoadOp | StoreOp) and op.memref is plan.buffer:
            op.operands[1 if isinstance(op, StoreOp) else 0] = buffer
            set_access(op, _with_axis(op.map.data, axis), [*op.indices, fresh[0]])
    substitute_indices(body, dict(zip(old, indices, strict=True)))
    # An old variable is kept as a guard if its domain excludes points, and removed otherwise.
    ranges = value_ranges(values)
    for position, variable in reversed(list(zip(plan.positions, old, strict=True))):
        overshoots = sum_range(linear_sum(exprs[position], ranges), ranges)[1]
        if not overshoots < lower_bound(extents[position]):
            kinds[position] = IterKind.SPATIAL
            variable.name_hint = "guard"
        else:
            del kinds[position], extents[position], exprs[position]
            body.erase_arg(body.args[position])
    if IterKind.REDUCE not in kinds:
        # A single step remains: its variable is always 0, where the init runs.
        kinds.append(IterKind.REDUCE)
        extents.append(1)
        exprs.append(AffineConstantExpr(0))
        body.insert_arg(IndexType(), len(body.args)).name_hint = "vstep"
    block.set_variables(kinds, extents)
    set_bindings(block, exprs, values)


def _owner(value: SSAValue) -> ForOp:
    owner = value.owner
    assert isinstance(owner, Block)
    loop = owner.parent_op()
    assert isinstance(loop, ForOp)
    return loop


def _final_block(plan: _Plan, buffer: SSAValue, axis: int) -> BlockOp:
    """Build the block that combines partial results; it is still bound to the old loops."""
    block = plan.block
    reduced = _reduced(block)
    # Guards of the reduction's loops are not needed in the final block.
    kept = [
        p
        for p, kind in enumerate(block.iter_kinds)
        if kind is IterKind.SPATIAL and reduced.isdisjoint(binding_values(block, p))
    ]
    assert block.init is not None
    body = Block(arg_types=[IndexType()] * (len(kept) + 1))
    mapping: dict[SSAValue, SSAValue] = {}
    for new, position in zip(body.args, kept, strict=False):
        new.name_hint = block.iter_vars[position].name_hint
        mapping[block.iter_vars[position]] = new
    body.args[-1].name_hint = f"v{plan.loop.induction_variable.name_hint or ''}"
    start = Block()
    start.add_ops([op.clone(mapping) for op in block.init.body.block.ops])
    body.add_op(InitOp(Region(start)))
    store = plan.store
    indices = [mapping[v] for v in store.indices]
    load = LoadOp(plan.buffer, store.map.data, indices)
    partial = LoadOp(buffer, _with_axis(store.map.data, axis), [*indices, body.args[-1]])
    is_first = plan.update.combine.operands[0] is plan.update.accumulator.result
    pair = (load.result, partial.result) if is_first else (partial.result, load.result)
    combine = plan.update.combine.clone(dict(zip(plan.update.combine.operands, pair, strict=True)))
    write = StoreOp(combine.results[0], plan.buffer, store.map.data, indices)
    body.add_ops([load, partial, combine, write])
    final = BlockOp(
        block.block_name.data,
        [*(IterKind.SPATIAL for _ in kept), IterKind.REDUCE],
        [*(block.live_domain[p] for p in kept), plan.factor],
        AffineMap(0, 0, ()),
        [],
        Region(body),
    )
    final.location = block.location
    values = list(block.operands_)
    exprs: list[AffineExpr] = [block.bindings.data.results[p] for p in kept]
    exprs.append(AffineDimExpr(values.index(plan.loop.induction_variable)))
    set_bindings(final, exprs, values)
    for expr, extent in _sized_starts(plan):
        add_guard(final, expr, [plan.loop.induction_variable], extent)
    return final


def _sized_starts(plan: _Plan) -> Iterator[tuple[AffineExpr, Extent]]:
    """Yield the conditions, over the factored loop, in which a partial result has a first step.

    Others are not computed at all if a size is less than their number.
    """
    block, variable = plan.block, plan.loop.induction_variable
    excluding = {p for p in range(len(block.iter_vars)) if _excludes(block, p)}
    around = list(block.operands_)
    dims: list[AffineExpr] = [
        AffineDimExpr(0) if value is variable else AffineConstantExpr(0) for value in around
    ]
    for position in (*plan.positions, *sorted(excluding - {*plan.positions})):
        extent = block.live_domain[position]
        expr = substitute(block.bindings.data.results[position], dims)
        if not isinstance(extent, int) and variable in binding_values(block, position):
            yield expr, extent


def _final_nest(plan: _Plan, final: BlockOp, outermost: ForOp) -> Operation:
    """Build the loops of the final block: copies of the spatial ones, then the factored one."""
    around = loops_of(plan.block)
    inside = [o for o in around[around.index(outermost) :] if o is not plan.loop]
    used = set(final.operands_)
    copied = [o for o in inside if o.induction_variable in used]
    operands = list(final.operands_)
    nest: Operation = final
    for old in (plan.loop, *reversed(copied)):
        extent = plan.factor if old is plan.loop else old.trip_count
        new = new_loop(extent, old.induction_variable.name_hint, old)
        operands = [new.induction_variable if v is old.induction_variable else v for v in operands]
        new.body.block.add_op(nest)
        nest = new
    set_bindings(final, final.bindings.data.results, operands)
    return nest
