"""Memory layouts of the operands of accelerator instructions."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.hints import isa

from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.schedules.analysis.patterns import StridedAccess


@dataclass(frozen=True)
class VdlaLayout:
    """Layout of the pieces of an operand in memory.

    Attributes:
        shape: shape of the buffer.
        steps: for each variable, its stride in each dimension of the transferred elements.
        strides: for each dimension, the stride between transferred indices.
        pads: number of zeros written before and after each dimension.
    """

    shape: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]
    strides: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]

    @classmethod
    def plain(cls, access: StridedAccess) -> VdlaLayout:
        """Return the layout of an operand that is transferred without strides or padding."""
        shape = buffer_shape(access.buffer)
        steps = tuple(each or (0,) * len(shape) for each in access.steps)
        return cls(shape, steps, (1,) * len(shape), ((0, 0),) * len(shape))


def element_of(buffer: SSAValue) -> Attribute:
    """Return the element type of a buffer."""
    assert isa(buffer.type, MemRefType)
    return buffer.type.get_element_type()
