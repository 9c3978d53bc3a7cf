"""Programs in the form that an accelerator is given: their storage in calls, and their execution.

An instruction set with an encoding of its own registers a subclass of `Code` in a `code.py` file of
`backends`; programs of other accelerators are stored as text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

from numpy.typing import NDArray

from tcopt.backends.accelerator.check import facts_for
from tcopt.backends.accelerator.simulator.orders import adversarial_order
from tcopt.dialects.accelerator import ProgramOp
from tcopt.dialects.accelerator.reading import read_program
from tcopt.dialects.target import AcceleratorFacts
from tcopt.support.registries.registration import Registry

FUNCTION = "accelerator_run"
"""The host function that runs a program, see `host_functions.py`."""

ACCELERATOR = "accelerator"
"""The setting that names the attribute of the accelerator's facts."""

Array = NDArray[Any]
Settings = Mapping[str, Any]


class Code(ABC):
    """A program for an accelerator, ready to run.

    Attributes:
        facts: the accelerator.
    """

    def __init__(self, facts: AcceleratorFacts):
        self.facts = facts

    @classmethod
    @abstractmethod
    def of_program(cls, program: ProgramOp, facts: AcceleratorFacts) -> Self:
        """Return the code of a program.

        Raises:
            VerificationError: the accelerator lacks what a step needs.
        """

    @classmethod
    @abstractmethod
    def of_settings(
        cls, settings: Settings, shapes: Sequence[tuple[int, ...]], bits: Sequence[int]
    ) -> Self:
        """Return the code that `settings` has stored.

        Args:
            shapes, bits: shapes of the buffers, and bit widths of their elements.
        Raises:
            InputError: there is none.
        """

    @property
    @abstractmethod
    def program(self) -> ProgramOp:
        """The program."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return numbers, strings, and lists of them, from which the code can be restored."""

    @abstractmethod
    def execute(self, buffers: Sequence[Array], order: Iterable[int] | None = None) -> None:
        """Execute the program on buffers, which it updates in place.

        Args:
            buffers: C-contiguous arrays with the shapes and types of the program's buffers.
            order: the order of its steps, by index; None for the order of the program.
        Raises:
            InputError: an array does not match its buffer.
            VerificationError: a step accesses an entry that does not exist, or reads one that has
                not been written.
        """

    def run(self, buffers: Sequence[Array], seed: int | None = None) -> None:
        """Execute the program in its own order, or in an order of units that tokens permit.

        Raises:
            VerificationError: as `execute`, or units wait for each other forever.
        """
        order = None
        if seed is not None:
            read = read_program(self.program, self.facts)
            order = adversarial_order(read.machine, read.tasks, seed)
        self.execute(buffers, order)


CODES: Registry[str, type[Code]] = Registry("instruction set")
"""Subclasses of `Code` by the name of the attribute of the accelerator's facts."""

ANY = ""
"""The name for accelerators without an encoding of their own."""


def code_of(facts: str) -> Callable[[type[Code]], type[Code]]:
    """Register the code of accelerators whose facts are an attribute of this name."""

    def register(code: type[Code]) -> type[Code]:
        CODES.add(facts, code)
        return code

    return register


def code_for(program: ProgramOp, facts: AcceleratorFacts | None = None) -> Code:
    """Return the code of a program for an accelerator, by default its target.

    Raises:
        UnsupportedError: no accelerator is given or named.
        VerificationError: the accelerator lacks what a step needs.
    """
    facts = facts or facts_for(program)
    return _class(facts.name).of_program(program, facts)


def settings_of(code: Code) -> dict[str, Any]:
    """Return code as settings of a call of the host function."""
    return {ACCELERATOR: code.facts.name, **code.settings()}


def code_in(
    settings: Settings, shapes: Sequence[tuple[int, ...]] = (), bits: Sequence[int] = ()
) -> Code:
    """Return the code in the settings of a call.

    Raises:
        InputError: there is none.
    """
    return _class(str(settings.get(ACCELERATOR, ""))).of_settings(settings, shapes, bits)


def _class(name: str) -> type[Code]:
    return CODES.get(name) or CODES[ANY]
