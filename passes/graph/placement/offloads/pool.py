"""Pooling of bytes on an ALU, on blocks of channels in registers."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import i8, i32
from xdsl.ir import SSAValue

from tcopt.dialects.graph.core.attributes import PoolKind
from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import element_type, lowest, shape_of, tensor
from tcopt.dialects.graph.elementwise.cast import CastOp
from tcopt.dialects.graph.movement.layout import SPATIAL, LayoutTransformOp
from tcopt.dialects.graph.movement.pad import PadOp
from tcopt.dialects.graph.reduction.pool import PoolOp
from tcopt.passes.graph.layout.blocked_forms import form_in_blocks
from tcopt.passes.graph.placement.offload import OTHER_REGISTERS, Offload, on_alu_in_blocks

_LARGEST = 128
"""The largest magnitude of a byte."""

_MOST_PAD = 15
"""Maximum padding that a transfer can write around data."""


@on_alu_in_blocks.rule_for(PoolOp)
def offload_pool(op: PoolOp, lanes: int) -> Offload | str:
    """Return the form of a pooling for an ALU, or the reason why it has none.

    Data and result become [N, C / lanes, space.., lanes]. Data is padded with the smallest byte,
    which never affects the maximum of a window that contains data.
    """
    shape, output = shape_of(op.x), op.shape[2:]
    if op.kind.data is not PoolKind.MAX:
        return f"an alu does not compute pooling of kind {op.kind.data}"
    if len(output) not in SPATIAL or len(output) > 2 or 0 in (*op.shape, *shape):
        return f"it has {len(output)} spatial dimensions"
    window = op.window
    low, high = window.border(shape[2:], output)
    if min(window.low) < 0 or max(*low, *high) > _MOST_PAD:
        return f"a transfer adds at most {_MOST_PAD} rows or columns of padding"
    space = SPATIAL[len(output)]
    plain, blocks = f"NC{space}", f"NC{space}{lanes}c"
    before: list[GraphOp] = []
    value: SSAValue = op.x
    if element_type(value) != i8:
        before.append(CastOp(value, i8))
        value = before[-1].results[0]
    before.append(LayoutTransformOp(value, src=plain, dst=blocks))
    body: list[GraphOp] = []
    value = before[-1].results[0]
    if any((*low, *high)):
        least = ConstantOp.literal(lowest(i8), i8)
        padded = PadOp(value, least, low=(0, 0, *low, 0), high=(0, 0, *high, 0))
        before.append(least)
        body.append(padded)
        value = padded.results[0]
    wide = CastOp(value, i32)
    pooled = form_in_blocks(op, [wide.results[0]], lanes)
    assert pooled is not None, "pooling has a form on blocks"
    pooled = _without_pads(pooled)
    body += [wide, pooled]
    back = LayoutTransformOp(pooled, src=blocks, dst=plain, shape=op.shape)
    steps = prod(window.kernel) * prod(shape_of(pooled.results[0]))
    registers = prod(window.span) + OTHER_REGISTERS
    return Offload(before, body, [back], 0, _LARGEST, steps, registers)


def _without_pads(op: GraphOp) -> GraphOp:
    """Return the same pooling on data in registers that includes its pads."""
    properties = {name: value for name, value in op.properties.items() if name != "pads"}
    return type(op).create(
        operands=op.operands,
        properties=properties,
        result_types=[tensor(shape_of(op.results[0]), i32)],
    )
