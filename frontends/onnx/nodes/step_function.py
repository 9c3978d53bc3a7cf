"""The function for the body of a Loop or Scan."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from tcopt.frontends.onnx.context.builder import GraphBuilder
from tcopt.frontends.onnx.model.values import Scope


class StepFunction:
    """Function of a loop body during import of its nodes.

    Attributes:
        builder: adds operations to the function.
        arguments: arguments of the function.
        fixed: loop-invariant values from outside the loop.
        scope: values that nodes of the body can use, by name.
    """

    def __init__(
        self,
        builder: GraphBuilder,
        arguments: Sequence[SSAValue],
        fixed: list[SSAValue],
        scope: Scope,
    ):
        self.builder = builder
        self.arguments = arguments
        self.fixed = fixed
        self.scope = scope

    def finish(self, results: Sequence[SSAValue]) -> FuncOp:
        """Complete the function with its results, and return it."""
        checks = (refused for _, refused in self.builder.checks)
        return self.builder.finish([*results, *checks])

    def drop(self) -> None:
        """Remove the function from the module."""
        function = self.builder.block.parent_op()
        self.builder.functions[:] = [f for f in self.builder.functions if f is not function]
