"""What a name of a model stands for while its nodes are imported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue


class Failed:
    """Stands for the outputs of a node that could not be imported."""


FAILED = Failed()


class Deferred:
    """Stands for what a later stage computes, see `stages`."""


DEFERRED = Deferred()


@dataclass(frozen=True)
class SequenceValue:
    """A sequence of tensors. Its length is known, so it is not a value of the graph."""

    items: tuple[SSAValue, ...]


@dataclass(frozen=True)
class MapsValue:
    """A sequence of maps with the same keys: a row of `values` [maps, keys] for each."""

    keys: SSAValue
    values: SSAValue


@dataclass(frozen=True)
class OptionalValue:
    """An optional without an element; one with an element is that element."""


NOTHING = OptionalValue()

Value = SSAValue | SequenceValue | MapsValue | OptionalValue | Failed | Deferred | None
Scope = dict[str, Value]
Values = Sequence[Value]
