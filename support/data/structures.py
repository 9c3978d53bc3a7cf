"""Inputs and outputs that are not tensors: sequences and optionals.

Programs only have tensor inputs and outputs. A sequence `s` of length two is passed as the tensors
`s[0]` and `s[1]`; an optional tensor `o` as a tensor `o` or as nothing.
"""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """Kind of an input or output, as named in messages."""

    TENSOR = "tensor"
    SEQUENCE = "sequence of tensors"
    OPTIONAL = "optional tensor"
    OPTIONAL_SEQUENCE = "optional sequence of tensors"
    MAPS = "sequence of maps"
    """Output with a map for each row of a matrix of values; the columns are the keys."""

    CHECK = "check"
    """Additional output of a program: if an element is true, the run fails."""

    SIZE = "size"
    """Additional output of a program: the value of a size that it defines."""

    KEY = "random key"
    """Additional input of a program: the key of its random numbers."""

    @property
    def is_sequence(self) -> bool:
        """Whether the value has any number of tensors."""
        return self in (Kind.SEQUENCE, Kind.OPTIONAL_SEQUENCE)

    @property
    def is_optional(self) -> bool:
        """Whether the value may be absent."""
        return self in (Kind.OPTIONAL, Kind.OPTIONAL_SEQUENCE)


Count = int | None
"""Number of tensors of a value; None for an absent optional."""


def tensor_names(name: str, kind: Kind, count: Count) -> list[str]:
    """Return a program's names for the tensors of an input or output."""
    if count is None:
        return []
    if kind is Kind.MAPS:
        return [f"{name}[keys]", f"{name}[values]"]
    return [f"{name}[{place}]" for place in range(count)] if kind.is_sequence else [name]
