"""Memory scopes: where a buffer lives, and who sees it.

A target with memory of its own registers a scope for it:

    TILE = register_scope(Scope("tile", Sharing.BLOCK, space=7, capacity=64 << 10))

Steps of schedules take it by its name, `loop.alloc tile` is read and printed, interpreters let
those share a buffer that the scope says, and what is lowered has the memory space on its type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, Data, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.str_enum import StrEnum

from tcopt.support.errors import InputError
from tcopt.support.registration import Registry
from tcopt.support.suggestions import suggest


class Sharing(StrEnum):
    """Who sees one buffer: what else runs at the same time has its own."""

    ALL = "all"
    BLOCK = "block"
    """The threads of a block."""

    THREAD = "thread"


@dataclass(frozen=True)
class Scope:
    """A kind of memory.

    Attributes:
        value: its name, as in text.
        sharing: who sees a buffer of it.
        in_registers: whether buffers become values where indices allow it, in whole vectors.
        space: the memory space of buffers at the kernel level, which emitters see; None for
            memory like any other. That of memory which a block shares is there where blocks are.
        capacity: the most bytes of buffers that are alive at a time; None for no limit.
        is_placed: whether programs say where buffers of it lie, as in the memories of an
            accelerator (`place-sram`); how large it is says the target (`TargetFacts.memories`).
    """

    value: str
    sharing: Sharing
    in_registers: bool = False
    space: int | None = None
    capacity: int | None = None
    is_placed: bool = False

    GLOBAL: ClassVar[Scope]
    SHARED: ClassVar[Scope]
    LOCAL: ClassVar[Scope]
    REGISTER: ClassVar[Scope]
    ACC_INPUT: ClassVar[Scope]
    ACC_WEIGHT: ClassVar[Scope]
    ACC_REGISTER: ClassVar[Scope]

    @property
    def is_shared(self) -> bool:
        """Whether the threads of a block see one buffer, and other blocks another."""
        return self.sharing is Sharing.BLOCK

    @property
    def is_private(self) -> bool:
        """Whether each thread has a buffer of its own."""
        return self.sharing is Sharing.THREAD

    def __str__(self) -> str:
        return self.value


Scope.GLOBAL = Scope("global", Sharing.ALL)
Scope.SHARED = Scope("shared", Sharing.BLOCK, space=3)
Scope.LOCAL = Scope("local", Sharing.THREAD)
Scope.REGISTER = Scope("register", Sharing.THREAD, in_registers=True)
# Memories of an accelerator that multiplies matrices: both factors, and the sums.
Scope.ACC_INPUT = Scope("acc_input", Sharing.ALL, is_placed=True)
Scope.ACC_WEIGHT = Scope("acc_weight", Sharing.ALL, is_placed=True)
Scope.ACC_REGISTER = Scope("acc_register", Sharing.ALL, is_placed=True)

SCOPES: Registry[str, Scope] = Registry("memory scope")
"""Memory scopes by name."""


def register_scope(scope: Scope) -> Scope:
    """Make a memory scope known by its name.

    Raises:
        InputError: the name or the memory space is taken, or the name is not an identifier.
    """
    if not scope.value.isidentifier():
        raise InputError(f"a memory scope cannot be called '{scope.value}'")
    same = [s for s in SCOPES.values() if s.space is not None and s.space == scope.space]
    if any(each.value != scope.value for each in same):
        raise InputError(f"memory space {scope.space} is that of the scope '{same[0].value}'")
    SCOPES.add(scope.value, scope)
    return scope


for _scope in (
    Scope.GLOBAL,
    Scope.SHARED,
    Scope.LOCAL,
    Scope.REGISTER,
    Scope.ACC_INPUT,
    Scope.ACC_WEIGHT,
    Scope.ACC_REGISTER,
):
    register_scope(_scope)


def scope_named(name: str) -> Scope:
    """The memory scope of a name.

    Raises:
        InputError: there is none.
    """
    found = SCOPES.get(name)
    if found is None:
        known = ", ".join(SCOPES)
        hint = suggest(name, SCOPES) or "a plugin may register more, see docs/plugins.md"
        raise InputError(f"'{name}' is not one of the memory scopes {known}", hint=hint)
    return found


def is_shared_space(space: Attribute) -> bool:
    """Whether the threads of a block share buffers of a memory space."""
    if not isinstance(space, IntegerAttr):
        return False
    return any(s.is_shared for s in SCOPES.values() if s.space == space.value.data)


@irdl_attr_definition
class ScopeAttr(Data[Scope], SpacedOpaqueSyntaxAttribute):
    """The memory scope of a `loop.alloc`."""

    name = "loop.scope"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Scope:
        return parse_scope(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(self.data.value)


def parse_scope(parser: AttrParser) -> Scope:
    """The memory scope that comes next in the text."""
    start = parser.pos
    name = parser.parse_identifier("memory scope")
    try:
        return scope_named(name)
    except InputError as error:
        parser.raise_error(error.message, start, parser.pos)
