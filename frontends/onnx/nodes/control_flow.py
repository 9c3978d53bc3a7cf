"""If, whose branches are inlined, and the importers of all operators with subgraphs."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.model.errors import MissingValuesError
from tcopt.frontends.onnx.model.values import (
    Value,
    Values,
)
from tcopt.frontends.onnx.nodes.bodies import Bodies, without_failures
from tcopt.frontends.onnx.nodes.loops import LoopBodies
from tcopt.frontends.onnx.nodes.scans import ScanBodies
from tcopt.support.errors import TcoptError

_IF = "the condition of If"


class BranchBodies(Bodies):
    """The branches of an If."""

    def run(self, operands: Values) -> Values:
        """Import the branch of a known condition; otherwise both, and select their results."""
        condition = operands[0] if operands else None
        known = self.known(condition)
        if known is None:
            known = self.ctx.builder.measured_value(_IF, self.ctx.where)
        if known is not None and known.size == 1:
            wanted = "then_branch" if known.reshape(-1)[0] else "else_branch"
            return self.imported(self.body(wanted, 0), [], self.scope, "")
        if not isinstance(condition, SSAValue):
            self.ctx.malformed("its condition is missing")
        builder = self.ctx.builder
        functions, checks = len(builder.functions), len(builder.checks)
        try:
            return self._choice(condition)
        except MissingValuesError:
            # The branches are imported again when the condition is known.
            del builder.functions[functions:], builder.checks[checks:]
            raise

    def _choice(self, condition: SSAValue) -> Values:
        """Import both branches and select their results.

        Raises:
            MissingValuesError: only one of the branches can be imported, or their shapes differ.
        """
        names = ("then_branch", "else_branch")
        trials = [self._tried(name, condition, name == names[0]) for name in names]
        failed = [errors for errors, _ in trials if errors]
        found = [error for errors in failed for error in errors]
        if len(failed) == 1 or any(isinstance(error, MissingValuesError) for error in found):
            # A branch may be invalid for shapes for which it is not taken.
            self.depends(_IF, condition, _why(found))
        for error in found:
            self.importer.problems.add(error)
        results: list[Value] = []
        for yes, no in zip(*(without_failures(values) for _, values in trials), strict=True):
            if not isinstance(yes, SSAValue) or not isinstance(no, SSAValue):
                self.depends(_IF, condition)
            if yes.type != no.type:
                self.depends(_IF, condition, ", which decides shapes,")
            flag = self.ctx.emit(graph.ReshapeOp(condition, ()))
            results.append(self.ctx.moved(yes, graph.SelectOp(flag, yes, no)))
        return results

    def _tried(
        self, name: str, condition: SSAValue, taken: bool
    ) -> tuple[list[TcoptError], list[Value]]:
        """Import a branch; return errors and results. Its checks only apply if it is taken."""
        first = len(self.ctx.builder.checks)
        where = f"{self.ctx.where}/{name}"
        tried = self.importer.try_body(self.body(name, 0), dict(self.scope), where, self.depth + 1)
        self.ctx.builder.narrow_checks(first, condition, taken)
        return tried


def _why(found: Sequence[TcoptError]) -> str:
    """Describe an error of a branch other than missing values, for a message."""
    wrong = next((e for e in found if not isinstance(e, MissingValuesError)), None)
    return "" if wrong is None else f", one of whose branches fails here ({wrong}),"


CONTROL_FLOW: dict[str, type[BranchBodies | LoopBodies | ScanBodies]] = {
    "If": BranchBodies,
    "Loop": LoopBodies,
    "Scan": ScanBodies,
}
"""Importer of each operator with subgraphs."""
