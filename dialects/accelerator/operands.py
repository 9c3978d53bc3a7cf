"""Operands of instructions: addresses in memories and buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import FixedBitwidthType
from xdsl.ir import SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer

from tcopt.dialects.intrinsics import Operand


@dataclass(frozen=True)
class Instruction:
    """The instruction that executes calls of an intrinsic; see `Intrinsic.instruction`.

    Attributes:
        unit: the unit of the accelerator that executes it.
        loops: maximum trip counts of the loops that an instruction runs around a call, outermost
            first; empty for a single call.
    """

    unit: str
    loops: Sequence[int] = ()


@dataclass(frozen=True)
class Place:
    """The address of an operand.

    Attributes:
        memory: a memory scope; empty for an external buffer.
        first: the first entry of the memory, or element of the buffer.
        steps: the step in each loop.
    """

    memory: str
    buffer: SSAValue | None
    first: int
    steps: tuple[int, ...]


def tile_bytes(operand: Operand) -> int:
    """Return the size of an operand's tile in bytes."""
    element = operand.element
    assert isinstance(element, FixedBitwidthType)
    return prod(operand.shape) * element.bitwidth // 8


def parse_place(parser: Parser, count: int) -> Place:
    """Parse `%x[4 by 64, 8]` or `scope[4 by 8, 1]`, with a step for each of `count` loops."""
    buffer, memory = None, ""
    operand = parser.parse_optional_unresolved_operand()
    if operand is None:
        memory = parser.parse_identifier("buffer or memory scope")
    else:
        values = parser.ssa_values.get(operand.operand_name)
        if values is None or operand.index >= len(values):
            parser.raise_error(
                f"%{operand.operand_name} is not known here", operand.span.start, operand.span.end
            )
        buffer = values[operand.index]
    parser.parse_punctuation("[")
    first = parser.parse_integer(allow_boolean=False)
    steps: list[int] = []
    start = parser.pos
    if parser.parse_optional_keyword("by"):
        steps = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, lambda: parser.parse_integer(allow_boolean=False)
        )
    if len(steps) != count:
        parser.raise_error(f"expected a step for each of {count} loops", start, parser.pos)
    parser.parse_punctuation("]")
    return Place(memory, buffer, first, tuple(steps))


def print_place(printer: Printer, place: Place) -> None:
    """Print the syntax that `parse_place` parses."""
    if place.buffer is None:
        printer.print_string(place.memory)
    else:
        printer.print_ssa_value(place.buffer)
    steps = f" by {', '.join(map(str, place.steps))}" if place.steps else ""
    printer.print_string(f"[{place.first}{steps}]")
