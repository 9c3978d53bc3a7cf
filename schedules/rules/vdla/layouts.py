"""How operands of an accelerator's instructions lie in memory."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.hints import isa

from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.schedules.analysis.patterns import StridedAccess


@dataclass(frozen=True)
class Layout:
    """How pieces of an operand lie in memory.

    Attributes:
        shape: of the buffer.
        steps: for each variable, how far it moves each dimension of what is transferred.
        strides: only every so many-th index of a dimension is transferred.
        pads: how many zeros are written below and above each dimension.
    """

    shape: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]
    strides: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]

    @classmethod
    def plain(cls, access: StridedAccess) -> Layout:
        """That of an operand that is transferred as it lies."""
        shape = buffer_shape(access.buffer)
        steps = tuple(each or (0,) * len(shape) for each in access.steps)
        return cls(shape, steps, (1,) * len(shape), ((0, 0),) * len(shape))


def element_of(buffer: SSAValue) -> Attribute:
    """The element type of a buffer."""
    assert isa(buffer.type, MemRefType)
    return buffer.type.get_element_type()
