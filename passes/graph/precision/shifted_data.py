"""Contractions of data to which a constant has been added."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from tcopt.dialects.graph.contraction.base import ContractionOp
from tcopt.dialects.graph.contraction.conv import ConvOp
from tcopt.dialects.graph.movement.pad import PadOp
from tcopt.support.registries.rule_table import OpFunction

on_shifted: OpFunction[[Sequence[SSAValue], int | SSAValue], Sequence[Operation]] = OpFunction(
    __name__, ()
)
"""Ops for the same result as a contraction's on operands of another element type, with data
shifted.

The arguments are data and weights, and a constant included in each element of the data: a number,
or a scalar of its type. It must be 0 unless the op `sums_shifts`.
"""


@on_shifted.rule_for(ContractionOp)
def _contraction(
    op: ContractionOp, operands: Sequence[SSAValue], shift: int | SSAValue
) -> Sequence[Operation]:
    return [op.on_operands(operands)]


@on_shifted.rule_for(ConvOp)
def conv(op: ConvOp, operands: Sequence[SSAValue], shift: int | SSAValue) -> Sequence[Operation]:
    """Shift the padding like the data; for a shift known only at run time, by a separate pad."""
    if not op.window.is_padded:
        return [op.on_operands(operands)]
    data, weights = operands
    window, value, ops = op.window, 0, list[Operation]()
    pads: Sequence[int] = (*window.low, *window.high)
    if isinstance(shift, int):
        value = op.pad_value.value.data + shift
    else:
        pad = PadOp(data, shift, low=(0, 0, *window.low), high=(0, 0, *window.high))
        ops, data, pads = [pad], pad.result, ()
    product = ConvOp(
        data,
        weights,
        strides=window.strides,
        pads=pads or None,
        dilations=window.dilations,
        groups=op.group_count,
        pad_value=value,
        result_element=op.type.element_type,
    )
    return [*ops, product]
