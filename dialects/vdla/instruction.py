"""Base of instructions: a unit, and tokens to and from its neighbours."""

from __future__ import annotations

from abc import ABC, abstractmethod

from xdsl.ir import SSAValue
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.accelerator import StepOp
from tcopt.dialects.target import AcceleratorFacts, VdlaTargetAttr
from tcopt.dialects.vdla.attrs import Unit


class InstructionOp(StepOp, ABC):
    """One instruction of VDLA. Load and store units exchange tokens with the compute unit only."""

    @property
    @abstractmethod
    def unit(self) -> Unit:
        """The unit that executes it."""

    def verify_(self) -> None:
        self.verify_fields()
        for other in (*self.waits_for, *self.sends_to):
            if other not in (self.unit.previous, self.unit.next):
                raise VerifyException(f"there are no tokens between {self.unit} and {other}")
        super().verify_()

    def verify_fields(self) -> None:
        """Raise VerifyException if a field is illegal on every machine."""
        return None

    def verify_for(self, facts: AcceleratorFacts) -> None:
        if not isinstance(facts, VdlaTargetAttr):
            raise VerifyException("the accelerator is not a VDLA")
        self.verify_on(facts)

    def verify_on(self, machine: VdlaTargetAttr) -> None:
        """Raise VerifyException if the machine lacks an address or operation that it uses."""
        return None


def parse_known_operand(parser: Parser) -> SSAValue:
    """Parse an operand that is already defined, whose type is therefore known."""
    operand = parser.parse_unresolved_operand()
    values = parser.ssa_values.get(operand.operand_name)
    if values is None or operand.index >= len(values):
        parser.raise_error(
            f"%{operand.operand_name} is not known here", operand.span.start, operand.span.end
        )
    return values[operand.index]
