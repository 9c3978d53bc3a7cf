"""Canonical text of a kernel: kernels with equal text compile to equal code.

The text omits everything that does not affect the computation: value names, locations in the
model's file, and the suffix that makes a function's name unique in its module. The function's base
name is kept to make profiles of the generated code readable.
"""

from __future__ import annotations

import re
from io import StringIO

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.printer import Printer

_NUMBERED = re.compile(r"_\d+$")
_PREFIX = "tcopt."


class CanonicalText:
    """Writes kernels of one module, each as a module of its own.

    Every text includes the module's `tcopt.` attributes, in particular the target.
    """

    def __init__(self, module: ModuleOp):
        self._texts: dict[Attribute, str] = {}
        printer = _CanonicalPrinter(self._texts)
        printer.print_string("builtin.module")
        printer.print_op_attributes(compile_attributes(module), print_keyword=True)
        self._head = printer.text()

    @staticmethod
    def of_model(module: ModuleOp) -> str:
        """Return the text of an imported model; weights are represented by their names."""
        printer = _CanonicalPrinter({})
        for op in module.ops:
            printer.print_op(op)
        return printer.text()

    def of(self, function: Operation, *beside: Operation) -> str:
        """Return the text of a `te.func` or `loop.func`, followed by ops that belong to it."""
        printer = _CanonicalPrinter(self._texts)
        printer.print_op(function)
        name = symbol_name(function)
        text = printer.text().replace(f"@{name}(", f"@{base_name(name)}(", 1)
        for op in beside:
            printer = _CanonicalPrinter(self._texts)
            printer.print_op(op)
            text += f"\n{printer.text()}"
        return f"{self._head} {{\n{text}\n}}\n"


def canonical_text(op: Operation, name: str = "") -> str:
    """Return the canonical text of any op, without its parent.

    Args:
        name: name to print for a function-like op instead of its own.
    """
    printer = _CanonicalPrinter({})
    printer.print_op(op)
    text = printer.text()
    return text.replace(f"@{symbol_name(op)}(", f"@{name}(", 1) if name else text


class _CanonicalPrinter(Printer):
    """Printer that numbers all values and caches the text of attributes."""

    def __init__(self, texts: dict[Attribute, str]):
        super().__init__(StringIO())
        self._parts: list[str] = []
        self._texts = texts

    def text(self) -> str:
        return "".join(self._parts)

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        self._parts.append(text)

    def _print_new_line(self, indent: int | None = None, print_message: bool = True) -> None:
        self._parts.append("\n")

    def print_ssa_value(self, value: SSAValue) -> str:
        name = self._ssa_values.get(value)
        if name is None:
            name = self._ssa_values[value] = str(len(self._ssa_values))
        self._parts.append(f"%{name}")
        return name

    def print_attribute(self, attribute: Attribute) -> None:
        text = self._texts.get(attribute)
        if text is None:
            start = len(self._parts)
            super().print_attribute(attribute)
            text = self._texts[attribute] = "".join(self._parts[start:])
        else:
            self._parts.append(text)


def compile_attributes(module: ModuleOp) -> dict[str, Attribute]:
    """Return the attributes of a module that kernel passes may read."""
    return {k: v for k, v in module.attributes.items() if k.startswith(_PREFIX)}


def symbol_name(function: Operation) -> str:
    """Return the symbol name of a function-like op."""
    symbol = function.properties["sym_name"]
    assert isinstance(symbol, StringAttr)
    return symbol.data


def base_name(name: str) -> str:
    """Strip a numeric suffix: `conv_add` for `conv_add_12`."""
    return _NUMBERED.sub("", name) or name
