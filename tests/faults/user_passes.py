"""User-defined passes with a fault in each, for `tcopt --load`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from tcopt.dialects import loop


@dataclass(frozen=True)
class DropActivation(ModulePass):
    """Treat an activation as the identity."""

    name = "user-drop-activation"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        relu = next(each for each in op.walk() if each.name == "graph.relu")
        relu.results[0].replace_all_uses_with(relu.operands[0])
        Rewriter.erase_op(relu)


@dataclass(frozen=True)
class ParallelReduction(ModulePass):
    """Make a reduction loop parallel."""

    name = "user-parallel-reduction"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for each in op.walk():
            if not isinstance(each, loop.BlockOp) or not each.is_reduction:
                continue
            parent = each.parent_op()
            while isinstance(parent, loop.ForOp):
                if parent.trip_count > 1 and parent.loop_kind is loop.LoopKind.SERIAL:
                    parent.properties["kind"] = loop.LoopKindAttr(loop.LoopKind.PARALLEL)
                    return
                parent = parent.parent_op()


@dataclass(frozen=True)
class SumToDifference(ModulePass):
    """Turn the last float addition into a subtraction."""

    name = "user-sum-to-difference"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        sums = [each for each in op.walk() if isinstance(each, arith.AddfOp)]
        Rewriter.replace_op(sums[-1], arith.SubfOp(sums[-1].lhs, sums[-1].rhs))


@dataclass(frozen=True)
class EndlessLoop(ModulePass):
    """Give a loop a step of zero."""

    name = "user-endless-loop"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for each in op.walk():
            if each.name == "scf.for":
                two = arith.ConstantOp.from_int_and_width(2, each.operands[2].type)  # type: ignore
                zero = arith.DivUIOp(each.operands[2], two)
                assert each.parent is not None
                each.parent.insert_ops_before([two, zero], each)
                each.operands[2] = zero.result
                return
