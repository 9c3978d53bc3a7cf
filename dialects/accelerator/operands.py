"""Operands of instructions: places in memories and buffers."""

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
    """What executes calls of an intrinsic, as `Intrinsic.instruction` says it.

    Attributes:
        unit: of the accelerator.
        loops: how often each loop that an instruction has around a call may run, the outermost
            first; no loops for one call.
    """

    unit: str
    loops: Sequence[int] = ()


@dataclass(frozen=True)
class Place:
    """Where an operand is.

    Attributes:
        memory: a memory scope; empty for a buffer outside of the accelerator.
        first: the first entry of the memory, or element of the buffer.
        steps: how far it moves in a step of each loop.
    """

    memory: str
    buffer: SSAValue | None
    first: int
    steps: tuple[int, ...]


def tile_bytes(operand: Operand) -> int:
    """Bytes of an operand's tile."""
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
    """Print what `parse_place` reads."""
    if place.buffer is None:
        printer.print_string(place.memory)
    else:
        printer.print_ssa_value(place.buffer)
    steps = f" by {', '.join(map(str, place.steps))}" if place.steps else ""
    printer.print_string(f"[{place.first}{steps}]")
