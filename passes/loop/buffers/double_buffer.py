"""Double buffering: later tiles are fetched while the current one is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.dialects.loop.memory import SLOTS
from tcopt.dialects.target import target_facts_of
from tcopt.passes.loop.buffers.copies_ahead import copy_ahead, give_slots, is_copied
from tcopt.passes.loop.buffers.tile_fills import Fill, fills_of
from tcopt.passes.loop.edits.dead_code import erase_dead_ops
from tcopt.passes.loop.edits.dimensions import add_dimension
from tcopt.support.ir.rewriting import insert, replace, rewrite
from tcopt.support.machines.thread_blocks import ASYNC_COPIES

_MOST_STAGED = 64
"""Maximum elements that a thread holds in registers between fetching and storing them."""


@dataclass(frozen=True)
class DoubleBuffer(RewritePattern):
    """Give the marked buffers of a function several slots, which are used in rotation.

    %s = loop.alloc shared {slots = 2 : i64} : memref<64xf32>
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

    Attributes:
        has_copies: whether the target has asynchronous copies.
    """

    has_copies: bool

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: loop.FuncOp, rewriter: PatternRewriter) -> None:
        copied: dict[loop.AllocOp, list[Fill]] = {}
        slots: dict[loop.AllocOp, int] = {}
        for alloc in [each for each in op.walk() if isinstance(each, loop.AllocOp)]:
            if SLOTS not in alloc.attributes or not alloc.scope.data.is_shared:
                continue
            count = alloc.slots
            del alloc.attributes[SLOTS]
            rewriter.notify_op_modified(alloc)
            fills = fills_of(alloc)
            if fills is None:
                continue
            if self.has_copies and all(map(is_copied, fills)):
                copied[alloc] = fills
                slots[alloc] = min(count, *(each.loop.trip_count for each in fills))
            else:
                _through_registers(alloc, fills, rewriter)
        _copy_ahead(copied, slots, rewriter)


def _copy_ahead(
    copied: dict[loop.AllocOp, list[Fill]],
    slots: dict[loop.AllocOp, int],
    rewriter: PatternRewriter,
) -> None:
    """Copy the tiles of buffers asynchronously; those of one loop have the same slots."""
    by_loop: dict[loop.ForOp, list[Fill]] = {}
    for fills in copied.values():
        for fill in fills:
            by_loop.setdefault(fill.loop, []).append(fill)
    for _ in by_loop:
        for fills in by_loop.values():
            fewest = min(slots[each.alloc] for each in fills)
            slots.update((each.alloc, fewest) for each in fills)
    for fills in by_loop.values():
        copy_ahead(fills, slots[fills[0].alloc], rewriter)
    for alloc, count in slots.items():
        give_slots(alloc, count, is_async=True)


@dataclass(frozen=True)
class DoubleBufferPass(ModulePass):
    """Fetch later tiles of a buffer while the current one is used.

    A buffer marked by `sched.double_buffer` gets several slots, used in rotation.

    If the target has asynchronous copies (`cp_async`) and the tile consists of whole words in
    memory, each tile is copied `slots - 1` iterations ahead of its use. The first `slots - 1` tiles
    are copied before the loop. The copies of an iteration are a group. A thread waits until its
    copies for the current iteration are complete; the barrier that follows, which `insert-barriers`
    adds, makes them visible to other threads, and orders new copies after the use of the slot that
    they overwrite:

        %s = loop.alloc shared {slots = 3 : i64} : memref<64xf32>
        loop.for %k = 0 to 8 {
          loop.for %t = 0 to 64 thread threadIdx.x {
            %a = loop.load %x[%k * 64 + %t]
            loop.store %a, %s[%t]
          }
          ... loop.load %s[..]
        }
        ->
        %s = loop.alloc shared {async} : memref<3x64xf32>
        ...                                           // the tile of %k = 0 to %s[0, ..]
        simt.commit_copies
        ...                                           // the tile of %k = 1 to %s[1, ..]
        simt.commit_copies
        loop.for %k = 0 to 8 {
          simt.wait_copies pending 1
          loop.for %t = 0 to 64 thread threadIdx.x {
            %a = loop.load %x[%k * 64 + %t + 128] else 0.0
            loop.store %a, %s[(%k + 2) mod 3, %t]
          ...
          simt.commit_copies
          ... loop.load %s[%k mod 3, ..]

    With at least three slots, the copies follow the uses, spread over the steps of the unrolled
    loop in which tiles are used.

    Otherwise there are two slots. In each iteration, the data of the next one is first loaded into
    registers, and stored after the last use of the current tile; the first tile is fetched before
    the loop.

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
        target = target_facts_of(op)
        has_copies = target is not None and ASYNC_COPIES in target.capabilities
        rewrite(op, [DoubleBuffer(has_copies)], once=True)


def _through_registers(
    alloc: loop.AllocOp, fills: Sequence[Fill], rewriter: PatternRewriter
) -> None:
    for fill in fills:
        variable = fill.loop.induction_variable
        first = fill.at(AffineConstantExpr(0), 2)
        following = fill.at(AffineDimExpr(0) + 1, 2)
        for use in fill.uses:
            add_dimension(use, AffineDimExpr(0) % 2, [variable])
        rewriter.insert(first, InsertPoint.before(fill.loop))
        _fetch(fill, following, alloc, rewriter)
        rewriter.erase(fill.op)
    give_slots(alloc, 2, is_async=False)


def _fetch(fill: Fill, nest: Operation, alloc: loop.AllocOp, rewriter: PatternRewriter) -> None:
    """Load the next tile before the current one is used, and store it afterwards."""
    loops = [op for op in nest.walk() if isinstance(op, loop.ForOp)]
    held = prod(each.trip_count for each in loops if each.axis is None)
    if held > _MOST_STAGED:
        rewriter.insert(fill.guarded(nest, 1), InsertPoint.before(fill.op))
        return
    type_ = alloc.result.type
    assert isa(type_, MemRefType)
    shape = [each.trip_count for each in loops]
    registers = loop.AllocOp(MemRefType(type_.get_element_type(), shape), loop.Scope.REGISTER)
    registers.result.name_hint = f"{alloc.result.name_hint or 'tile'}_next"
    late = nest.clone()
    _keep(nest, registers)
    _put(late, registers)
    rewriter.insert([registers, fill.guarded(nest, 1)], InsertPoint.before(fill.op))
    rewriter.insert(fill.guarded(late, 1), InsertPoint.after(fill.last))
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
