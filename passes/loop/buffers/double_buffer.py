"""Double buffering: the next tile is fetched while the current one is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.dialects.loop.memory import DOUBLE_BUFFER
from tcopt.dialects.size import extents_of
from tcopt.passes.loop.analysis.indexing import Knowledge
from tcopt.passes.loop.edits.dead_code import erase_dead_ops
from tcopt.passes.loop.edits.dimensions import AccessOp, accesses_of, add_dimension, reshape
from tcopt.passes.loop.edits.substitution import substitute_values
from tcopt.support.ir.rewriting import insert, replace, rewrite

_MOST_STAGED = 64
"""Maximum elements that a thread holds in registers between fetching and storing them."""


class DoubleBuffer(RewritePattern):
    """Replace a marked buffer by two that are used alternately.

    %s = loop.alloc shared {double_buffer} : memref<64xf32>
    loop.for %k = 0 to 8 {
      ... fills %s from %x[%k * 64 + ..]
      ... loop.load %s[..]
    }
    ->
    %s = loop.alloc shared : memref<2x64xf32>
    ... fills %s[0, ..] from %x[..]
    loop.for %k = 0 to 8 {
      ... loads %x[%k * 64 + .. + 64] into registers, if there is a next iteration
      ... loop.load %s[%k mod 2, ..]
      ... stores the registers to %s[(%k + 1) mod 2, ..], if there is a next iteration
    }
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: loop.AllocOp, rewriter: PatternRewriter) -> None:
        if op.attributes.pop(DOUBLE_BUFFER, None) is not None:
            rewriter.notify_op_modified(op)
            if (plans := _plans(op)) is not None:
                _rewrite(op, plans, rewriter)


@dataclass(frozen=True)
class DoubleBufferPass(ModulePass):
    """Fetch the next tile of a buffer while the current one is used.

    A buffer marked by `sched.double_buffer` becomes two, used alternately. In each iteration, the
    data of the next one is first loaded into registers, and stored after the last use of the
    current tile; the first tile is fetched before the loop.

        %s = loop.alloc shared {double_buffer} : memref<64xf32>
        loop.for %k = 0 to 8 {
          loop.for %t = 0 to 64 thread threadIdx.x {
            %a = loop.load %x[%k * 64 + %t]
            loop.store %a, %s[%t]
          }
          ... loop.load %s[..]
        }
        ->
        %s = loop.alloc shared : memref<2x64xf32>
        ...                                           // the tile of %k = 0 to %s[0, ..]
        loop.for %k = 0 to 8 {
          %next = loop.alloc register : memref<64xf32>
          loop.guard ([%k + 1] in 8) {
            loop.for %t = 0 to 64 thread threadIdx.x {
              %a = loop.load %x[%k * 64 + %t + 64]
              loop.store %a, %next[%t]
          ...
          ... loop.load %s[%k mod 2, ..]
          loop.guard ([%k + 1] in 8) {
            loop.for %t = 0 to 64 thread threadIdx.x {
              %a = loop.load %next[%t]
              loop.store %a, %s[(%k + 1) mod 2, %t]
          ...

    In the end, each thread has only its own element of `%next`. A buffer that is not filled at the
    start of a loop and then read in it is not changed. The pass runs after `lower-blocks` and
    before `insert-barriers`.
    """

    name = "double-buffer"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [DoubleBuffer()], once=True)


@dataclass(frozen=True)
class _Plan:
    """A loop in which a buffer is filled and then used.

    Attributes:
        fill: the op of the loop's body that fills the buffer.
        last: the last op of the loop's body that reads the buffer.
        uses: the loads in the loop.
    """

    loop: loop.ForOp
    fill: Operation
    last: Operation
    uses: tuple[AccessOp, ...]


def _plans(alloc: loop.AllocOp) -> list[_Plan] | None:
    """Return the loops in which a buffer is used; None if one does not have the required form."""
    accesses = accesses_of(alloc)
    if not accesses:
        return None
    return _plans_of(accesses)


def _plans_of(accesses: Sequence[AccessOp]) -> list[_Plan] | None:
    paths = [list(loop.enclosing_loops(op))[::-1] for op in accesses]
    common: list[loop.ForOp] = []
    for level in zip(*paths, strict=False):
        if any(each is not level[0] for each in level):
            break
        common.append(level[0])
    repeated = [each for each in common if each.axis is None and each.trip_count > 1]
    # The first tile is fetched before the loop, which must run at least once.
    if any(each.limit is not None for each in repeated):
        return None
    if repeated:
        plan = _plan(repeated[-1], accesses)
        return None if plan is None else [plan]
    # Loops that were split, such as one with a separate tail, are handled separately.
    if not common:
        return None
    parts: dict[Operation | None, list[AccessOp]] = {}
    for op in accesses:
        holder = common[-1].body.block.find_ancestor_op_in_block(op)
        parts.setdefault(holder, []).append(op)
    plans: list[_Plan] = []
    for part in parts.values():
        found = _plans_of(part) if len(parts) > 1 and _is_complete(part) else None
        if found is None:
            return None
        plans += found
    return plans


def _is_complete(accesses: Sequence[AccessOp]) -> bool:
    return len({type(op) for op in accesses}) == 2


def _plan(around: loop.ForOp, accesses: Sequence[AccessOp]) -> _Plan | None:
    body = around.body.block
    stores = [op for op in accesses if isinstance(op, loop.StoreOp)]
    loads = [op for op in accesses if isinstance(op, loop.LoadOp)]
    fills = {body.find_ancestor_op_in_block(op) for op in stores}
    users = {body.find_ancestor_op_in_block(op) for op in loads}
    if len(stores) != 1 or len(fills) != 1 or not users or not fills.isdisjoint(users):
        return None
    (fill,) = fills
    ops = list(body.ops)
    order = [op for op in ops if op in users]
    if not isinstance(fill, loop.ForOp | loop.GuardOp) or not fill.is_before_in_block(order[0]):
        return None
    others = [op for op in fill.walk() if isinstance(op, loop.StoreOp | loop.BarrierOp)]
    return _Plan(around, fill, order[-1], tuple(loads)) if others == stores else None


def _rewrite(alloc: loop.AllocOp, plans: Sequence[_Plan], rewriter: PatternRewriter) -> None:
    for plan in plans:
        variable = plan.loop.induction_variable
        first = _fill_for(plan, AffineConstantExpr(0))
        following = _fill_for(plan, AffineDimExpr(0) + 1)
        for use in plan.uses:
            add_dimension(use, AffineDimExpr(0) % 2, [variable])
        _set_slots(first, alloc, AffineConstantExpr(0), ())
        _set_slots(following, alloc, (AffineDimExpr(0) + 1) % 2, [variable])
        rewriter.insert(first, InsertPoint.before(plan.loop))
        _fetch(plan, following, alloc, rewriter)
        rewriter.erase(plan.fill)
    reshape(alloc, [2, *extents_of(alloc.result.type)])


def _fill_for(plan: _Plan, expr: AffineExpr) -> Operation:
    """Return a copy of the fill op for an iteration, an expression of the loop's variable."""
    block = Block([plan.fill.clone()])
    known = Knowledge()
    for each in (*loop.enclosing_loops(plan.fill),):
        known.enter_loop(each)
    variable = plan.loop.induction_variable
    substitute_values(block, {variable: (expr, [variable])}, known)
    (op,) = block.ops
    op.detach()
    return op


def _set_slots(
    nest: Operation, alloc: loop.AllocOp, expr: AffineExpr, values: Sequence[SSAValue]
) -> None:
    """Let a nest store to one of the two buffers."""
    for op in nest.walk():
        if isinstance(op, loop.StoreOp) and op.memref is alloc.result:
            add_dimension(op, expr, values)


def _fetch(plan: _Plan, nest: Operation, alloc: loop.AllocOp, rewriter: PatternRewriter) -> None:
    """Load the next tile before the current one is used, and store it afterwards."""
    loops = [op for op in nest.walk() if isinstance(op, loop.ForOp)]
    held = prod(each.trip_count for each in loops if each.axis is None)
    if held > _MOST_STAGED:
        rewriter.insert(_guarded(plan, nest), InsertPoint.before(plan.fill))
        return
    type_ = alloc.result.type
    assert isa(type_, MemRefType)
    shape = [each.trip_count for each in loops]
    registers = loop.AllocOp(MemRefType(type_.get_element_type(), shape), loop.Scope.REGISTER)
    registers.result.name_hint = f"{alloc.result.name_hint or 'tile'}_next"
    late = nest.clone()
    _keep(nest, registers)
    _put(late, registers)
    rewriter.insert([registers, _guarded(plan, nest)], InsertPoint.before(plan.fill))
    rewriter.insert(_guarded(plan, late), InsertPoint.after(plan.last))
    for each in (*nest.walk(), *late.walk()):
        if isinstance(each, loop.ForOp) and each.loop_kind is loop.LoopKind.SERIAL:
            each.kind = loop.LoopKindAttr(loop.LoopKind.UNROLLED)


def _keep(nest: Operation, registers: loop.AllocOp) -> None:
    """Let a nest store to registers, indexed by its iterations."""
    map, variables = _iterations(nest)
    for op in tuple(nest.walk()):
        if isinstance(op, loop.StoreOp):
            replace(op, loop.StoreOp(op.value, registers.result, map, variables))


def _put(nest: Operation, registers: loop.AllocOp) -> None:
    """Let a nest store the elements from registers."""
    map, variables = _iterations(nest)
    for op in tuple(nest.walk()):
        if isinstance(op, loop.StoreOp):
            op.operands[0] = insert(loop.LoadOp(registers.result, map, variables), op)
    erase_dead_ops(Block([nest]))
    nest.detach()


def _iterations(nest: Operation) -> tuple[AffineMap, list[SSAValue]]:
    loops = [op for op in nest.walk() if isinstance(op, loop.ForOp)]
    return AffineMap.identity(len(loops)), [each.induction_variable for each in loops]


def _guarded(plan: _Plan, nest: Operation) -> loop.GuardOp:
    """Guard a nest for the next iteration, if there is one."""
    following = AffineMap(1, 0, (AffineDimExpr(0) + 1,))
    variable, trips = plan.loop.induction_variable, plan.loop.trip_count
    return loop.GuardOp(following, [variable], [trips], Region(Block([nest])))
