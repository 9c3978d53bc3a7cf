"""How an operator computes on data in blocks of channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from xdsl.ir import Operation, SSAValue

if TYPE_CHECKING:
    from tcopt.dialects.graph.interfaces.graph_op import GraphOp


class BlockLayouts(Protocol):
    """The values that an op computes with when it is put in blocks of channels."""

    @property
    def lanes(self) -> int:
        """Most channels in a block: those of a full vector."""
        ...

    @property
    def capabilities(self) -> frozenset[str]:
        """Those of the target."""
        ...

    def block_of(self, channels: int) -> int:
        """Channels in a block of a value that has so many."""
        ...

    def is_blocked(self, value: SSAValue) -> bool:
        """Whether a value is computed in blocks, so that its plain form costs a copy."""
        ...

    def blocked(self, value: SSAValue) -> SSAValue:
        """A value [N, C, ...] as [N, C / block, ..., block]."""
        ...

    def plain(self, value: SSAValue) -> SSAValue:
        """A value as it is without blocks."""
        ...

    def stays_plain(self, op: GraphOp, wasted: float) -> bool:
        """Whether an op had better compute on plain data: its results end up plain, and changes of
        the layout would cost more than the `wasted` cycles that plain data costs it."""
        ...

    def insert(self, op: Operation) -> SSAValue:
        """Put an op in front of the one that is converted; its result."""
        ...


class LayoutInterface(Operation):
    """What `convert-layout` asks: the form of an op whose channels are in blocks, if it has one."""

    @property
    def makes_blocks(self) -> bool:
        """Whether the op contracts channels, so that it computes in blocks of them whatever its
        operands' layout is."""
        return False

    def with_dims_kept(self) -> Sequence[GraphOp] | None:
        """The same by ops that keep all dimensions, and one that drops some of size 1 at the end;
        None where the op drops no dimensions behind the channels."""
        return None

    def in_blocks(self, operands: Sequence[SSAValue], block: int) -> GraphOp | None:
        """The same op on data whose channels are in blocks, or None if it has no such form.

        Args:
            operands: the operands; those of the op's own rank are [N, C / block, ..., block],
                lower ranks broadcast against that.
            block: channels in a block.
        """
        return None

    def contracted_in_blocks(self, layouts: BlockLayouts) -> GraphOp | None:
        """For an op that `makes_blocks`, an op, not yet inserted, that gives its result in blocks
        of `layouts.block_of` channels; None where it computes on plain data."""
        return None

    def stays_plain(self, block: int) -> bool:
        """Whether the op is known to have no form in blocks, of so many channels."""
        return False
