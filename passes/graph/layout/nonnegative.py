"""Analysis of values whose elements are all non-negative."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Block, SSAValue

from tcopt.dialects.graph.core.attributes import PoolKind
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.elementwise.activation import ClipOp, ReluOp
from tcopt.dialects.graph.elementwise.arithmetic import AddOp, MulOp
from tcopt.dialects.graph.elementwise.base import BinaryOp
from tcopt.dialects.graph.elementwise.functions import (
    MaxOp,
    MinOp,
    SigmoidOp,
    SoftplusOp,
    TanhSoftplusOp,
)
from tcopt.dialects.graph.movement.layout import LayoutTransformOp
from tcopt.dialects.graph.movement.pad import PadOp
from tcopt.dialects.graph.movement.shape import MovementOp
from tcopt.dialects.graph.movement.slice import ConcatOp
from tcopt.dialects.graph.reduction.pool import PoolOp
from tcopt.support.registries.rule_table import OpFunction

is_nonnegative: OpFunction[[Sequence[bool]], bool] = OpFunction(__name__, False)
"""Whether all elements of an op's result are non-negative, from the answers for its operands."""


def nonnegative_values(block: Block) -> set[SSAValue]:
    """Return the results of a block's ops whose elements are known to be non-negative."""
    found: set[SSAValue] = set()
    for op in block.ops:
        if is_nonnegative(op, [operand in found for operand in op.operands]):
            found.update(op.results)
    return found


@is_nonnegative.rule_for(ReluOp, SigmoidOp, SoftplusOp, TanhSoftplusOp)
def _always(op: GraphOp, operands: Sequence[bool]) -> bool:
    return True


@is_nonnegative.rule_for(AddOp, MulOp, MinOp, MovementOp, ConcatOp, PadOp, LayoutTransformOp)
def _if_all_are(op: GraphOp, operands: Sequence[bool]) -> bool:
    return all(operands)


@is_nonnegative.rule_for(MaxOp)
def _if_one_is(op: BinaryOp, operands: Sequence[bool]) -> bool:
    return any(operands)


@is_nonnegative.rule_for(ClipOp)
def _clip(op: ClipOp, operands: Sequence[bool]) -> bool:
    low = -math.inf if op.min is None else op.min.value.data
    high = math.inf if op.max is None else op.max.value.data
    return high >= 0 and (low >= 0 or operands[0])


@is_nonnegative.rule_for(PoolOp)
def _pool(op: PoolOp, operands: Sequence[bool]) -> bool:
    return operands[0] or op.kind.data is PoolKind.LP
