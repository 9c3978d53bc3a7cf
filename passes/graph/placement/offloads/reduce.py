"""Reductions over images of bytes on an ALU, on blocks of channels in registers."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import IntegerType, i8, i32
from xdsl.ir import SSAValue

from tcopt.dialects.graph.core.attributes import ReduceKind
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import element_type, shape_of, tensor
from tcopt.dialects.graph.elementwise.cast import CastOp
from tcopt.dialects.graph.movement.layout import SPATIAL, LayoutTransformOp
from tcopt.dialects.graph.reduction.reduce import ReduceOp
from tcopt.passes.graph.placement.offload import OTHER_REGISTERS, Offload, on_alu_in_blocks

_LARGEST = 128
"""The largest magnitude of a byte."""


@on_alu_in_blocks.rule_for(ReduceOp)
def offload_reduce(op: ReduceOp, lanes: int) -> Offload | str | None:
    """Return the form of a sum or maximum over all pixels for an ALU, or why it has none.

    None if the op is another kind of reduction. Data becomes [N, C / lanes, space.., lanes], the
    result [N, C / lanes, 1.., lanes].
    """
    shape, axes = shape_of(op.x), op.reduced_axes
    rank = len(shape) - 2
    if axes != tuple(range(2, len(shape))) or not isinstance(element_type(op.x), IntegerType):
        return None
    if op.kind.data not in (ReduceKind.SUM, ReduceKind.MAX) or op.keepdims is None:
        return f"an alu does not compute reductions of kind {op.kind.data}, or of these axes"
    if rank not in SPATIAL or rank > 2 or 0 in shape:
        return f"it has {rank} spatial dimensions"
    plain, blocks = f"NC{SPATIAL[rank]}", f"NC{SPATIAL[rank]}{lanes}c"
    before: list[GraphOp] = []
    value: SSAValue = op.x
    if element_type(value) != i8:
        before.append(CastOp(value, i8))
        value = before[-1].results[0]
    before.append(LayoutTransformOp(value, src=plain, dst=blocks))
    wide = CastOp(before[-1], i32)
    result = (shape[0], -(-shape[1] // lanes), *[1] * rank, lanes)
    reduced = type(op).create(
        operands=[wide.results[0]],
        properties=dict(op.properties),
        result_types=[tensor(result, i32)],
    )
    back = LayoutTransformOp(reduced, src=blocks, dst=plain, shape=op.shape)
    count = prod(shape[2:])
    bound = _LARGEST * (count if op.kind.data is ReduceKind.SUM else 1)
    registers = count + OTHER_REGISTERS
    return Offload(before, [wide, reduced], [back], 0, bound, count * prod(result), registers)
