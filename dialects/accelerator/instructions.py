"""Instructions of an accelerator's program: intrinsic calls in loops, and synchronisation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import ArrayAttr, MemRefType, StringAttr
from xdsl.ir import Operation
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from tcopt.dialects.accelerator.operands import (
    Instruction,
    Place,
    parse_place,
    print_place,
    tile_bytes,
)
from tcopt.dialects.intrinsics import Intrinsic, Operand, intrinsic
from tcopt.dialects.target import AcceleratorFacts, target_around
from tcopt.dialects.target.accelerator import Barriers, Tokens
from tcopt.support.errors import UnsupportedError
from tcopt.support.ir.literals import INTEGERS, integers, number_list

Names = ArrayAttr[StringAttr]


def facts_of(op: Operation) -> AcceleratorFacts | None:
    """Return the accelerator that is the target of an op, if any."""
    target = target_around(op)
    return target if isinstance(target, AcceleratorFacts) else None


class StepOp(IRDLOperation, ABC):
    """One step of a program, which a unit executes.

    `pop(load)` waits for a token from the load unit before the step starts; `push(store)` sends a
    token to the store unit when it is done.
    """

    pops = opt_prop_def(Names)
    pushes = opt_prop_def(Names)

    @property
    @abstractmethod
    def unit(self) -> str | None:
        """The unit that executes it; None if unknown."""

    @property
    def waits_for(self) -> tuple[str, ...]:
        """The units whose tokens it waits for."""
        return _texts(self.pops)

    @property
    def sends_to(self) -> tuple[str, ...]:
        """The units that it sends a token to."""
        return _texts(self.pushes)

    def set_tokens(self, pops: Sequence[str] = (), pushes: Sequence[str] = ()) -> None:
        """Set the tokens that the step waits for and sends, replacing previous ones."""
        for name, units in (("pops", pops), ("pushes", pushes)):
            self.properties.pop(name, None)
            if units:
                self.properties[name] = ArrayAttr([StringAttr(each) for each in units])

    def verify_(self) -> None:
        facts = facts_of(self)
        if facts is None:
            return
        unit, order = self.unit, facts.order
        if unit is not None and unit not in facts.units:
            raise VerifyException(f"the accelerator has no unit '{unit}'")
        pairs = [(other, str(unit)) for other in self.waits_for]
        for pair in (*pairs, *((str(unit), other) for other in self.sends_to)):
            if not isinstance(order, Tokens) or pair not in order.queues:
                raise VerifyException(f"there are no tokens from {pair[0]} to {pair[1]}")
        self.verify_for(facts)

    def verify_for(self, facts: AcceleratorFacts) -> None:
        """Raise VerifyException if the accelerator lacks what the step needs."""
        return None

    def parse_tail(self, parser: Parser) -> None:
        """Parse tokens and attributes, with which every step ends."""
        paren = parser.Delimiter.PAREN
        found: list[list[str]] = []
        for verb in ("pop", "push"):
            found.append([])
            if parser.parse_optional_keyword(verb):
                found[-1] = parser.parse_comma_separated_list(paren, parser.parse_identifier)
        self.set_tokens(*found)
        self.attributes.update(parser.parse_optional_attr_dict())

    def print_tail(self, printer: Printer) -> None:
        """Print the syntax that `parse_tail` parses."""
        for verb, units in (("pop", self.waits_for), ("push", self.sends_to)):
            if units:
                printer.print_string(f" {verb}({', '.join(units)})")
        printer.print_op_attributes(self.attributes)


def _texts(names: Names | None) -> tuple[str, ...]:
    return () if names is None else tuple(name.data for name in names)


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


@irdl_op_definition
class BarrierOp(StepOp):
    """A barrier: no unit continues before all have finished everything before it."""

    name = "accelerator.barrier"

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self) -> None:
        super().__init__()

    @property
    def unit(self) -> str | None:
        return None

    def verify_for(self, facts: AcceleratorFacts) -> None:
        if not isinstance(facts.order, Barriers):
            raise VerifyException("the accelerator has no barriers")

    @classmethod
    def parse(cls, parser: Parser) -> BarrierOp:
        op = cls()
        op.parse_tail(parser)
        return op

    def print(self, printer: Printer) -> None:
        self.print_tail(printer)


@irdl_op_definition
class RelayOp(StepOp):
    """Forwards tokens and does nothing else: `accelerator.relay matrix pop(load) push(store)`."""

    name = "accelerator.relay"

    by = prop_def(StringAttr)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, unit: str):
        super().__init__(properties={"by": StringAttr(unit)})

    @property
    def unit(self) -> str | None:
        return self.by.data

    @classmethod
    def parse(cls, parser: Parser) -> RelayOp:
        op = cls(parser.parse_identifier())
        op.parse_tail(parser)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.by.data}")
        self.print_tail(printer)


@irdl_op_definition
class FinishOp(StepOp):
    """The end of a program; the host continues when the last unit has finished it."""

    name = "accelerator.finish"

    traits = traits_def(IsTerminator(), MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self) -> None:
        super().__init__()

    @property
    def unit(self) -> str | None:
        facts = facts_of(self)
        return None if facts is None else facts.last_unit

    @classmethod
    def parse(cls, parser: Parser) -> FinishOp:
        op = cls()
        op.parse_tail(parser)
        return op

    def print(self, printer: Printer) -> None:
        self.print_tail(printer)
