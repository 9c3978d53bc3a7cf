"""Outlining of parallel loop bodies into functions of their own.

A body is emitted by a `BodyEmitter`, which turns every value of the enclosing function that it
meets into a parameter. Pointers thus remain `noalias` parameters, and captured values need not be
known in advance.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import IndexType
from xdsl.ir import SSAValue

from tcopt.backends.llvm.emit.emitter import EmittedBuffer, FunctionEmitter
from tcopt.backends.llvm.emit.linear import LinearAddress
from tcopt.backends.llvm.emit.literals import Literal
from tcopt.backends.llvm.emit.types import llvm_type


@dataclass(slots=True, frozen=True)
class Capture:
    """A value of the enclosing function that the body receives as a parameter."""

    outer: str
    type: str
    name: str
    attributes: str = ""

    @property
    def parameter(self) -> str:
        return f"{self.type} {self.attributes}{self.name}"


class BodyEmitter(FunctionEmitter):
    """Emitter of the body of a parallel loop."""

    def __init__(self, outer: FunctionEmitter, name: str):
        super().__init__(outer.module, name)
        self.outer = outer
        self.enclosing = outer
        self.can_stop = outer.can_stop
        self.captures: dict[str, Capture] = {}

    def _capture(self, outer: str, type: str, attributes: str = "") -> str:
        """Return the parameter for an operand of the enclosing function; constants stay
        constants."""
        if isinstance(outer, Literal):
            return outer
        known = self.captures.get(outer)
        if known is None:
            known = Capture(outer, type, f"%c{len(self.captures)}", attributes)
            self.captures[outer] = known
            self.depths[known.name] = 0
        return known.name

    def capture_operand(self, outer: str) -> str:
        """Return the body's operand for an i64 operand of the enclosing function."""
        return self._capture(outer, "i64")

    def capture_value(self, value: SSAValue) -> str:
        if isinstance(value.type, IndexType):
            form = self.capture_index(value)
            self.define_index(value, form)
            return self.materialize(form)
        name = self._capture(self.enclosing.value(value), llvm_type(value.type))
        self.define(value, name)
        return name

    def _capture_linear(self, form: LinearAddress) -> LinearAddress:
        terms = ((self._capture(name, "i64"), factor) for name, factor in form.terms)
        return LinearAddress(tuple(sorted(terms)), form.const)

    def capture_index(self, value: SSAValue) -> LinearAddress:
        form = self._capture_linear(self.enclosing.index(value))
        self.define_index(value, form)
        return form

    def capture_buffer(self, value: SSAValue) -> EmittedBuffer:
        outer = self.enclosing.buffer(value)
        attributes = f"{'noalias ' if outer.is_local else ''}nonnull align {outer.alignment} "
        captured = EmittedBuffer(
            self._capture(outer.root, "ptr", attributes),
            self._capture_linear(outer.offset),
            tuple(
                self._capture_linear(stride) if isinstance(stride, LinearAddress) else stride
                for stride in outer.strides
            ),
            outer.element,
            outer.alignment,
            outer.is_local,
        )
        self.define_buffer(value, captured)
        return captured
