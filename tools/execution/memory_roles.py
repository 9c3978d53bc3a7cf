"""Roles of a function's buffers: read, written, or both, by its ops.

A module that was lowered under the check has roles from higher levels. A module parsed at the loop
or kernel level only has the memory effects of its ops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType, SymbolRefAttr
from xdsl.ir import Operation, SSAValue
from xdsl.traits import IsTerminator

from tcopt.dialects import loop
from tcopt.passes.kernel.cleanup.effects import effects_of


@dataclass(frozen=True)
class Role:
    """Whether a function reads and writes the buffer of an argument."""

    is_read: bool = False
    is_written: bool = False

    def __or__(self, other: Role) -> Role:
        return Role(self.is_read or other.is_read, self.is_written or other.is_written)


READ = Role(is_read=True)
WRITTEN = Role(is_written=True)
UPDATED = READ | WRITTEN


def memory_roles(function: Operation, functions: Mapping[str, Operation]) -> list[Role]:
    """Return the role of each argument of a function.

    Args:
        functions: possible callees, by name. Unknown callees read and write all their buffers.
    """
    return _Roles(functions, frozenset()).of(function)


class _Roles:
    def __init__(self, functions: Mapping[str, Operation], active: frozenset[Operation]):
        self.functions = functions
        self.active = active
        self.roles: list[Role] = []
        self.aliases: dict[SSAValue, set[int]] = {}

    def of(self, function: Operation) -> list[Role]:
        arguments = function.regions[0].blocks[0].args
        self.roles = [Role() for _ in arguments]
        self.aliases = {argument: {number} for number, argument in enumerate(arguments)}
        self.active |= {function}
        for op in function.walk():
            if any(value in self.aliases for value in op.operands):
                self.visit(op)
        return self.roles

    def visit(self, op: Operation) -> None:
        self.spread(op)
        match op:
            case memref.CopyOp():
                self.note(op.source, READ)
                self.note(op.destination, WRITTEN)
            case loop.BorderOp():
                self.note(op.buffer, WRITTEN)
            case loop.IntrinOp():
                for buffer in op.inputs:
                    self.note(buffer, READ)
                for buffer in op.outputs:
                    self.note(buffer, UPDATED if op.reads_outputs else WRITTEN)
            case _ if isinstance(callee := op.properties.get("callee"), SymbolRefAttr):
                for value, role in zip(op.operands, self.callee(op, callee), strict=True):
                    self.note(value, role)
            case _ if not op.regions:
                effects = effects_of(op)
                for value in op.operands:
                    self.note(value, Role(effects.reads, effects.writes))

    def callee(self, op: Operation, symbol: SymbolRefAttr) -> list[Role]:
        function = self.functions.get(symbol.string_value())
        if function is None or function in self.active:
            return [UPDATED] * len(op.operands)
        return _Roles(self.functions, self.active).of(function)

    def note(self, value: SSAValue, role: Role) -> None:
        for number in self.aliases.get(value, ()):
            self.roles[number] |= role

    def spread(self, op: Operation) -> None:
        """Propagate aliases to views, region arguments, and results of a yielding parent."""
        found = set[int]().union(*(self.aliases.get(value, ()) for value in op.operands))
        values: list[SSAValue] = list(op.results)
        values += [value for region in op.regions for b in region.blocks for value in b.args]
        parent = op.parent_op()
        if parent is not None and op.has_trait(IsTerminator):
            values += parent.results
        for value in values:
            if isinstance(value.type, MemRefType):
                self.aliases.setdefault(value, set()).update(found)
