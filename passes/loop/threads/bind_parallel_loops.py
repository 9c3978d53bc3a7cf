"""Binding of parallel loops to the threads of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

from xdsl.context import Context
from xdsl.dialects.builtin import IndexType, ModuleOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects import loop
from tcopt.dialects.target import thread_blocks_of
from tcopt.support.ir.rewriting import move, rewrite

_LIKELY_THREADS = 64
"""Number of threads of a block that suffices if each does independent work."""


@dataclass(frozen=True)
class BindParallelLoop(RewritePattern):
    """Distribute the iterations of a function's outermost parallel nest over blocks of threads.

        loop.for %i = 0 to 100 parallel { ... }
        ->
        loop.for %block = 0 to 2 thread blockIdx.x {
          loop.for %thread = 0 to 64 thread threadIdx.x {
            loop.guard ([%block * 64 + %thread] in 100) {
              %i = loop.index [%block * 64 + %thread]
              ... } } }

    Attributes:
        max_threads: maximum number of threads of a block.
    """

    max_threads: int

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: loop.ForOp, rewriter: PatternRewriter) -> None:
        if isinstance(op.parent_op(), loop.FuncOp) and _is_parallel(op):
            _bind(op, self.max_threads, rewriter)


@dataclass(frozen=True)
class BindParallelLoopsPass(ModulePass):
    """Distribute the iterations of parallel loops over the threads of a GPU.

    Kernels that are written as loops mark the iterations that may run concurrently. A nest of such
    loops, outermost in its function, becomes blocks of threads that run one iteration each. Code
    that neither a schedule rule nor a parallel loop distributes runs in one thread.

        loop.for %i = 0 to 100 parallel { ... }
        ->
        loop.for %block = 0 to 2 thread blockIdx.x {
          loop.for %thread = 0 to 64 thread threadIdx.x {
            loop.guard ([%block * 64 + %thread] in 100) {
              %i = loop.index [%block * 64 + %thread]
              ... } } }

    The pass runs after `insert-barriers`, because these threads need no barriers. Modules for a CPU
    are not changed.
    """

    name = "bind-parallel-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = thread_blocks_of(op)
        if target is not None:
            rewrite(op, [BindParallelLoop(target.max_threads)], once=True)


def _is_parallel(op: loop.ForOp) -> bool:
    return op.loop_kind is loop.LoopKind.PARALLEL and op.trip_count > 1


def _bind(outermost: loop.ForOp, max_threads: int, rewriter: PatternRewriter) -> None:
    nest = [outermost]
    while (inner := _only_loop(nest[-1])) is not None:
        nest.append(inner)
    extents = [each.trip_count for each in nest]
    count = prod(extents)
    threads = min(max_threads, _LIKELY_THREADS, count)
    block, thread = Block(arg_types=[IndexType()]), Block(arg_types=[IndexType()])
    block.args[0].name_hint, thread.args[0].name_hint = "block", "thread"
    body = Block()
    number = AffineDimExpr(0) * threads + AffineDimExpr(1)
    axes = [block.args[0], thread.args[0]]
    positions = _positions(body, number, axes, extents)
    for each, position in zip(nest, positions, strict=True):
        position.name_hint = each.induction_variable.name_hint
        each.induction_variable.replace_all_uses_with(position)
    move(tuple(nest[-1].body.block.ops), body)
    if count % threads:
        guard = loop.GuardOp(AffineMap(2, 0, (number,)), axes, [count], Region(body))
        body = Block([guard])
    move(tuple(body.ops), thread)
    names, kind = loop.ThreadAxis, loop.LoopKind.THREAD
    inner = loop.ForOp(threads, Region(thread), kind, names.THREAD_X)
    block.add_op(inner)
    outer = loop.ForOp(ceil(count / threads), Region(block), kind, names.BLOCK_X)
    outer.location = inner.location = outermost.location
    rewriter.replace(outermost, outer)


def _only_loop(op: loop.ForOp) -> loop.ForOp | None:
    """Return the parallel loop that is the only op of a loop's body, or None."""
    first = op.body.block.first_op
    alone = first is not None and first.next_op is None
    return first if alone and isinstance(first, loop.ForOp) and _is_parallel(first) else None


def _positions(
    block: Block, number: AffineExpr, axes: Sequence[SSAValue], extents: Sequence[int]
) -> list[SSAValue]:
    """Return the variables of a nest in an iteration, the outermost first."""
    found: list[SSAValue] = []
    for place, extent in enumerate(extents):
        stride = prod(extents[place + 1 :])
        position = number if stride == 1 else number // stride
        if place:
            position = position % extent
        op = loop.IndexOp(AffineMap(2, 0, (position,)), axes)
        block.add_op(op)
        found.append(op.result)
    return found
