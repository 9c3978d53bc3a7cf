"""Canonicalization of ops by their own folds and patterns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.folder import Folder
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.traits import ConstantLike, HasCanonicalizationPatternsTrait, HasFolder
from xdsl.transforms.dead_code_elimination import is_trivially_dead, region_dce

from tcopt.support.ir.rewriting import rewrite


class EraseDead(RewritePattern):
    """Remove an unused op without side effects.

        %0 = arith.muli %a, %a : i32
    ->
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if is_trivially_dead(op):
            rewriter.erase(op)


@dataclass
class Fold(RewritePattern):
    """Replace an op by the result of its `fold`: existing values or constants.

        %0 = graph.reshape %x : tensor<4x8xf32>
        %1 = graph.add %0, %y : tensor<4x8xf32>
    ->
        %1 = graph.add %x, %y : tensor<4x8xf32>

    Attributes:
        context: context with the dialects that materialise constants.
    """

    context: Context

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if _folds(type(op)) and (folded := Folder(self.context).try_fold(op)) is not None:
            values, constants = folded
            rewriter.replace(op, constants, values)


class Canonicalize(RewritePattern):
    """Apply the canonicalization patterns of an op's definition.

        %0 = graph.transpose %x {perm = [1, 0]} : tensor<8x4xf32>
        %1 = graph.transpose %0 {perm = [1, 0]} : tensor<4x8xf32>
    ->
        %1 = graph.transpose %x {perm = [0, 1]} : tensor<4x8xf32>
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        for pattern in _canonicalization_patterns(type(op)):
            pattern.match_and_rewrite(op, rewriter)
            if rewriter.has_done_action:
                return


@cache
def _folds(kind: type[Operation]) -> bool:
    # A constant folds to an attribute, which would be materialised as the same constant.
    return kind.has_trait(HasFolder) and not kind.has_trait(ConstantLike)


@cache
def _canonicalization_patterns(kind: type[Operation]) -> tuple[RewritePattern, ...]:
    traits = kind.get_traits_of_type(HasCanonicalizationPatternsTrait)
    return tuple(pattern for trait in traits for pattern in trait.get_patterns(kind))


def simplifications(context: Context) -> list[RewritePattern]:
    """Return the patterns above, for passes that add their own."""
    return [EraseDead(), Fold(context), Canonicalize()]


@dataclass(frozen=True)
class CanonicalizePass(ModulePass):
    """Simplify each op by its own folds and patterns, and remove dead code.

        %0 = graph.reshape %x : tensor<4x8xf32>
        %1 = graph.add %0, %y : tensor<4x8xf32>
        %2 = graph.relu %1 : tensor<4x8xf32>
        return %1
    ->
        %1 = graph.add %x, %y : tensor<4x8xf32>
        return %1

    The rules are the `fold` and the canonicalization patterns of an op's definition.
    """

    name = "canonicalize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        patterns = simplifications(ctx)
        rewrite(op, patterns)
        while region_dce(op.body) and rewrite(op, patterns):
            pass
