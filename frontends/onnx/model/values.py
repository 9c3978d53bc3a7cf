"""Values of names in a model during import."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue


class Failed:
    """Value of the outputs of a node that could not be imported."""


FAILED = Failed()


class Deferred:
    """Value that is computed by a later stage, see `stages`."""


DEFERRED = Deferred()


@dataclass(frozen=True)
class SequenceValue:
    """A sequence of tensors. Its length is static, so it is not a value of the graph."""

    items: tuple[SSAValue, ...]


@dataclass(frozen=True)
class MapsValue:
    """A sequence of maps with the same keys; each is a row of `values` [maps, keys]."""

    keys: SSAValue
    values: SSAValue


@dataclass(frozen=True)
class OptionalValue:
    """An absent optional; a present one is represented by its element."""


NOTHING = OptionalValue()

Value = SSAValue | SequenceValue | MapsValue | OptionalValue | Failed | Deferred | None
Scope = dict[str, Value]
Values = Sequence[Value]
