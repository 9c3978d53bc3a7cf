"""accelerator.run: intrinsic calls in the loops of an instruction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ArrayAttr, MemRefType, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, prop_def, traits_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from tcopt.dialects.accelerator.operands import (
    Instruction,
    Place,
    parse_place,
    print_place,
    tile_bytes,
)
from tcopt.dialects.accelerator.steps import Effects, Names, StepOp
from tcopt.dialects.accelerator.tasks import Access, compact
from tcopt.dialects.intrinsics import Intrinsic, Operand, intrinsic
from tcopt.dialects.target import AcceleratorFacts
from tcopt.dialects.target.accelerator import Issue
from tcopt.support.errors import UnsupportedError
from tcopt.support.ir.literals import INTEGERS, integers, number_list

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Loops:
    """The loops of an instruction.

    Attributes:
        extents: trip counts, outermost first.
        inside: for each loop, the first and the end of the iterations in which inputs are in
            bounds; in the others they are zero.
    """

    extents: tuple[int, ...]
    inside: tuple[tuple[int, int], ...]

    @property
    def are_inside(self) -> bool:
        """Whether inputs are in bounds in all iterations."""
        return all(each == (0, n) for each, n in zip(self.inside, self.extents, strict=True))


@irdl_op_definition
class RunOp(StepOp):
    """One instruction: calls of an intrinsic, in the loops that the hardware supports.

        accelerator.run "tile_load_1x8" [3, 8] out tile_data[4 by 8, 1] in %x[64 by 64, 8]
          inside [0 to 3, 1 to 8] push(matrix)

    Each operand is an address and a step for each loop: either in a memory of the accelerator,
    named by its memory scope and addressed in entries, or in an external buffer, addressed in
    elements. Tiles are contiguous. Iterations that are not `inside` read zeros instead of the
    buffer.
    """

    name = "accelerator.run"

    intrin = prop_def(StringAttr)
    buffers = var_operand_def(MemRefType)
    memories = prop_def(Names)
    """The memory scope of each operand, the output first; empty for an external buffer."""
    loops = prop_def(INTEGERS)
    firsts = prop_def(INTEGERS)
    steps = prop_def(INTEGERS)
    """The step of each operand in each loop."""
    insides = prop_def(INTEGERS)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, intrin: str, loops: Loops, places: Sequence[Place]):
        """`places` are the addresses of the operands, the output first."""
        super().__init__(
            operands=[[place.buffer for place in places if place.buffer is not None]],
            properties={
                "intrin": StringAttr(intrin),
                "memories": ArrayAttr([StringAttr(place.memory) for place in places]),
                "loops": number_list(*loops.extents),
                "firsts": number_list(*(place.first for place in places)),
                "steps": number_list(*(n for place in places for n in place.steps)),
                "insides": number_list(*(n for pair in loops.inside for n in pair)),
            },
        )

    @property
    def declared(self) -> Intrinsic:
        """The intrinsic; raises UnsupportedError if it is not registered."""
        return intrinsic(self.intrin.data)

    @property
    def unit(self) -> str | None:
        found = self.declared.instruction
        return found.unit if isinstance(found, Instruction) else None

    @property
    def nest(self) -> Loops:
        """The loops of the instruction."""
        numbers = integers(self.insides)
        return Loops(integers(self.loops), tuple(zip(numbers[::2], numbers[1::2], strict=True)))

    @property
    def places(self) -> tuple[Place, ...]:
        """The addresses of its operands, the output first."""
        rest = iter(self.buffers)
        count, steps = len(self.loops), integers(self.steps)
        return tuple(
            Place(
                name.data,
                None if name.data else next(rest),
                first,
                steps[n * count : (n + 1) * count],
            )
            for n, (name, first) in enumerate(
                zip(self.memories, integers(self.firsts), strict=True)
            )
        )

    def verify_(self) -> None:
        try:
            declared = self.declared
        except UnsupportedError as error:
            raise VerifyException(f"{error.message}; {error.hint}") from None
        found = declared.instruction
        if not isinstance(found, Instruction):
            raise VerifyException(f'"{declared.name}" is not an instruction of an accelerator')
        self._verify_loops(found)
        outside = sum(not name.data for name in self.memories)
        if len(self.memories) != len(declared.operands) or outside != len(self.buffers):
            raise VerifyException(f'"{declared.name}" has {len(declared.operands)} operands')
        for place, operand in zip(self.places, declared.operands, strict=True):
            self._verify_place(place, operand, declared)
        super().verify_()

    def _verify_loops(self, found: Instruction) -> None:
        extents = integers(self.loops)
        if len(extents) > len(found.loops):
            raise VerifyException(f"it has at most {len(found.loops)} loops")
        most = found.loops[len(found.loops) - len(extents) :]
        for extent, limit, (low, high) in zip(extents, most, self.nest.inside, strict=True):
            if not 1 <= extent <= limit:
                raise VerifyException(f"a loop runs {extent} times, outside of 1 to {limit}")
            if not 0 <= low <= high <= extent:
                raise VerifyException(f"inside {low} to {high} exceeds a loop of extent {extent}")

    def _verify_place(self, place: Place, operand: Operand, declared: Intrinsic) -> None:
        wanted = declared.scopes.get(operand.name, "")
        if place.memory != wanted:
            raise VerifyException(
                f"operand '{operand.name}' must be in {wanted or 'memory'}, not in "
                f"{place.memory or 'memory'}"
            )
        if place.buffer is None:
            return
        type_ = place.buffer.type
        assert isa(type_, MemRefType)
        if type_.element_type != operand.element:
            raise VerifyException(
                f"operand '{operand.name}' holds {operand.element}, not {type_.element_type}"
            )
        loops = self.nest
        ranges = [
            (low, high - 1) if operand.is_padded else (0, extent - 1)
            for (low, high), extent in zip(loops.inside, loops.extents, strict=True)
        ]
        if any(low > high for low, high in ranges):
            return
        _verify_range(place, ranges, prod(operand.shape), type_.element_count(), "elements")

    def verify_for(self, facts: AcceleratorFacts) -> None:
        declared = self.declared
        if not declared.is_on(facts.capabilities):
            raise VerifyException(f'the accelerator has no "{declared.name}"')
        ranges = [(0, extent - 1) for extent in integers(self.loops)]
        for place, operand in zip(self.places, declared.operands, strict=True):
            if place.buffer is not None:
                continue
            memory = facts.memories.get(place.memory)
            if memory is None:
                raise VerifyException(f"the accelerator has no memory '{place.memory}'")
            size, rest = divmod(tile_bytes(operand), memory.entry_bytes)
            if rest:
                raise VerifyException(
                    f"operand '{operand.name}' does not fill whole entries of "
                    f"{memory.entry_bytes} bytes"
                )
            _verify_range(place, ranges, size, memory.entries, f"entries of {place.memory}")

    @property
    def stored(self) -> SSAValue | None:
        return self.places[0].buffer

    def products(self, facts: AcceleratorFacts) -> int:
        matrix = facts.matrix_unit
        if matrix is None or matrix.instructions is None:
            return 0
        return prod(self.nest.extents) if self.intrin.data == matrix.instructions.multiply else 0

    def effects(self, facts: AcceleratorFacts, spaces: Mapping[SSAValue, str]) -> Effects:
        declared, loops = self.declared, self.nest
        reads: list[Access] = []
        writes: list[Access] = []
        moved = np.empty(0, np.int64)
        operands = zip(declared.operands, self.places, strict=True)
        for number, (operand, place) in enumerate(operands):
            ranges = [(0, extent) for extent in loops.extents]
            if operand.is_padded:
                ranges = list(loops.inside)
            entries = _touched(place, operand, ranges, facts)
            if not len(entries):
                continue
            space = place.memory if place.buffer is None else spaces[place.buffer]
            access = Access(space, compact(entries))
            if number == 0:
                writes.append(access)
            if number or declared.changes:
                reads.append(access)
            if place.buffer is not None:
                moved = np.append(moved, _runs(entries) * _element_bytes(operand))
        row = -(-int(moved.sum()) // max(len(moved), 1))
        issue = Issue(declared.name, self.unit_on(facts), loops.extents, len(moved), row)
        return Effects(
            tuple(reads),
            tuple(writes),
            facts.issue_cycles(issue),
            len(moved),
            row,
            int(moved.sum()),
            self.stored is not None,
        )

    @classmethod
    def parse(cls, parser: Parser) -> RunOp:
        square = parser.Delimiter.SQUARE
        name = parser.parse_str_literal()
        extents = parser.parse_comma_separated_list(square, lambda: _integer(parser))
        parser.parse_keyword("out")
        places = [parse_place(parser, len(extents))]
        if parser.parse_optional_keyword("in"):
            places.append(parse_place(parser, len(extents)))
            while parser.parse_optional_punctuation(","):
                places.append(parse_place(parser, len(extents)))
        inside = [(0, extent) for extent in extents]
        if parser.parse_optional_keyword("inside"):
            inside = parser.parse_comma_separated_list(square, lambda: _pair(parser))
        op = cls(name, Loops(tuple(extents), tuple(inside)), places)
        op.parse_tail(parser)
        return op

    def print(self, printer: Printer) -> None:
        loops, (output, *inputs) = self.nest, self.places
        printer.print_string(f' "{self.intrin.data}" {list(loops.extents)} out ')
        print_place(printer, output)
        for number, place in enumerate(inputs):
            printer.print_string(", " if number else " in ")
            print_place(printer, place)
        if not loops.are_inside:
            told = ", ".join(f"{low} to {high}" for low, high in loops.inside)
            printer.print_string(f" inside [{told}]")
        self.print_tail(printer)


def _verify_range(
    place: Place, ranges: Sequence[tuple[int, int]], size: int, there: int, of: str
) -> None:
    moved = [
        sorted((step * low, step * high))
        for step, (low, high) in zip(place.steps, ranges, strict=True)
    ]
    least = place.first + sum(low for low, _ in moved)
    most = place.first + sum(high for _, high in moved)
    if least < 0 or most + size > there:
        raise VerifyException(f"{least} to {most + size - 1} of {there} {of}")


def _integer(parser: Parser) -> int:
    return parser.parse_integer(allow_boolean=False)


def _pair(parser: Parser) -> tuple[int, int]:
    low = _integer(parser)
    parser.parse_keyword("to")
    return low, _integer(parser)


def entries_of(place: Place, ranges: Sequence[tuple[int, int]]) -> Indices:
    """Return the first entry of the tile in each iteration, in order.

    Args:
        ranges: first and end of each loop's iterations; the whole extent unless some are skipped.
    """
    total = np.array([place.first], np.int64)
    for step, (low, high) in zip(place.steps, ranges, strict=True):
        total = (total[:, None] + np.arange(low, high, dtype=np.int64) * step).reshape(-1)
    return total


def _touched(
    place: Place, operand: Operand, ranges: Sequence[tuple[int, int]], facts: AcceleratorFacts
) -> Indices:
    """Return all entries, or elements of a buffer, that an operand covers, each once."""
    size = prod(operand.shape)
    if place.buffer is None:
        size = tile_bytes(operand) // facts.memories[place.memory].entry_bytes
    first = entries_of(place, ranges)
    return np.unique((first[:, None] + np.arange(size)).reshape(-1))


def _element_bytes(operand: Operand) -> int:
    return tile_bytes(operand) // prod(operand.shape)


def _runs(entries: Indices) -> Indices:
    """Return the lengths of contiguous runs."""
    ends = np.flatnonzero(np.diff(entries) != 1)
    return np.diff(np.concatenate(([-1], ends, [len(entries) - 1])))
