"""Where an operator's result lies."""

from __future__ import annotations

from typing import ClassVar

from xdsl.ir import Operation


class MemoryInterface(Operation):
    """What plans of memory ask: whether a result is other data in place, and needs no kernel."""

    VIEW: ClassVar[bool] = False
    PACKS: ClassVar[bool] = False

    @property
    def is_view(self) -> bool:
        """Whether the result is the first operand's data under another shape."""
        return self.VIEW

    @property
    def is_part(self) -> bool:
        """Whether the op takes a part of its operand, which can be read in place."""
        return False

    @property
    def is_joined(self) -> bool:
        """Whether the result is the operands' data, one after the other from aligned places.

        The operands' producers can write them there, and nothing is computed.
        """
        return False

    @property
    def subview_offset(self) -> int | None:
        """The byte of the first operand's data from which the result's lies there, in one piece.

        Outside of groups the op is then a view of its operand's buffer, and nothing is copied.
        None where the data is scattered, or does not start where buffers may.
        """
        return None

    @property
    def packs_weights(self) -> bool:
        """Whether the result replaces a constant operand at compile time, whatever its size."""
        return self.PACKS
