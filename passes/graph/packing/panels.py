"""Forms of contractions whose weights are packed into panels of columns or groups of terms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial

from xdsl.ir import Operation, SSAValue

from tcopt.dialects.graph.contraction.matmul import MatmulOp
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import shape_of
from tcopt.dialects.graph.movement.layout import LayoutTransformOp
from tcopt.dialects.graph.movement.pad import PadOp
from tcopt.dialects.graph.movement.shape import ReshapeOp, TransposeOp
from tcopt.dialects.graph.packed.blocked_conv import BlockedConvOp
from tcopt.dialects.graph.packed.packed_matmul import PackedMatmulOp
from tcopt.support.registries.rule_table import OpFunction

_BATCH = "ABCDEFGH"
"""Letters of leading dimensions in layouts."""


class PanelForm(ABC):
    """Form of a matrix product whose weights are stored in panels of columns."""

    @property
    @abstractmethod
    def extents(self) -> tuple[int, int, int]:
        """Rows, columns and terms of one product."""

    @abstractmethod
    def packed(self, width: int) -> Sequence[Operation]:
        """Return ops for the same result, the last one producing it, with constant weights in
        panels of `width` columns, the last panel padded with zeros."""

    def packed_at_run_time(
        self, width: int, group: int, insert: Callable[[Operation], SSAValue]
    ) -> Operation | None:
        """Return an op for the same result on weights computed by the network, not yet inserted.

        The weights are packed at run time into panels of `width` columns with `group` consecutive
        terms together. None if the op has no such form.

        Args:
            insert: inserts an operand's producer before the op, unless an equal one exists.
        """
        return None


panel_form: OpFunction[[], PanelForm | None] = OpFunction(__name__, None)
"""The form of a contraction whose weight matrix is stored in panels; None if it has none."""

GroupedForm = Callable[[], Sequence[Operation]]
"""Builds ops for the same result, the last one producing it, with weights that store consecutive
terms of a sum together."""

grouped_form: OpFunction[[int], GroupedForm | None] = OpFunction(__name__, None)
"""The form of a contraction with a number of terms in groups, as dot-product instructions need;
None if it has no such form."""


@panel_form.rule_for(MatmulOp)
class MatmulPanels(PanelForm):
    """Panels of the right operand of a matrix product."""

    def __init__(self, op: MatmulOp):
        self.op = op

    @property
    def extents(self) -> tuple[int, int, int]:
        return self.op.extents

    def packed(self, width: int) -> Sequence[Operation]:
        op = self.op
        panels = LayoutTransformOp(op.rhs, src=self._source, dst=f"NK{width}n")
        product = PackedMatmulOp(
            op.lhs,
            panels,
            columns=op.shape[-1],
            transpose_a=op.transpose_a is not None,
            result_element=op.result_element,
        )
        return panels, product

    def packed_at_run_time(
        self, width: int, group: int, insert: Callable[[Operation], SSAValue]
    ) -> Operation | None:
        op, lead = self.op, len(shape_of(self.op.rhs)) - 2
        if lead > len(_BATCH):
            return None
        lhs, rank = op.lhs, len(shape_of(op.lhs))
        if op.transpose_a is not None:
            lhs = insert(TransposeOp(lhs, [*range(rank - 2), rank - 1, rank - 2]))
        if missing := -self.extents[2] % group:
            # Zeros fill the last group.
            lhs = insert(PadOp(lhs, low=[0] * rank, high=[*[0] * (rank - 1), missing]))
        batch = _BATCH[:lead]
        goal = f"{batch}NK{width}n{group}k"
        return PackedMatmulOp(
            lhs,
            insert(LayoutTransformOp(op.rhs, src=batch + self._source, dst=goal)),
            columns=op.shape[-1],
            batch=lead,
            result_element=op.result_element,
        )

    @property
    def _source(self) -> str:
        return "NK" if self.op.transpose_b is not None else "KN"


@grouped_form.rule_for(PackedMatmulOp)
def _packed_matmul(op: PackedMatmulOp, group: int) -> GroupedForm | None:
    """Return the product with interleaved rows, for ungrouped panels of one matrix."""
    is_one = len(shape_of(op.panels)) == 3 and not op.batch_rank
    return partial(_interleaved_rows, op, group) if is_one else None


def _interleaved_rows(op: PackedMatmulOp, group: int) -> Sequence[Operation]:
    """Interleave the rows of panels; zeros pad the last group, and data accordingly."""
    ops: list[GraphOp] = []
    lhs, panels = op.lhs, op.panels
    if op.transpose_a is not None:
        *lead, row, column = range(len(shape_of(lhs)))
        ops.append(TransposeOp(lhs, [*lead, column, row]))
        lhs = ops[-1].results[0]
    count, depth, width = shape_of(panels)
    if missing := -depth % group:
        rank = len(shape_of(lhs))
        ops.append(PadOp(lhs, low=[0] * rank, high=[*[0] * (rank - 1), missing]))
        lhs = ops[-1].results[0]
        ops.append(PadOp(panels, low=[0, 0, 0], high=[0, missing, 0]))
        panels = ops[-1].results[0]
    split = ReshapeOp(panels, [count, (depth + missing) // group, group, width])
    side_by_side = TransposeOp(split, [0, 1, 3, 2])
    product = PackedMatmulOp(
        lhs,
        side_by_side,
        columns=op.columns.value.data,
        result_element=op.result_element,
    )
    return [*ops, split, side_by_side, product]


@grouped_form.rule_for(BlockedConvOp)
def _blocked_conv(op: BlockedConvOp, group: int) -> GroupedForm | None:
    """Return the convolution with grouped channels, for blocks that consist of whole groups."""
    if op.is_plain or op.is_depthwise or op.group > 1 or shape_of(op.w)[-2] % group:
        return None
    return partial(_adjacent_channels, op, group)


def _adjacent_channels(op: BlockedConvOp, group: int) -> Sequence[Operation]:
    """Return the convolution with groups of adjacent channels in weights."""
    shape = shape_of(op.w)
    *lead, inner, block = shape
    split = ReshapeOp(op.w, [*lead, inner // group, group, block])
    rank = len(shape) + 1
    side_by_side = TransposeOp(split, [*range(rank - 2), rank - 1, rank - 2])
    # A dot product computes all of its terms, so none is skipped.
    product = type(op).create(
        operands=[op.x, side_by_side.results[0]],
        result_types=[op.type],
        properties={k: v for k, v in op.properties.items() if k != "skips"},
    )
    return [split, side_by_side, product]
