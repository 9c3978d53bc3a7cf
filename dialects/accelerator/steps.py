"""Steps of an accelerator's program: the units that execute them, and their synchronisation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, prop_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.accelerator.tasks import Access
from tcopt.dialects.target import AcceleratorFacts, target_around
from tcopt.dialects.target.accelerator import Barriers, Tokens

Names = ArrayAttr[StringAttr]


def facts_of(op: Operation) -> AcceleratorFacts | None:
    """Return the accelerator that is the target of an op, if any."""
    target = target_around(op)
    return target if isinstance(target, AcceleratorFacts) else None


@dataclass(frozen=True)
class Effects:
    """The accesses of a step, and the time that it takes.

    Attributes:
        reads, writes: entries of memories, and of buffers in the granularity of the accelerator
            (`AcceleratorFacts.granule`).
        cycles: for which it occupies its unit, excluding transfers.
        rows, row_bytes: contiguous pieces of external memory that it transfers, and bytes of each.
        bytes: bytes that it transfers in total.
        stores: whether it transfers to external memory.
    """

    reads: tuple[Access, ...] = ()
    writes: tuple[Access, ...] = ()
    cycles: int = 0
    rows: int = 0
    row_bytes: int = 0
    bytes: int = 0
    stores: bool = False


class TableOp(IRDLOperation, ABC):
    """Constant data of a program, which its steps refer to."""


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
        """The unit that executes it; None if the accelerator determines it."""

    def unit_on(self, facts: AcceleratorFacts) -> str:
        """Return the unit of an accelerator that executes it."""
        return self.unit or facts.last_unit

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
        unit, order = self.unit_on(facts), facts.order
        if unit not in facts.units:
            raise VerifyException(f"the accelerator has no unit '{unit}'")
        pairs = [(other, unit) for other in self.waits_for]
        for pair in (*pairs, *((unit, other) for other in self.sends_to)):
            if not isinstance(order, Tokens) or pair not in order.queues:
                raise VerifyException(f"there are no tokens from {pair[0]} to {pair[1]}")
        self.verify_for(facts)

    def verify_for(self, facts: AcceleratorFacts) -> None:
        """Raise VerifyException if the accelerator lacks what the step needs."""
        return None

    def effects(self, facts: AcceleratorFacts, spaces: Mapping[SSAValue, str]) -> Effects:
        """Return its accesses and its time on an accelerator, for which it is valid.

        Args:
            spaces: names of the buffers in `Access.space`.
        """
        return Effects()

    def follow(self, contents: dict[str, dict[int, Any]]) -> None:
        """Update the contents of memories that are known before a program runs.

        Args:
            contents: known contents by memory and entry.
        Raises:
            VerifyException: the step requires other contents.
        """
        return None

    def products(self, facts: AcceleratorFacts) -> int:
        """Return the number of steps of the accelerator's matrix unit that it takes."""
        return 0

    @property
    def stored(self) -> SSAValue | None:
        """The buffer that it writes, if any."""
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

    def effects(self, facts: AcceleratorFacts, spaces: Mapping[SSAValue, str]) -> Effects:
        size = facts.relay_bytes
        return Effects(rows=1, row_bytes=size, bytes=size) if size else Effects()

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
        return None

    def verify_(self) -> None:
        super().verify_()
        if self.sends_to:
            raise VerifyException("no instruction is left that could wait for a token")

    @classmethod
    def parse(cls, parser: Parser) -> FinishOp:
        op = cls()
        op.parse_tail(parser)
        return op

    def print(self, printer: Printer) -> None:
        self.print_tail(printer)
