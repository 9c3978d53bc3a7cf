"""The pass `speculate-loads`, which makes conditional loads unconditional."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, memref, scf, vector
from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.traits import is_side_effect_free
from xdsl.utils.hints import isa

from tcopt.dialects.arith_ import SelectOp
from tcopt.dialects.target import thread_blocks_of
from tcopt.support.ir.rewriting import rewrite

MOST_OPS = 24
"""Maximum number of ops under a condition that counts as a copy."""

_TRAPS = (arith.DivSIOp, arith.DivUIOp, arith.RemSIOp, arith.RemUIOp)


@dataclass(frozen=True)
class SpeculateLoadsPass(ModulePass):
    """Makes conditional loads of GPU threads unconditional.

        scf.for %a = %c0 to %c8 step %c1 {
          ...
          scf.if %inside {
            %v = memref.load %x[%i] : memref<100xf32>
            memref.store %v, %shared[%j] : memref<256xf32, 3>
          }
        ->
        scf.for %a = %c0 to %c8 step %c1 {
          ...
          %k = arith.select %inside, %i, %c0 : index
          %v = memref.load %x[%k] : memref<100xf32>
          scf.if %inside {
            memref.store %v, %shared[%j] : memref<256xf32, 3>
          }

    If the condition is false, the load reads the start of the buffer. With a branch around each
    load, only one load at a time is in flight. Without it, only the store is conditional, which is
    a predicated instruction, and the loop can be unrolled. Loads with a default value become loads
    and selects:

        %v = scf.if %inside -> (f32) { %a = memref.load %x[%i] ... yield %a } else { yield %zero }
        ->
        %a = memref.load %x[%k]
        %v = arith.select %inside, %a, %zero : f32

    This applies to arguments that the kernel does not write, in loops, if the conditional body is
    short. Modules for a CPU are not changed.
    """

    name = "speculate-loads"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if thread_blocks_of(op) is not None:
            rewrite(op, [LoadBeforeIf(), ChooseLoad()])


class LoadBeforeIf(RewritePattern):
    """Move the loads of a branch without results before it.

    scf.if %inside {
      %v = memref.load %x[%i] : memref<100xf32>
      memref.store %v, %s[%t] : memref<64xf32>
    }
    ->
    %0 = arith.select %inside, %i, %c0 : index
    %v = memref.load %x[%0] : memref<100xf32>
    scf.if %inside {
      memref.store %v, %s[%t] : memref<64xf32>
    }
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: scf.IfOp, rewriter: PatternRewriter) -> None:
        if op.results or op.false_region.blocks or not _is_in_loop(op):
            return
        moved = _loads_in_front(op.true_region.block)
        if moved:
            _move_before(op, moved, rewriter)


class ChooseLoad(RewritePattern):
    """Replace a branch between a load and a known value by a select.

    %r = scf.if %inside -> (f32) {
      %v = memref.load %x[%i] : memref<100xf32>
      scf.yield %v : f32
    } else {
      scf.yield %zero : f32
    }
    ->
    %0 = arith.select %inside, %i, %c0 : index
    %v = memref.load %x[%0] : memref<100xf32>
    %r = arith.select %inside, %v, %zero : f32
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: scf.IfOp, rewriter: PatternRewriter) -> None:
        if len(op.results) != 1 or not op.false_region.blocks or not _is_in_loop(op):
            return
        then, otherwise = op.true_region.block, op.false_region.block
        if otherwise.first_op is not otherwise.last_op:
            return
        moved = _loads_in_front(then)
        if len(moved) + 1 != len(list(then.ops)):
            return
        value, other = (_yielded(block) for block in (then, otherwise))
        _move_before(op, moved, rewriter)
        rewriter.replace(op, SelectOp(op.cond, value, other))


def _yielded(block: Block) -> SSAValue:
    last = block.last_op
    assert isinstance(last, scf.YieldOp)
    return last.operands[0]


def _is_in_loop(op: scf.IfOp) -> bool:
    parent = op.parent_op()
    while isinstance(parent, scf.IfOp):
        parent = parent.parent_op()
    return isinstance(parent, scf.ForOp)


def _loads_in_front(body: Block) -> list[Operation]:
    """Return the loads of a short body that may run unconditionally, with the ops of their indices.

    Empty if another op may trap or has regions.
    """
    ops = list(body.ops)[:-1]
    if len(ops) > MOST_OPS:
        return []
    moved: list[Operation] = []
    found = False
    for op in ops:
        if isinstance(op, memref.LoadOp | vector.LoadOp) and _is_read_only(_source(op)):
            moved.append(op)
            found = True
        elif op.regions or isinstance(op, _TRAPS):
            return []
        elif is_side_effect_free(op) and all(_is_known(v, body, moved) for v in op.operands):
            moved.append(op)
    is_ready = all(_is_known(v, body, moved) for each in moved for v in each.operands)
    return moved if found and is_ready else []


def _source(load: Operation) -> SSAValue:
    return load.operands[0]


def _is_known(value: SSAValue, body: Block, moved: Sequence[Operation]) -> bool:
    owner = value.owner
    return not isinstance(owner, Operation) or owner.parent_block() is not body or owner in moved


def _is_read_only(buffer: SSAValue) -> bool:
    """Whether a buffer is a non-empty argument that the kernel only reads."""
    if not isinstance(buffer, BlockArgument) or not isa(buffer.type, MemRefType):
        return False
    shape = buffer.type.get_shape()
    reads = (memref.LoadOp, vector.LoadOp)
    return all(n > 0 for n in shape) and all(isinstance(u.operation, reads) for u in buffer.uses)


def _move_before(op: scf.IfOp, moved: Sequence[Operation], rewriter: PatternRewriter) -> None:
    """Move loads before a branch; if its condition is false, they read index 0."""
    zero: arith.ConstantOp | None = None
    for each in moved:
        each.detach()
        if isinstance(each, memref.LoadOp | vector.LoadOp):
            if zero is None and len(each.operands) > 1:
                zero = arith.ConstantOp(IntegerAttr(0, IndexType()))
                rewriter.insert(zero)
            for position in range(1, len(each.operands)):
                assert zero is not None
                place = SelectOp(op.cond, each.operands[position], zero.result)
                rewriter.insert(place)
                each.operands[position] = place.result
        rewriter.insert(each)
    # Revisit the enclosing branch, which contains loads now, and maybe no other branch.
    if isinstance(around := op.parent_op(), scf.IfOp):
        rewriter.notify_op_modified(around)
