"""Memory scopes: the kind of memory that holds a buffer, and the threads that share it.

A target with its own kind of memory registers a scope for it:

    TILE = register_scope(Scope("tile", Sharing.BLOCK, space=7, capacity=64 << 10))

Schedule primitives take a scope by name, `loop.alloc tile` parses and prints it, interpreters
share buffers according to it, and lowered buffer types carry its memory space.
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
from tcopt.support.registries.registration import Registry
from tcopt.support.suggestions import suggest


class Sharing(StrEnum):
    """The threads that share one buffer; others have their own copy."""

    ALL = "all"
    BLOCK = "block"
    """One buffer per thread block."""

    THREAD = "thread"


@dataclass(frozen=True)
class Scope:
    """A kind of memory.

    Attributes:
        value: its name in the IR.
        sharing: the threads that share one buffer.
        in_registers: whether buffers become SSA values, in whole vectors, if their indices allow
            it.
        space: the memory space of buffers at the kernel level, which emitters use; None for
            default memory. The space of block-shared memory applies only where code runs in thread
            blocks.
        capacity: the maximum total size of live buffers in bytes; None for no limit.
        is_placed: whether programs choose the addresses of buffers, as in the memories of an
            accelerator (`place-sram`), whose sizes the target defines (`TargetFacts.memories`).
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
        """Whether the threads of a block share one buffer, and each block has its own."""
        return self.sharing is Sharing.BLOCK

    @property
    def is_private(self) -> bool:
        """Whether each thread has its own buffer."""
        return self.sharing is Sharing.THREAD

    def __str__(self) -> str:
        return self.value


Scope.GLOBAL = Scope("global", Sharing.ALL)
Scope.SHARED = Scope("shared", Sharing.BLOCK, space=3)
Scope.LOCAL = Scope("local", Sharing.THREAD)
Scope.REGISTER = Scope("register", Sharing.THREAD, in_registers=True)
# Memories of an accelerator for matrix products: both factors, and the accumulators.
Scope.ACC_INPUT = Scope("acc_input", Sharing.ALL, is_placed=True)
Scope.ACC_WEIGHT = Scope("acc_weight", Sharing.ALL, is_placed=True)
Scope.ACC_REGISTER = Scope("acc_register", Sharing.ALL, is_placed=True)

_OWN = (
    Scope.GLOBAL,
    Scope.SHARED,
    Scope.LOCAL,
    Scope.REGISTER,
    Scope.ACC_INPUT,
    Scope.ACC_WEIGHT,
    Scope.ACC_REGISTER,
)

SCOPES: Registry[str, Scope] = Registry(
    "memory scope", lambda: {scope.value: scope for scope in _OWN}
)
"""Memory scopes by name."""


def register_scope(scope: Scope) -> Scope:
    """Register a memory scope under its name.

    Raises:
        InputError: the name or the memory space is taken, or the name is not an identifier.
    """
    if not scope.value.isidentifier():
        raise InputError(f"a memory scope cannot be called '{scope.value}'")
    same = [s for s in SCOPES.values() if s.space is not None and s.space == scope.space]
    if any(each.value != scope.value for each in same):
        raise InputError(f"memory space {scope.space} belongs to the scope '{same[0].value}'")
    SCOPES.add(scope.value, scope)
    return scope


def scope_named(name: str) -> Scope:
    """Return the memory scope of this name.

    Raises:
        InputError: there is no such scope.
    """
    found = SCOPES.get(name)
    if found is None:
        known = ", ".join(SCOPES)
        hint = suggest(name, SCOPES) or "a plugin may register more, see docs/plugins.md"
        raise InputError(f"'{name}' is not one of the memory scopes {known}", hint=hint)
    return found


def is_shared_space(space: Attribute) -> bool:
    """Whether buffers of a memory space are shared by the threads of a block."""
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
    """Parse a memory scope."""
    start = parser.pos
    name = parser.parse_identifier("memory scope")
    try:
        return scope_named(name)
    except InputError as error:
        parser.raise_error(error.message, start, parser.pos)
