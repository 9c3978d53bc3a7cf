"""Values of a run by function, call and part, and alignment of arrays between two levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import Operation

from tcopt.support.errors import MismatchError
from tcopt.tools.execution.executors import Array
from tcopt.tools.execution.probes import Located


@dataclass(frozen=True)
class Key:
    """Identifies a value of a run: a part of a function, in one of its calls."""

    function: str
    turn: int
    part: str

    def __str__(self) -> str:
        turn = f" (call {self.turn + 1})" if self.turn else ""
        return f"{self.part} of @{self.function}{turn}"


@dataclass(frozen=True)
class Value:
    """The value of a part of a function.

    Attributes:
        mask: the elements that it wrote, None for all.
        of_tensor: whether it is from a tensor expression, so that its axes are those of the result.
    """

    array: Array
    mask: Array | None
    where: str | None
    of_tensor: bool = False


@dataclass
class Run:
    """All values of one run, in the order in which they were computed."""

    values: dict[Key, Value] = field(default_factory=dict[Key, Value])
    located: Located = field(default_factory=Located)
    results: dict[str, list[Array]] = field(default_factory=dict[str, list[Array]])


@dataclass(frozen=True)
class Interface:
    """Roles of a function's arguments.

    Attributes:
        count: the number of arguments.
        results: the positions of the buffers that it writes.
        updated: those of them whose initial content it may read.
    """

    count: int
    results: Sequence[int]
    updated: Sequence[int] = ()


@dataclass(frozen=True)
class BufferCall:
    """One call of a function on buffers.

    Attributes:
        written: positions of the buffers that it may write.
        key: fingerprint of the function, and digest of the buffers' contents.
    """

    function: Operation
    name: str
    turn: int
    arrays: list[Array]
    written: Sequence[int]
    interface: Interface
    key: tuple[int, bytes]


class ValueChanged(MismatchError):
    """A value of a function changed; `where` is the location of the op."""


def as_shape(array: Array, shape: tuple[int, ...]) -> Array | None:
    """Reshape an array whose axes were merged or split; None if the shapes are incompatible."""
    if array.shape == shape:
        return array
    old, new = _edges(array.shape), _edges(shape)
    if array.size != int(np.prod(shape)) or not (old <= new or new <= old):
        return None
    return array.reshape(shape)


def _edges(shape: Sequence[int]) -> set[int]:
    """Return the products of trailing extents; merging axes removes some of them."""
    edges, size = set[int](), 1
    for extent in reversed(shape):
        size *= extent
        edges.add(size)
    return edges


def mask_as(value: Value, shape: tuple[int, ...]) -> Array | None:
    return None if value.mask is None else value.mask.reshape(shape)


def join_masks(a: Array | None, b: Array | None, *, either: bool) -> Array | None:
    """Combine masks: the elements that both runs wrote, or that either did."""
    if a is None or b is None:
        return None if either else a if b is None else b
    return a | b if either else a & b
