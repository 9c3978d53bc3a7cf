"""Incorrect passes, for `tcopt --verify-each=exec` to find."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass


@dataclass(frozen=True)
class AddToSubtract(ModulePass):
    """Turn the n-th addition into a subtraction."""

    name = "add-to-subtract"

    n: int = 0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        additions = [inner for inner in op.walk() if isinstance(inner, arith.AddfOp)]
        old = additions[self.n]
        new = arith.SubfOp(old.lhs, old.rhs)
        new.location = old.location
        block = old.parent
        assert block is not None
        block.insert_op_before(new, old)
        old.result.replace_all_uses_with(new.result)
        block.erase_op(old)


@dataclass(frozen=True)
class SwapOperands(ModulePass):
    """Swap the operands of every addition, which changes nothing."""

    name = "swap-operands"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            if isinstance(inner, arith.AddfOp):
                inner.operands = [inner.rhs, inner.lhs]


@dataclass(frozen=True)
class DropCondition(ModulePass):
    """Run the body of the first condition unconditionally."""

    name = "drop-condition"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        condition = next(inner for inner in op.walk() if inner.name == "scf.if")
        block = condition.parent
        assert block is not None
        for inner in list(condition.regions[0].block.ops):
            if inner.name != "scf.yield":
                inner.detach()
                block.insert_op_before(inner, condition)
        block.erase_op(condition)


@dataclass(frozen=True)
class AddBarrier(ModulePass):
    """Insert a barrier, which no interpreter supports."""

    name = "add-barrier"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from tcopt.dialects import loop

        first = next(inner for inner in op.walk() if isinstance(inner, loop.ForOp))
        block = first.body.block
        assert block.first_op is not None
        block.insert_op_before(loop.BarrierOp(), block.first_op)
