"""The canonical text of a kernel: equal text, equal code.

Names of values and places in the model's file say nothing about what a kernel does, and the
number that made a function's name unique in its module does not either; none of them is in the
text. The function's base name stays, so that a profile of the generated code can be read.
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
    """Writes kernels of one module as modules of their own.

    The module's `tcopt.` attributes, the target first of all, are part of every text.
    """

    def __init__(self, module: ModuleOp):
        self._texts: dict[Attribute, str] = {}
        printer = _CanonicalPrinter(self._texts)
        printer.print_string("builtin.module")
        printer.print_op_attributes(compile_attributes(module), print_keyword=True)
        self._head = printer.text()

    @staticmethod
    def of_model(module: ModuleOp) -> str:
        """The text of an imported model; weights are in it by name only."""
        printer = _CanonicalPrinter({})
        for op in module.ops:
            printer.print_op(op)
        return printer.text()

    def of(self, function: Operation, *beside: Operation) -> str:
        """The text of a `te.func` or `loop.func`, and of what is said of it beside it."""
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
    """The canonical text of an op of any kind, without what it stands in.

    Args:
        name: what a function-like op is called in it, instead of its own name.
    """
    printer = _CanonicalPrinter({})
    printer.print_op(op)
    text = printer.text()
    return text.replace(f"@{symbol_name(op)}(", f"@{name}(", 1) if name else text


class _CanonicalPrinter(Printer):
    """Numbers all values, and prints each attribute once."""

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
    """The attributes of a module that passes on kernels may read."""
    return {k: v for k, v in module.attributes.items() if k.startswith(_PREFIX)}


def symbol_name(function: Operation) -> str:
    """The name of a function-like op."""
    symbol = function.properties["sym_name"]
    assert isinstance(symbol, StringAttr)
    return symbol.data


def base_name(name: str) -> str:
    """`conv_add` for `conv_add_12`."""
    return _NUMBERED.sub("", name) or name
