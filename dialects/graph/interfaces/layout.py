"""How an operator computes on data in blocks of channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue

if TYPE_CHECKING:
    from tcopt.dialects.graph.interfaces.graph_op import GraphOp


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

    def stays_plain(self, block: int) -> bool:
        """Whether the op is known to have no form in blocks, of so many channels."""
        return False
