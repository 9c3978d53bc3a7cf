"""Replacement of operators by simpler ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from tcopt.dialects.graph.interfaces import GraphOp


@dataclass(frozen=True)
class DecomposePass(ModulePass):
    """Replace operators by the simpler ones that their `decompose` names.

    Only what helps later passes is taken apart: a batch normalization becomes a scale and a
    shift that fold into a convolution, a pooling over all of space becomes a reduction.
    The tanh of a softplus becomes one op.
    Softmax, layer normalization and other activations stay, they have definitions of their own.

        %y = graph.batch_norm %x, %scale, %bias, %mean, %variance : tensor<1x8x4x4xf32>
    ->
        %factor = ...   // scale / sqrt(variance + epsilon), as a column
        %shift = ...    // bias - mean * factor, as a column
        %0 = graph.mul %x, %factor : tensor<1x8x4x4xf32>
        %y = graph.add %0, %shift : tensor<1x8x4x4xf32>
    """

    name = "decompose"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in list(op.walk()):
            if isinstance(inner, GraphOp):
                replace(inner, inner.decompose())


def replace(op: GraphOp, new_ops: Sequence[Operation] | None) -> None:
    """Put ops, the last of which gives the result, in the place of one; None leaves it."""
    block = op.parent
    if new_ops is None or block is None:
        return
    for new_op in new_ops:
        new_op.location = op.location
    block.insert_ops_before(new_ops, op)
    new_ops[-1].results[0].name_hint = op.results[0].name_hint
    op.results[0].replace_all_uses_with(new_ops[-1].results[0])
    op.detach()
    op.erase()
