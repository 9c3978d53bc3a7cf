"""Forms of operators on channels in blocks, by class of op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Operation, SSAValue

from tcopt.dialects.graph.contraction.col2im import Col2ImOp
from tcopt.dialects.graph.contraction.sum_taps import SumTapsOp
from tcopt.dialects.graph.core.attributes import extents_in, ints
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import broadcast_shapes, shape_of, tensor
from tcopt.dialects.graph.core.windows import window_properties
from tcopt.dialects.graph.elementwise.base import ElementwiseOp
from tcopt.dialects.graph.movement.interleave import InterleaveOp
from tcopt.dialects.graph.movement.slice import ConcatOp
from tcopt.dialects.graph.reduction.lrn import LrnOp
from tcopt.dialects.graph.reduction.pool import PoolOp
from tcopt.dialects.graph.reduction.reduce import ReduceOp
from tcopt.support.registries.rule_table import OpFunction

contraction_in_blocks: OpFunction[[Any], GraphOp | None] = OpFunction(
    f"{__package__}.conv_in_blocks", None
)
"""An op that contracts channels and computes its result in blocks of `BlockLayouts.block_of`
channels, not yet inserted; None if the op should compute on plain data.

The argument is a `BlockLayouts`. Ops with a rule compute in blocks regardless of the layout of
their operands.
"""

form_in_blocks: OpFunction[[Sequence[SSAValue], int], GraphOp | None] = OpFunction(__name__, None)
"""The op on data whose channels are in blocks, or None if it has no such form.

The arguments are the operands and the number of channels in a block. Operands of the op's own rank
are [N, C / block, ..., block]; operands of lower rank broadcast against that.
"""

is_plain_in_blocks_of: OpFunction[[int], bool] = OpFunction(__name__, False)
"""Whether an op is known to have no form in blocks of a number of channels."""


def contracts(op: Operation) -> bool:
    """Whether an op contracts channels in blocks of them."""
    return contraction_in_blocks.of(op) is not None


@form_in_blocks.rule_for(ElementwiseOp)
def _elementwise(op: ElementwiseOp, operands: Sequence[SSAValue], block: int) -> GraphOp:
    """Return the same op, as elements keep their relative positions."""
    return op.with_operands(operands, broadcast_shapes(*map(shape_of, operands)))


@form_in_blocks.rule_for(PoolOp)
def _pool(op: PoolOp, operands: Sequence[SSAValue], block: int) -> GraphOp:
    """Return the op with the block as an additional spatial dimension of window extent 1."""
    window, shape = op.window, op.shape
    pads = [*window.low, 0, *window.high, 0]
    widened = {
        "kernel": ints([*window.kernel, 1]),
        **window_properties([*window.strides, 1], pads, [*window.dilations, 1]),
    }
    properties = {k: v for k, v in {**op.properties, **widened}.items() if v is not None}
    result = tensor((shape[0], -(-shape[1] // block), *shape[2:], block), op.type.element_type)
    return PoolOp.create(operands=operands, properties=properties, result_types=[result])


@form_in_blocks.rule_for(ReduceOp)
def _reduce(op: ReduceOp, operands: Sequence[SSAValue], block: int) -> GraphOp | None:
    """Return the op on blocks, for reductions over spatial dimensions that are kept as 1."""
    axes = op.axes.get_values()
    if op.keepdims is None or not all(axis >= 2 for axis in axes):
        return None
    return ReduceOp(operands[0], kind=op.kind.data.value, axes=axes, keepdims=True)


@form_in_blocks.rule_for(ConcatOp)
def _concat(op: ConcatOp, operands: Sequence[SSAValue], block: int) -> GraphOp:
    """Return the op on blocks, along any axis: channels too, as they are whole blocks."""
    return ConcatOp(list(operands), axis=op.axis.value.data)


@form_in_blocks.rule_for(LrnOp)
def _lrn(op: LrnOp, operands: Sequence[SSAValue], block: int) -> GraphOp | None:
    """Return the op on blocks, if no window extends to a lane after the last channel, or beyond the
    adjacent blocks."""
    if op.blocked is not None or op.shape[1] % block or max(op.reach) > block:
        return None
    return LrnOp(
        operands[0],
        size=op.size.value.data,
        alpha=op.alpha.value.data,
        beta=op.beta.value.data,
        bias=op.bias.value.data,
        blocked=True,
    )


@form_in_blocks.rule_for(InterleaveOp)
def _interleave(op: InterleaveOp, operands: Sequence[SSAValue], block: int) -> GraphOp | None:
    """Return the op on blocks, if phases are whole blocks."""
    if _is_not_whole_blocks(op, block):
        return None
    return InterleaveOp(
        operands[0],
        strides=op.strides.get_values(),
        starts=op.starts.get_values(),
        output=extents_in(op.output),
        kept=op.kept_phases,
    )


@is_plain_in_blocks_of.rule_for(InterleaveOp)
def _is_not_whole_blocks(op: InterleaveOp, block: int) -> bool:
    return op.shape[1] % block > 0 or op.groups.value.data > 1


@is_plain_in_blocks_of.rule_for(SumTapsOp, Col2ImOp)
def _is_along_the_image(op: Operation, block: int) -> bool:
    # Vectors hold pixels, as there are too few channels to fill them.
    return True
