"""licm: what does not change in a loop is computed in front of it."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from tcopt.passes.kernel.effects import Effects, effects_of, is_movable
from tcopt.passes.kernel.register_slots import constant_index


@dataclass(frozen=True)
class LoopInvariants(ModulePass):
    """Moves ops whose operands come from outside a loop in front of it.

    Ops without effects always move; reads of memory move if the loop writes nothing and is
    known to run. Loops are `scf.for` and `scf.parallel`; inner ones go first, so that an op
    moves out of a whole nest.

    ```mlir
    scf.for %i = %c0 to %n step %c1 {
      %v = vector.broadcast %s : f32 to vector<16xf32>
      ...
    }
    ```
    becomes
    ```mlir
    %v = vector.broadcast %s : f32 to vector<16xf32>
    scf.for %i = %c0 to %n step %c1 { ... }
    ```
    """

    name = "licm"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        memo: dict[Operation, Effects] = {}
        for block in op.body.blocks:
            _visit(block, memo)


def _visit(block: Block, memo: dict[Operation, Effects]) -> None:
    for op in tuple(block.ops):
        for region in op.regions:
            for inner in region.blocks:
                _visit(inner, memo)
        if isinstance(op, scf.ForOp | scf.ParallelOp):
            _hoist(op, memo)


def _hoist(loop: scf.ForOp | scf.ParallelOp, memo: dict[Operation, Effects]) -> None:
    block = loop.body.block
    reads_move = not effects_of(loop, memo).writes and _runs(loop)
    target = loop.parent
    assert target is not None
    inside: set[Operation] = set(block.ops)
    for op in tuple(block.ops):
        if op is block.last_op:
            break
        movable = is_movable(op) or (reads_move and _only_reads(op))
        if not movable or any(
            operand.owner is block or operand.owner in inside for operand in op.operands
        ):
            continue
        op.detach()
        target.insert_op_before(op, loop)
        inside.discard(op)


def _only_reads(op: Operation) -> bool:
    effects = effects_of(op)
    return effects.reads and not effects.writes and not effects.allocates and not op.regions


def _runs(loop: scf.ForOp | scf.ParallelOp) -> bool:
    """Whether a loop is known to run at least once."""
    if isinstance(loop, scf.ForOp):
        bounds = [(loop.lb, loop.ub)]
    else:
        bounds = list(zip(loop.lowerBound, loop.upperBound, strict=True))
    for lower, upper in bounds:
        low, high = constant_index(lower), constant_index(upper)
        if low is None or high is None or low >= high:
            return False
    return True
