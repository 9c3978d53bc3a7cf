"""Types of buffers, and offsets spanned by accesses."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from tcopt.dialects.size import extents_of


def parse_buffer_type(parser: Parser) -> MemRefType:
    """Parse the type of a buffer."""
    start = parser.pos
    type_ = parser.parse_type()
    if not isa(type_, MemRefType):
        parser.raise_error("expected the buffer's type", start, parser.pos)
    return type_


def reach_of(steps: Sequence[int], extents: Sequence[int]) -> tuple[int, int]:
    """Return the minimum and maximum offset of a tile or vector from its first element along a
    dimension of a buffer.

    Args:
        steps: the step along each dimension of the tile, whose extents are `extents`.
    """
    ends = [step * (extent - 1) for step, extent in zip(steps, extents, strict=True)]
    return sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends)


def verify_buffer_type(type: Attribute) -> None:
    """Check that a type is a buffer whose shape is static, or has bounds of sizes.

    Raises:
        VerifyException: it is not.
    """
    if not isa(type, MemRefType):
        raise VerifyException(f"{type} is not a buffer with a shape")
    if any(extent < 0 for extent in type.get_shape()):
        raise VerifyException(f"{type} has a dynamic dimension")
    extents_of(type)
