"""Inputs and outputs that are not tensors: sequences and optionals.

A program takes and gives tensors alone. A sequence `s` of two is its tensors `s[0]` and `s[1]`; an
optional tensor `o` is a tensor `o`, or nothing.
"""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """What an input or output is, in the words of messages."""

    TENSOR = "tensor"
    SEQUENCE = "sequence of tensors"
    OPTIONAL = "optional tensor"
    OPTIONAL_SEQUENCE = "optional sequence of tensors"
    MAPS = "sequence of maps"
    """Of outputs: a map for each row of a matrix of values, whose columns are the keys."""

    CHECK = "check"
    """Of outputs that a program has beside the model's: where one is true, the run is refused."""

    KEY = "random key"
    """Of inputs that a program has beside the model's: what it draws random numbers by."""

    @property
    def is_sequence(self) -> bool:
        """Whether there may be any number of tensors."""
        return self in (Kind.SEQUENCE, Kind.OPTIONAL_SEQUENCE)

    @property
    def is_optional(self) -> bool:
        """Whether there may be nothing."""
        return self in (Kind.OPTIONAL, Kind.OPTIONAL_SEQUENCE)


Count = int | None
"""Of how many tensors something consists; None for an optional without an element."""


def tensor_names(name: str, kind: Kind, count: Count) -> list[str]:
    """What a program calls the tensors of an input or output."""
    if count is None:
        return []
    if kind is Kind.MAPS:
        return [f"{name}[keys]", f"{name}[values]"]
    return [f"{name}[{place}]" for place in range(count)] if kind.is_sequence else [name]
