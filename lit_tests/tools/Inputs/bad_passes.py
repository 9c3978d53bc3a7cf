"""Passes that fail: one raises, one leaves invalid IR."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass


@dataclass(frozen=True)
class RaiseError(ModulePass):
    """Divide by zero."""

    name = "raise-error"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        _ = 1 // 0


@dataclass(frozen=True)
class BreakOrder(ModulePass):
    """Move the first op of each function below its last user."""

    name = "break-order"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.walk():
            if isinstance(func, FuncOp):
                block = func.body.block
                first = block.first_op
                assert first is not None and block.last_op is not None
                first.detach()
                block.insert_op_before(first, block.last_op)
