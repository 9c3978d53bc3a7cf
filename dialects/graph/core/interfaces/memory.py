"""Interface for the placement of results in memory."""

from __future__ import annotations

from typing import ClassVar

from xdsl.ir import Operation


class MemoryInterface(Operation):
    """Interface used by memory planning: whether a result shares memory with other values and needs
    no kernel."""

    VIEW: ClassVar[bool] = False
    PACKS: ClassVar[bool] = False

    @property
    def is_view(self) -> bool:
        """Whether the result is the first operand's data with another shape."""
        return self.VIEW

    @property
    def is_part(self) -> bool:
        """Whether the result is a part of the operand that can be read in place."""
        return False

    @property
    def is_joined(self) -> bool:
        """Whether the result is a concatenation of the operands' data, each at an aligned offset.

        The operands' producers can write into the result directly, so nothing is computed.
        """
        return False

    @property
    def subview_offset(self) -> int | None:
        """Byte offset of the result in the first operand's data, where it is contiguous.

        Outside of groups the op is then a view of its operand's buffer, and nothing is copied. None
        if the data is not contiguous or its offset is not aligned.
        """
        return None

    @property
    def packs_weights(self) -> bool:
        """Whether the result replaces a constant operand at compile time, regardless of its
        size."""
        return self.PACKS
