"""Interface for operators on data in blocks of channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from xdsl.ir import Operation, SSAValue

if TYPE_CHECKING:
    from tcopt.dialects.graph.interfaces.graph_op import GraphOp


class BlockLayouts(Protocol):
    """Provider of operand layouts for an op that is converted to blocks of channels."""

    @property
    def lanes(self) -> int:
        """Maximum number of channels in a block: the lanes of a full vector."""
        ...

    @property
    def capabilities(self) -> frozenset[str]:
        """Capabilities of the target."""
        ...

    def block_of(self, channels: int) -> int:
        """Return the block size of a value with `channels` channels."""
        ...

    def is_blocked(self, value: SSAValue) -> bool:
        """Whether a value is computed in blocks, so that its plain layout costs a copy."""
        ...

    def blocked(self, value: SSAValue) -> SSAValue:
        """Convert a value [N, C, ...] to [N, C / block, ..., block]."""
        ...

    def plain(self, value: SSAValue) -> SSAValue:
        """Return a value in the layout without blocks."""
        ...

    def stays_plain(self, op: GraphOp, wasted: float) -> bool:
        """Whether an op should compute on plain data: its results are needed in plain layout, and
        the conversions would cost more than the `wasted` cycles that it loses on plain data."""
        ...

    def insert(self, op: Operation) -> SSAValue:
        """Insert an op before the one that is converted, and return its result."""
        ...


class LayoutInterface(Operation):
    """Interface used by `convert-layout`: the form of an op on channels in blocks, if it has
    one."""

    @property
    def makes_blocks(self) -> bool:
        """Whether the op contracts channels, so that it computes in blocks of them regardless of
        the layout of its operands."""
        return False

    def with_dims_kept(self) -> Sequence[GraphOp] | None:
        """Return equivalent ops that keep all dimensions, followed by one that drops dimensions of
        size 1; None if the op drops no dimensions after the channels."""
        return None

    def in_blocks(self, operands: Sequence[SSAValue], block: int) -> GraphOp | None:
        """Return the op on data whose channels are in blocks, or None if it has no such form.

        Args:
            operands: the operands. Those of the op's own rank are [N, C / block, ..., block],
                operands of lower rank broadcast against that.
            block: channels in a block.
        """
        return None

    def contracted_in_blocks(self, layouts: BlockLayouts) -> GraphOp | None:
        """Return an op that computes the result in blocks of `layouts.block_of` channels, not yet
        inserted. Requires `makes_blocks`; None if the op should compute on plain data."""
        return None

    def stays_plain(self, block: int) -> bool:
        """Whether the op is known to have no form in blocks of `block` channels."""
        return False
