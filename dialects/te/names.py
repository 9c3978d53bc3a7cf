"""Names of symbols, stages and values."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, StringAttr


def hint_of(name: str) -> str | None:
    """Return `name` as a hint for an SSA value; None if it has no usable characters."""
    text = "".join(char if char.isalnum() and char.isascii() else "_" for char in name)
    return f"v{text}" if text[:1].isdigit() else text or None


def unique_name(name: str, taken: set[str]) -> str:
    """Return `name`, with a numeric suffix if it is in `taken`, and add the result to `taken`."""
    unique, count = name, 0
    while unique in taken:
        count += 1
        unique = f"{name}_{count}"
    taken.add(unique)
    return unique


def symbols_of(module: ModuleOp) -> set[str]:
    """Return the symbols that a module defines."""
    found = (op.properties.get("sym_name") for op in module.ops)
    return {symbol.data for symbol in found if isinstance(symbol, StringAttr)}
