"""Values of a run, by function, call and part, and how arrays of two levels are aligned."""

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
    """A value of a run: what part of which function, and at which of the function's calls."""

    function: str
    turn: int
    part: str

    def __str__(self) -> str:
        turn = f" (call {self.turn + 1})" if self.turn else ""
        return f"{self.part} of @{self.function}{turn}"


@dataclass(frozen=True)
class Value:
    """What a part of a function gave.

    Attributes:
        mask: the elements that it wrote, None for all.
        of_tensor: whether it is a tensor expression's, whose axes are those of the result.
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
    """How a function uses its arguments.

    Attributes:
        count: the number of arguments.
        results: the positions of the buffers that it writes.
        updated: those of them whose initial content it may read.
    """

    count: int
    results: Sequence[int]
    updated: Sequence[int] = ()


@dataclass(frozen=True)
class Task:
    """One call of a function on buffers.

    Attributes:
        written: positions of the buffers that it may write.
        key: identifies the function's text and the content of the buffers.
    """

    function: Operation
    name: str
    turn: int
    arrays: list[Array]
    written: Sequence[int]
    interface: Interface
    key: tuple[int, bytes]


class ValueChanged(MismatchError):
    """A value of a function is not what it was; `where` is that of the op."""


def as_shape(array: Array, shape: tuple[int, ...]) -> Array | None:
    """An array with merged or split axes in another shape; None if the axes do not fit."""
    if array.shape == shape:
        return array
    old, new = _edges(array.shape), _edges(shape)
    if array.size != int(np.prod(shape)) or not (old <= new or new <= old):
        return None
    return array.reshape(shape)


def _edges(shape: Sequence[int]) -> set[int]:
    """Where axes begin in row-major order: what merging axes leaves a part of."""
    edges, size = set[int](), 1
    for extent in reversed(shape):
        size *= extent
        edges.add(size)
    return edges


def mask_as(value: Value, shape: tuple[int, ...]) -> Array | None:
    return None if value.mask is None else value.mask.reshape(shape)


def join_masks(a: Array | None, b: Array | None, *, either: bool) -> Array | None:
    """The elements that both runs wrote, or that either did."""
    if a is None or b is None:
        return None if either else a if b is None else b
    return a | b if either else a & b
