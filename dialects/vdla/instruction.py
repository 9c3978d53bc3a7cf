"""Base of instructions: a unit, and tokens to and from its neighbours."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, opt_prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.target import VdlaTargetAttr, vdla_target_of
from tcopt.dialects.vdla.attrs import Unit

FLAGS = ("pop_prev", "pop_next", "push_prev", "push_next")
"""The token flags of an instruction, in the order of their bits."""


class InstructionOp(IRDLOperation, ABC):
    """One instruction of a stream.

    `pop(load)` waits for a token from the load unit before the instruction starts; `push(store)`
    sends a token to the store unit when it is done. Load and store have the compute unit as their
    only neighbour.
    """

    pop_prev = opt_prop_def(UnitAttr)
    pop_next = opt_prop_def(UnitAttr)
    push_prev = opt_prop_def(UnitAttr)
    push_next = opt_prop_def(UnitAttr)

    @property
    @abstractmethod
    def unit(self) -> Unit:
        """The unit that executes it."""

    @property
    def pops(self) -> tuple[Unit, ...]:
        """The units whose tokens it waits for."""
        return tuple(self._neighbours("pop"))

    @property
    def pushes(self) -> tuple[Unit, ...]:
        """The units that it sends a token to."""
        return tuple(self._neighbours("push"))

    def set_tokens(self, pops: tuple[Unit, ...] = (), pushes: tuple[Unit, ...] = ()) -> None:
        """Set the tokens that it waits for and sends, replacing previous ones.

        Raises:
            VerifyException: a unit is not a neighbour of its unit.
        """
        for flag in FLAGS:
            self.properties.pop(flag, None)
        for verb, units in (("pop", pops), ("push", pushes)):
            for unit in units:
                self.properties[flag_of(self.unit, verb, unit)] = UnitAttr()

    def _neighbours(self, verb: str) -> Iterator[Unit]:
        for side, unit in (("prev", self.unit.previous), ("next", self.unit.next)):
            if f"{verb}_{side}" in self.properties and unit is not None:
                yield unit

    def verify_(self) -> None:
        self.verify_fields()
        for side, unit in (("prev", self.unit.previous), ("next", self.unit.next)):
            if unit is None and any(f"{v}_{side}" in self.properties for v in ("pop", "push")):
                raise VerifyException(f"the {self.unit} unit has no tokens of its {side} side")
        if (target := vdla_target_of(self)) is not None:
            self.verify_for(target)

    def verify_fields(self) -> None:
        """Raise VerifyException if a field is illegal on every machine."""
        return None

    def verify_for(self, target: VdlaTargetAttr) -> None:
        """Raise VerifyException if the machine lacks an address or operation that it uses."""
        return None

    def parse_tail(self, parser: Parser) -> None:
        """Parse tokens and attributes, with which every instruction ends."""
        for verb in ("pop", "push"):
            if parser.parse_optional_keyword(verb):
                start = parser.pos
                units = parser.parse_comma_separated_list(
                    parser.Delimiter.PAREN, lambda: parser.parse_str_enum(Unit)
                )
                try:
                    for unit in units:
                        self.properties[flag_of(self.unit, verb, unit)] = UnitAttr()
                except VerifyException as error:
                    parser.raise_error(str(error), start, parser.pos)
        self.attributes.update(parser.parse_optional_attr_dict())

    def print_tail(self, printer: Printer) -> None:
        """Print the syntax that `parse_tail` parses."""
        for verb, units in (("pop", self.pops), ("push", self.pushes)):
            if units:
                printer.print_string(f" {verb}({', '.join(units)})")
        printer.print_op_attributes(self.attributes)


def flag_of(unit: Unit, verb: str, other: Unit) -> str:
    """Return the flag of an instruction of `unit` for a token of `other`.

    Raises:
        VerifyException: the units are not neighbours.
    """
    if other is unit.previous:
        return f"{verb}_prev"
    if other is unit.next:
        return f"{verb}_next"
    raise VerifyException(f"there are no tokens between {unit} and {other}")


def parse_known_operand(parser: Parser) -> SSAValue:
    """Parse an operand that is already defined, whose type is therefore known."""
    operand = parser.parse_unresolved_operand()
    values = parser.ssa_values.get(operand.operand_name)
    if values is None or operand.index >= len(values):
        parser.raise_error(
            f"%{operand.operand_name} is not known here", operand.span.start, operand.span.end
        )
    return values[operand.index]
