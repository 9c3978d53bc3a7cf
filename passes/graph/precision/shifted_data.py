"""Contractions of data to which a constant has been added."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import Operation, SSAValue

from tcopt.dialects.graph.contraction import ContractionOp
from tcopt.dialects.graph.conv import ConvOp
from tcopt.dialects.graph.pad import PadOp
from tcopt.support.registries.rule_table import RuleTable

_Rule = Callable[[Any, Sequence[SSAValue], int | SSAValue], Sequence[Operation]]
_RULES: RuleTable[_Rule] = RuleTable(__name__)
on_shifted_data = _RULES.rule_for
"""Register the form of a contraction on shifted data; see `on_shifted`."""


def on_shifted(
    op: ContractionOp, operands: Sequence[SSAValue], shift: int | SSAValue
) -> Sequence[Operation]:
    """Return ops for the same result on operands of another element type, with data shifted.

    Args:
        operands: data and weights.
        shift: constant included in each element of the data: a number, or a scalar of its type. It
            must be 0 unless the op `sums_shifts`.
    """
    rule = _RULES.of(op)
    return [op.on_operands(operands)] if rule is None else rule(op, operands, shift)


@on_shifted_data(ConvOp)
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
