"""Rewriting of concatenations as row copies."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.graph.core.attributes import FusionKind
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import shape_of
from tcopt.dialects.graph.movement.concat_rows import ConcatRowsOp
from tcopt.dialects.graph.movement.shape import ReshapeOp
from tcopt.dialects.graph.movement.slice import ConcatOp
from tcopt.dialects.target import cpu_target_of
from tcopt.support.arithmetic.sizes import is_fixed
from tcopt.support.ir.rewriting import rewrite
from tcopt.support.remarks import remark

_FEWEST = 3
"""Minimum number of parts for copying: selecting one of two parts for each element is cheaper than
a separate copy kernel.
"""
_MOST_FUSED = 8
"""Maximum number of parts that are selected element by element if the concatenation then fuses with
its user.
"""


class CopyConcat(RewritePattern):
    """Copy the parts of a concatenation row by row.

        %y = graph.concat %a, %b, %c {axis = 1} : tensor<64x6x50xf32>
    ->
        %0 = graph.reshape %a : tensor<64x100xf32>
        ...
        %3 = graph.concat_rows %0, %1, %2 : tensor<64x300xf32>
        %y = graph.reshape %3 : tensor<64x6x50xf32>
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ConcatOp, rewriter: PatternRewriter) -> None:
        parts = [x for x in op.inputs if 0 not in shape_of(x)]
        # Rows are copied with numbers of bytes.
        is_sized = not is_fixed(extent for x in parts for extent in shape_of(x))
        if is_sized or op.is_joined or not _is_cheaper_copied(op, len(parts)):
            return
        rows = math.prod(op.shape[: op.axis.value.data])
        matrices = [ReshapeOp(x, (rows, math.prod(shape_of(x)) // rows)) for x in parts]
        joined = ConcatRowsOp(matrices)
        remark(CopyConcatsPass.name, op, f"{len(parts)} parts are copied row by row")
        rewriter.replace(op, [*matrices, joined, ReshapeOp(joined, op.shape)])


def _is_cheaper_copied(op: ConcatOp, parts: int) -> bool:
    readers = list(_readers(op.result))
    fuses = len(readers) == 1 and _takes_in(readers[0])
    return parts > (_MOST_FUSED if fuses else _FEWEST - 1)


def _readers(value: SSAValue) -> Iterator[Operation]:
    """Yield the ops that read a value, directly or through views."""
    for use in value.uses:
        reader = use.operation
        if isinstance(reader, GraphOp) and reader.is_view:
            yield from _readers(reader.results[0])
        else:
            yield reader


def _takes_in(reader: Operation) -> bool:
    """Whether an op computes each element from few elements of its operand, so that they fuse."""
    if not isinstance(reader, GraphOp) or reader.is_opaque or reader.is_joined:
        return False
    return reader.fusion_kind is FusionKind.INJECTIVE


@dataclass(frozen=True)
class CopyConcatsPass(ModulePass):
    """Copy the parts of concatenations row by row, if there are more than a few.

    A concatenation that is computed element by element selects among all parts for each element,
    while copies move each element once. A concatenation of up to eight parts is kept if its only
    user is computed element by element as well, and so is one whose parts are computed in place. On
    a GPU, selecting in each thread costs less than another launch, so concatenations are kept.

        %y = graph.concat %a, %b, %c {axis = 1} : tensor<64x300xf32>
    ->
        %y = graph.concat_rows %a, %b, %c : tensor<64x300xf32>
    """

    name = "copy-concats"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if cpu_target_of(op) is not None:
            rewrite(op, [CopyConcat()], once=True)
