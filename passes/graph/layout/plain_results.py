"""Decision whether a contraction with plain operands should compute on plain data."""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.ir import SSAValue

from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import bytes_of, type_of
from tcopt.passes.graph.layout.blocked_forms import is_plain_in_blocks_of
from tcopt.passes.graph.layout.channel_blocks import block_of
from tcopt.support.machines.machine import VectorUnits, kernel_cycles
from tcopt.support.remarks import remark


def stays_plain(op: GraphOp, wasted: float, lanes: int, units: VectorUnits) -> bool:
    """Whether the layout transforms of an op would cost more than computing on plain data.

    Args:
        wasted: estimated vector multiplications that the op loses on plain data.
        lanes: maximum number of channels in a block.
        units: cores that compute it.
    """
    if not _ends_plain(op.results[0], lanes):
        return False
    # Reads overlap with writes. Measured on data in L2 and L3.
    moved = bytes_of(type_of(op.operands[0])) + bytes_of(type_of(op.results[0]))
    lost, changed = units.cycles(products=wasted), kernel_cycles(units, 0, moved)
    remark(
        "convert-layout",
        op,
        f"est. {lost:.0f} cycles lost on plain data, {changed:.0f} for layout transforms",
    )
    return lost < changed


def _ends_plain(value: SSAValue, lanes: int) -> bool:
    """Whether a value is used only by results and by ops without a blocked form, possibly through
    elementwise ops."""
    return all(
        isinstance(use.operation, func.ReturnOp)
        or (isinstance(use.operation, GraphOp) and _is_plain(use.operation, lanes))
        for use in value.uses
    )


def _is_plain(op: GraphOp, lanes: int) -> bool:
    if op.is_elementwise:
        return _ends_plain(op.results[0], lanes)
    return len(op.shape) > 1 and is_plain_in_blocks_of(op, block_of(op.shape[1], lanes))
