"""Lowering of blocks to their bodies, over loop variables and under guards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.vector import CombiningKindFlag
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.traits import is_side_effect_free

from tcopt.dialects import loop
from tcopt.dialects.arith_ import ExtSIOp, ExtUIOp
from tcopt.dialects.loop.structure import is_size
from tcopt.dialects.loop.updates import Update, neutral, update_of
from tcopt.dialects.size import extents_of
from tcopt.passes.loop.analysis.indexing import (
    Knowledge,
    is_inside,
    simplify_access,
)
from tcopt.passes.loop.analysis.surroundings import knowledge_at
from tcopt.passes.loop.blocks.guards import HoistGuards, JoinGuards, MergeNestedGuard
from tcopt.passes.loop.blocks.loop_limits import limit_loops
from tcopt.passes.loop.blocks.sized_tails import split_sized_tails
from tcopt.passes.loop.blocks.tails import split_tails
from tcopt.passes.loop.edits.substitution import substitute_values
from tcopt.support.arithmetic.affine import Dim, coarser, linear_sum, sum_range, used_dims
from tcopt.support.ir.rewriting import inline, move, move_before, replace, rewrite


class SimplifyAccess(RewritePattern):
    """Simplify an access outside of blocks with the facts from enclosing loops and guards.

    loop.for %i = 0 to 8 {
      %a = loop.load %x[%i mod 8] else 0.0 : memref<8xf32>
    ->
    loop.for %i = 0 to 8 {
      %a = loop.load %x[%i] : memref<8xf32>
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self,
        op: loop.LoadOp
        | loop.StoreOp
        | loop.PrefetchOp
        | loop.IndexOp
        | loop.MaskOp
        | loop.IntrinOp,
        rewriter: PatternRewriter,
    ) -> None:
        if loop.owning_block(op) is None and simplify_access(op, knowledge_at(op)):
            rewriter.notify_op_modified(op)


class SimplifyGuard(RewritePattern):
    """Drop the conditions of a guard that always hold.

    loop.for %i = 0 to 8 {
      loop.guard ([%i] in 8, [%i * 2] in 9) {
    ->
    loop.for %i = 0 to 8 {
      loop.guard ([%i] in 5) {
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: loop.GuardOp, rewriter: PatternRewriter) -> None:
        if loop.owning_block(op) is not None:
            return
        known = knowledge_at(op)
        exprs, extents = op.map.data.results, op.condition_extents
        decided = [known.decide(e, op.indices, n) for e, n in zip(exprs, extents, strict=True)]
        if False in decided:
            rewriter.erase(op)
            return
        open_ = [i for i, holds in enumerate(decided) if holds is None]
        if not open_:
            _inline(op.body.block, op, rewriter)
            return
        guard = _guard([exprs[i] for i in open_], op.indices, [extents[i] for i in open_], known)
        if (guard.map, *guard.indices) == (op.map, *op.indices) and (
            guard.condition_extents == extents
        ):
            guard.erase()
            return
        _put_under(guard, op.body.block, op, rewriter)


class LowerBlock(RewritePattern):
    """Replace a block by its body, under a guard if its domain cannot be proved.

    loop.for %i = 0 to 13 {
      loop.for %j = 0 to 8 {
        loop.block "copy" (%v: spatial 100 = %i * 8 + %j) {
          %a = loop.load %x[%v] : memref<100xf32>
          loop.store %a, %y[%v] : memref<100xf32>
    ->
    loop.for %i = 0 to 13 {
      loop.for %j = 0 to 8 {
        loop.guard ([%i * 8 + %j] in 100) {
          %a = loop.load %x[%i * 8 + %j] : memref<100xf32>
          loop.store %a, %y[%i * 8 + %j] : memref<100xf32>
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: loop.BlockOp, rewriter: PatternRewriter) -> None:
        known = knowledge_at(op)
        bindings, operands = list(op.bindings.data.results), known.with_sizes(op.operands)
        environment: dict[SSAValue, tuple[AffineExpr, Sequence[SSAValue]]] = {}
        exprs: list[AffineExpr] = []
        extents: list[int] = []
        reduced: list[bool] = []
        variables = zip(op.iter_vars, bindings, op.live_domain, op.iter_kinds, strict=True)
        for variable, binding, domain, kind in variables:
            environment[variable] = (binding, operands)
            for expr, extent in known.conditions(binding, operands, domain).pairs:
                holds = known.decide(expr, operands, extent)
                if holds is False or extent == 0:
                    rewriter.erase(op)
                    return
                if holds is None:
                    exprs.append(expr)
                    extents.append(extent)
                    reduced.append(kind is loop.IterKind.REDUCE)
        body = op.body.block
        if not all(reduced) and _is_unseen(op):
            # Indices are simplified for all points, which is also valid under the remaining guard.
            substitute_values(body, environment, known)
            if all(is_inside(each, known) for each in body.ops if isinstance(each, _ACCESSES)):
                apart = [
                    not r and _tells_apart(e, operands, op)
                    for e, r in zip(exprs, reduced, strict=True)
                ]
                exprs = [expr for expr, is_apart in zip(exprs, apart, strict=True) if not is_apart]
                extents = [n for n, is_apart in zip(extents, apart, strict=True) if not is_apart]
            environment = {}
        init = op.init
        if init is not None:
            _lower_init(op, init, known)
        with known.inside_guard(exprs, operands, extents):
            substitute_values(body, environment, known)
            if init is None:
                _skip_neutral_terms(body, known)
        if exprs:
            _put_under(_guard(exprs, operands, extents, known), body, op, rewriter)
        else:
            _inline(body, op, rewriter)


@dataclass(frozen=True)
class LowerBlocksPass(ModulePass):
    """Replace blocks by their bodies, over loop variables, under explicit guards.

    Bindings are substituted into every access and simplified with the loops' ranges. If the ranges
    do not prove that an index is in its domain, it becomes a condition of a `loop.guard`, which is
    then moved out of the loops that it does not depend on. An init runs if all reduction bindings
    are 0.

        loop.for %i = 0 to 13 {
          loop.for %j = 0 to 8 {
            loop.for %k = 0 to 64 {
              loop.block "sum" (%v: spatial 100 = %i * 8 + %j, %r: reduce 64 = %k) {
                loop.init { loop.store %zero, %y[%v] }
                ... %x[%v, %r] ...
        ->
        loop.for %i = 0 to 13 {
          loop.for %j = 0 to 8 {
            loop.guard ([%i * 8 + %j] in 100) {
              loop.for %k = 0 to 64 {
                loop.guard ([%k] in 1) { loop.store %zero, %y[%i * 8 + %j] }
                ... %x[%i * 8 + %j, %k] ...

    An update is skipped if its term is a load's default that does not change the result, as for a
    window that reads out of bounds. In a contraction, that is a factor of zero, as the other factor
    is finite.

        loop.block "max" (%v: spatial 8 = %i, %r: reduce 3 = %k) {
          %a = loop.load %x[%v * 2 + %r - 1] else -inf : memref<16xf32>
          %b = loop.load %y[%v] : memref<8xf32>
          %c = arith.maximumf %b, %a : f32
          loop.store %c, %y[%v] : memref<8xf32>
        ->
        loop.guard ([%i * 2 + %k - 1] in 16) {
          %a = loop.load %x[%i * 2 + %k - 1] : memref<16xf32>
          ...

    A thread of a GPU may compute values outside of a domain if they only go from registers and
    shared memory to registers: such guards are dropped, as the results are never read.

    If the last iterations of a loop leave an unrolled or vectorised tile partly empty, they are
    split off, so that the others run without guards or masks; see `tails.py`.

    A domain that is a size becomes a guard over the size's argument. Whole tiles run without it,
    and the last tile as one of several copies; see `sized_tails.py`. Loops whose effects are all
    under such guards get a limit.

        loop.for %i = 0 to 512 {
          loop.block "b" (%v: spatial s0[1:512] = %i) {
            ...
        ->
        loop.for %i = 0 to 512 limit %s0 {
          ...
    """

    name = "lower-blocks"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        _lower(op)
        functions = [each for each in op.ops if isinstance(each, loop.FuncOp)]
        if any([split_sized_tails(each) for each in functions]):
            _lower(op)
        if any([split_tails(each.body.block, Knowledge.of(each)) for each in functions]):
            _lower(op)
        rewrite(op, [JoinGuards(), MergeNestedGuard(), HoistGuards()], inner_first=True)
        if any([limit_loops(each) for each in functions]):
            _lower(op)


def _lower(module: ModuleOp) -> None:
    # The ops in a guard are simplified while all of its conditions are present.
    patterns = [LowerBlock(), SimplifyGuard(), SimplifyAccess()]
    rewrite(module, patterns, once=True, inner_first=True)


_ACCESSES = (loop.LoadOp, loop.StoreOp)

_TRAPS = (arith.DivSIOp, arith.DivUIOp, arith.RemSIOp, arith.RemUIOp)
"""Ops that may trap on uninitialised values."""


def _is_unseen(op: loop.BlockOp) -> bool:
    """Whether a block only computes registers of a GPU thread from registers and shared memory."""
    if op.init is not None or not any(map(loop.is_thread, loop.enclosing_loops(op))):
        return False
    for inner in op.body.block.ops:
        if isinstance(inner, _ACCESSES):
            alloc = inner.memref.owner
            scope = alloc.scope.data if isinstance(alloc, loop.AllocOp) else loop.Scope.GLOBAL
            is_near = scope.is_shared and isinstance(inner, loop.LoadOp)
            if not scope.in_registers and not is_near:
                return False
        elif not is_side_effect_free(inner) or isinstance(inner, _TRAPS):
            return False
    return True


def _tells_apart(condition: AffineExpr, operands: Sequence[SSAValue], op: loop.BlockOp) -> bool:
    """Whether values that a block writes where a condition fails have separate elements: the
    condition is on the thread, or on indices of all stores."""
    stores = [inner for inner in op.body.block.ops if isinstance(inner, loop.StoreOp)]
    for position in used_dims(condition):
        value = operands[position]
        around = loop.loop_of(value)
        is_uniform = is_size(value) or (around is not None and around.axis is not None)
        if not is_uniform and not all(value in store.indices for store in stores):
            return False
    return True


def _skip_neutral_terms(body: Block, known: Knowledge) -> None:
    """Guard an update by the bounds of its term if the term's default does not change the result.

    For indices that vary with a lane, the default is kept, as a mask costs as much.
    """
    stores = [op for op in body.ops if isinstance(op, loop.StoreOp)]
    update = update_of(stores[0]) if len(stores) == 1 else None
    load = None if update is None else _deciding_load(update)
    if load is None:
        return
    operands = known.with_sizes(load.indices)
    pairs = zip(load.map.data.results, extents_of(load.memref.type), strict=True)
    open_ = [
        (expr, extent)
        for index, live in pairs
        for expr, extent in known.conditions(index, operands, live).pairs
        if known.decide(expr, operands, extent) is None
    ]
    lanes = {i for i, value in enumerate(operands) if value in known.lanes}
    guarded = [pair for pair in open_ if lanes.isdisjoint(used_dims(pair[0]))]
    if not guarded:
        return
    exprs, extents = [expr for expr, _ in guarded], [extent for _, extent in guarded]
    guard = _guard(exprs, operands, extents, known)
    if len(guarded) == len(open_):
        load.default = None
    move(tuple(body.ops), guard.body.block)
    body.add_op(guard)


def _deciding_load(update: Update) -> loop.LoadOp | None:
    """Return the load in an update's term whose default makes the update a no-op, or None."""
    load = update.term.owner
    if isinstance(load, loop.LoadOp) and load.default is not None:
        is_neutral = load.default.value.data == neutral(update.kind, load.result.type).value.data
        return load if is_neutral else None
    if update.kind is not CombiningKindFlag.ADD or not isinstance(load, _PRODUCTS):
        return None
    for factor in load.operands:
        source = factor.owner
        while isinstance(source, _WIDENINGS):
            source = source.operands[0].owner
        if isinstance(source, loop.LoadOp) and source.default is not None:
            return source if source.default.value.data == 0 else None
    return None


_PRODUCTS = (arith.MulfOp, arith.MuliOp)
_WIDENINGS = (arith.ExtFOp, ExtSIOp, ExtUIOp)


def _lower_init(op: loop.BlockOp, init: loop.InitOp, known: Knowledge) -> None:
    """Replace an init by a guard that holds if all reduction bindings are 0."""
    exprs: list[AffineExpr] = []
    for kind, binding in zip(op.iter_kinds, op.bindings.data.results, strict=True):
        if kind is loop.IterKind.REDUCE:
            exprs += _zero_conditions(binding, op.operands, known)
    if not exprs:
        inline(init)
        return
    guard = _guard(exprs, op.operands, [1] * len(exprs), known)
    move(tuple(init.body.block.ops), guard.body.block)
    replace(init, guard)


def _zero_conditions(
    expr: AffineExpr, operands: Sequence[SSAValue], known: Knowledge
) -> list[AffineExpr]:
    """Return expressions that are all in [0, 1) exactly if `expr`, known to be non-negative, is 0.

    A sum of non-negative terms is 0 if each term is 0; separate conditions for each loop can be
    hoisted separately.
    """
    ranges = known.ranges_of(operands)
    total = linear_sum(expr, ranges)
    if sum_range(total, ranges) == (0, 0):
        return []
    separable = total.constant == 0 and all(
        isinstance(atom, Dim) and factor > 0 and ranges[atom.position][0] == 0
        for atom, factor in total.terms
    )
    if not separable:
        return [expr]
    return [AffineDimExpr(atom.position) for atom, _ in total.terms if isinstance(atom, Dim)]


def _guard(
    exprs: Sequence[AffineExpr],
    operands: Sequence[SSAValue],
    extents: Sequence[int],
    known: Knowledge,
) -> loop.GuardOp:
    ranges = known.ranges_of(operands)
    coarse = [coarser(e, n, ranges) for e, n in zip(exprs, extents, strict=True)]
    simple = known.simplify([expr for expr, _ in coarse], operands)
    return loop.GuardOp(*simple, [extent for _, extent in coarse], Region(Block()))


def _put_under(guard: loop.GuardOp, body: Block, op: Operation, rewriter: PatternRewriter) -> None:
    """Replace an op by a guard that contains the ops of its block."""
    move(tuple(body.ops), guard.body.block)
    rewriter.replace(op, guard)


def _inline(body: Block, op: Operation, rewriter: PatternRewriter) -> None:
    """Replace an op by the ops of its block."""
    move_before(tuple(body.ops), op)
    rewriter.erase(op)
