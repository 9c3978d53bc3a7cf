"""Whether a contraction had better compute on plain data, given that its operands are plain."""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.ir import SSAValue

from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.dialects.graph.types import bytes_of, type_of
from tcopt.passes.graph.layout.channel_blocks import block_of
from tcopt.support.remarks import remark

MOVED_BYTES = 16
"""Bytes a cycle that a change of layout reads and writes, as measured on data in the second and
third cache."""


def stays_plain(op: GraphOp, wasted: float, lanes: int) -> bool:
    """Whether changes of the layout cost more than plain data does.

    Args:
        wasted: cycles that the op loses on plain data.
        lanes: most channels in a block.
    """
    if not _ends_plain(op.results[0], lanes):
        return False
    moved = 2 * (bytes_of(type_of(op.operands[0])) + bytes_of(type_of(op.results[0])))
    changed = moved / MOVED_BYTES
    remark(
        "convert-layout",
        op,
        f"est. {wasted:.0f} cycles lost on plain images, {changed:.0f} for changes of the layout",
    )
    return wasted < changed


def _ends_plain(value: SSAValue, lanes: int) -> bool:
    """Whether a value goes to results alone, or to ops that have no form in blocks, through
    nothing but elementwise ops."""
    return all(
        isinstance(use.operation, func.ReturnOp)
        or (isinstance(use.operation, GraphOp) and _is_plain(use.operation, lanes))
        for use in value.uses
    )


def _is_plain(op: GraphOp, lanes: int) -> bool:
    if op.is_elementwise:
        return _ends_plain(op.results[0], lanes)
    return len(op.shape) > 1 and op.stays_plain(block_of(op.shape[1], lanes))
