"""Remarks on the groups of `fuse-ops`, and on why each group ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Operation

from tcopt.dialects.graph.core.attributes import FusionKind
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.support.remarks import remark


def remark_groups(groups: Sequence[Sequence[Operation]], by: str) -> None:
    """Report the ops of each group, and why the users of its result are not fused.

    Args:
        groups: the ops of each group in order, before they are moved into it.
        by: name of the pass.
    """
    group_of = {op: number for number, group in enumerate(groups) for op in group}
    for group in groups:
        last = group[-1]
        if len(group) > 1:
            remark(by, last, f"fused {', '.join(op.name for op in group)}")
        readers = [use.operation for result in last.results for use in result.uses]
        readers = [op for op in readers if isinstance(op, GraphOp)]
        if readers:
            reason = _reason(group, readers, group_of)
            remark(by, last, f"not fused with {_names(readers)}: {reason}", missed=True)


def _reason(
    group: Sequence[Operation], readers: Sequence[GraphOp], group_of: Mapping[Operation, int]
) -> str:
    kernels = {group_of.get(op) for op in readers}
    if len(kernels) > 1:
        return f"{len(kernels)} kernels read the result, and nothing is computed twice"
    reader = readers[0]
    if reader.is_view or (reader not in group_of and reader.subview_offset is not None):
        return "there is a view in between"
    if reader.fusion_kind is FusionKind.OPAQUE:
        return "it is opaque"
    if reader.is_joined:
        return "its operands are written in place"
    kinds = {op.fusion_kind for op in group if isinstance(op, GraphOp)}
    if FusionKind.COMPLEX_OUT_FUSABLE in kinds and not reader.is_elementwise:
        return "it is not elementwise"
    if reader.is_elementwise and reader.results[0].type != group[-1].results[0].type:
        return "it has another shape or type"
    if reader.fusion_kind is FusionKind.COMPLEX_OUT_FUSABLE:
        return "convolutions and matrix products read their operands from memory"
    inside = " and ".join(sorted(kind.value.replace("_", "-") for kind in kinds))
    return f"a group of {inside} operators cannot include a {reader.fusion_kind.value} one"


def _names(readers: Sequence[GraphOp]) -> str:
    return ", ".join(dict.fromkeys(op.name for op in readers))
