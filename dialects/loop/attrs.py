"""Attributes of the loop dialect: loop kinds, thread axes, iteration kinds."""

from __future__ import annotations

from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import SpacedOpaqueSyntaxAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.str_enum import StrEnum


class LoopKind(StrEnum):
    """How the iterations of a loop are executed."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    VECTORIZED = "vectorized"
    UNROLLED = "unrolled"
    THREAD = "thread"
    VIRTUAL = "virtual"


@irdl_attr_definition
class LoopKindAttr(EnumAttribute[LoopKind], SpacedOpaqueSyntaxAttribute):
    """The kind of a `loop.for`."""

    name = "loop.kind"


class ThreadAxis(StrEnum):
    """A hardware axis that a loop of kind `thread` is bound to."""

    BLOCK_X = "blockIdx.x"
    BLOCK_Y = "blockIdx.y"
    BLOCK_Z = "blockIdx.z"
    THREAD_X = "threadIdx.x"
    THREAD_Y = "threadIdx.y"
    THREAD_Z = "threadIdx.z"


BLOCK_AXES = (ThreadAxis.BLOCK_X, ThreadAxis.BLOCK_Y, ThreadAxis.BLOCK_Z)
"""Axes of the blocks of a grid."""

THREAD_AXES = (ThreadAxis.THREAD_X, ThreadAxis.THREAD_Y, ThreadAxis.THREAD_Z)
"""Axes of the threads of a block."""


@irdl_attr_definition
class ThreadAxisAttr(EnumAttribute[ThreadAxis]):
    """The thread axis of a bound loop."""

    name = "loop.axis"

    def print_parameter(self, printer):  # pyright: ignore
        printer.print_string(f'<"{self.data.value}">')

    @classmethod
    def parse_parameter(cls, parser):  # pyright: ignore
        with parser.in_angle_brackets():
            return ThreadAxis(parser.parse_str_literal())


class IterKind(StrEnum):
    """The role of an iteration variable of a block."""

    SPATIAL = "spatial"
    REDUCE = "reduce"


@irdl_attr_definition
class IterKindAttr(EnumAttribute[IterKind], SpacedOpaqueSyntaxAttribute):
    """The kind of one iteration variable."""

    name = "loop.iter"
