"""Interface for folding and canonicalisation."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.interfaces import HasCanonicalizationPatternsInterface, HasFolderInterface
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from tcopt.dialects.graph.core.types import Array


class FoldingInterface(HasFolderInterface, HasCanonicalizationPatternsInterface):
    """Interface used by canonicalisation: existing values or fewer ops that replace an op."""

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        """Return existing values that equal the results, if the op is an identity."""
        value = self.unchanged()
        return None if value is None or value.type != self.results[0].type else (value,)

    def unchanged(self) -> SSAValue | None:
        """Return an operand that equals the result if it has the result's type; None if there is
        none."""
        return None

    @property
    def is_folded_early(self) -> bool:
        """Whether an import may evaluate the op on small constants; False where passes match the
        structure of its operands."""
        return True

    def compute_sizes(self, *arrays: Array) -> Array | None:
        """Evaluate the only result on integer arrays, some of which are object arrays of sizes.

        None if the op has no such evaluation; an UndecidedSize or TypeError if it depends on the
        values of sizes.
        """
        del arrays
        return None

    def simplify(self) -> Sequence[Operation] | None:
        """Return fewer or cheaper ops that compute the same, the last one being the result.

        Canonicalisation replaces the op by them; None if the op is canonical.
        """
        return None

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        """Return the pattern that applies `simplify`."""
        return (Simplify(),)


class Simplify(RewritePattern):
    """Replace a graph op by the ops that its `simplify` returns.

    %i = graph.constant dense<[1, 3]> : tensor<2xi64>
    %y = graph.gather %x, %i {axis = 0} : tensor<2x8xf32>
    ->
    %y = graph.slice %x {starts = [1, 0], steps = [2, 1]} : tensor<2x8xf32>
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Rewrite one op."""
        if not isinstance(op, FoldingInterface):
            return
        new_ops = op.simplify()
        if new_ops is None:
            return
        for new_op in new_ops:
            new_op.location = op.location
        new_ops[-1].results[0].name_hint = op.results[0].name_hint
        rewriter.replace(op, new_ops)
