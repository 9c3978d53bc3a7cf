"""A user-defined pass for `tcopt --load`: records how many ops each function has."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass


@dataclass(frozen=True)
class CountOps(ModulePass):
    """Attach the number of ops in each function, counting from `first`."""

    name = "count-ops"

    first: int = 0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.walk():
            if isinstance(func, FuncOp):
                count = sum(1 for _ in func.body.walk())
                func.attributes["ops"] = IntegerAttr(self.first + count, i64)
