"""Types of buffers, and how far accesses reach."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa


def parse_buffer_type(parser: Parser) -> MemRefType:
    """Parse the type of a buffer."""
    start = parser.pos
    type_ = parser.parse_type()
    if not isa(type_, MemRefType):
        parser.raise_error("expected the buffer's type", start, parser.pos)
    return type_


def reach_of(steps: Sequence[int], extents: Sequence[int]) -> tuple[int, int]:
    """How far below and above its first element a tile or vector reaches along a dimension.

    Args:
        steps: how far the index moves along each of its dimensions, which have these extents.
    """
    ends = [step * (extent - 1) for step, extent in zip(steps, extents, strict=True)]
    return sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends)


def verify_buffer_type(type: Attribute) -> None:
    """Check that a buffer's shape is known, and that its rows follow one another.

    Raises:
        VerifyException: they do not, or it is not a buffer.
    """
    if not isa(type, MemRefType):
        raise VerifyException(f"{type} is not a buffer with a shape")
    if any(extent < 0 for extent in type.get_shape()):
        raise VerifyException(f"{type} has a dimension that is not known")
