"""Spaces of choices of schedule rules.

A rule with tunable parameters defines a space for them:

    class TileSpace(Space):
        def __init__(self, product: Product, facts: CpuFacts):
            super().__init__([
                Knob("rows", even_parts(product.rows, 8)),
                Knob("vectors", (1, 2, 3, 4)),
                Knob("order", (0, 1), labels=("rows", "columns")),
            ])
            ...

        def valid(self, k: Point) -> Column:
            return k.rows * k.vectors + k.vectors + 1 <= self.registers

        def estimate(self, k: Point) -> Column:
            return ...

All formulas are over a `Point`, whose attributes are integers for one choice and NumPy arrays
(`Column`) for many: a search evaluates a hundred thousand choices without building one. Use
`numpy.where` instead of branches on knob values.

Domains of knobs that depend on each other are supersets, which `valid` filters.

The estimate depends only on the leading knobs. `complete` derives default values of the other knobs
from these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from tcopt.support.arithmetic.columns import Column, where
from tcopt.support.errors import InputError

__all__ = [
    "Choice",
    "Column",
    "Knob",
    "LoopLevel",
    "NestKind",
    "Operand",
    "Point",
    "Space",
    "parallel_where",
]

Choice = Mapping[str, int]
"""A value for each knob, by name."""


class NestKind(IntEnum):
    """How a loop of a nest runs, as an integer that NumPy arrays can hold."""

    SERIAL = 0
    PARALLEL = 1
    UNROLLED = 2
    VECTOR = 3
    BLOCK = 4
    THREAD = 5


def parallel_where(condition: Column) -> Column:
    """Return the kind of a loop: parallel where a condition is true, serial elsewhere."""
    return where(condition, int(NestKind.PARALLEL), int(NestKind.SERIAL))


@dataclass(frozen=True)
class Knob:
    """One tunable parameter.

    Attributes:
        name: unique in its space.
        values: its possible values, without duplicates; increasing if they are sizes.
        labels: names of the values if they are kinds instead of sizes.
        is_quiet: omitted from the printed choice when it has its first value.
    """

    name: str
    values: tuple[int, ...]
    labels: tuple[str, ...] = ()
    is_quiet: bool = False

    def __post_init__(self) -> None:
        if not self.values or len(set(self.values)) != len(self.values):
            raise InputError(f"knob '{self.name}' needs distinct values, got {self.values}")
        if self.labels and len(self.labels) != len(self.values):
            raise InputError(
                f"knob '{self.name}' has {len(self.values)} values, but another number of labels"
            )

    def word(self, value: int) -> str:
        """Return a value as printed: its label, or the number."""
        return self.labels[self.values.index(value)] if self.labels else str(value)


class Point:
    """Values of all knobs as attributes: integers, or NumPy arrays for many choices."""

    def __init__(self, values: Mapping[str, Column]):
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Column:
        raise InputError(f"no knob is named '{name}', there are {', '.join(self.__dict__)}")


@dataclass(frozen=True)
class LoopLevel:
    """One loop of the nest that a choice creates, as input of cost model features.

    Loops that a choice fuses are separate levels. A loop that a choice does not create has extent
    1.

    Attributes:
        variable: position of the block's iteration variable that it moves; an array if choices
            differ in loop order.
        extent: its trip count.
        kind: a `NestKind`, or an array of them.
    """

    variable: Column
    extent: Column
    kind: Column = NestKind.SERIAL


@dataclass(frozen=True)
class Operand:
    """A buffer that the block reads or writes, as input of cost model features.

    Attributes:
        shape: its extents.
        element_bytes: size of an element.
        steps: for each iteration variable, its stride in each index.
        is_output: whether it is written.
    """

    shape: tuple[int, ...]
    element_bytes: float
    steps: tuple[tuple[int, ...], ...]
    is_output: bool


class Grid:
    """Cartesian product of the values of some knobs.

    Choices are rows of positions: one column for each knob, holding a position among its values.

    Args:
        knobs: in the order in which they are printed.
    """

    def __init__(self, knobs: Sequence[Knob]):
        self.knobs = tuple(knobs)
        names = [knob.name for knob in self.knobs]
        if len(set(names)) != len(names):
            raise InputError(f"two knobs of a space have the same name: {', '.join(names)}")

    @property
    def size(self) -> int:
        """Number of choices, valid or not."""
        return prod(len(knob.values) for knob in self.knobs)

    @cached_property
    def _tables(self) -> list[NDArray[np.int64]]:
        return [np.asarray(knob.values, dtype=np.int64) for knob in self.knobs]

    def points(self, numbers: Sequence[int] | range) -> NDArray[np.int64]:
        """Convert linear indices to rows of positions; the last knob varies fastest."""
        shape = tuple(len(knob.values) for knob in self.knobs)
        if not shape:
            return np.zeros((len(numbers), 0), dtype=np.int64)
        return np.stack(np.unravel_index(np.asarray(numbers, dtype=np.int64), shape), axis=1)

    def at(self, points: NDArray[np.int64]) -> Point:
        """Return the values at rows of positions, as NumPy arrays."""
        columns = (table[points[:, i]] for i, table in enumerate(self._tables))
        return Point(dict(zip((knob.name for knob in self.knobs), columns, strict=True)))

    def choice(self, point: NDArray[np.int64]) -> dict[str, int]:
        """Return the choice at one row of positions."""
        rows = zip(self.knobs, point, strict=True)
        return {knob.name: knob.values[int(position)] for knob, position in rows}

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw rows of positions at random, valid or not.

        The size of the space may exceed 64 bits, so each knob is drawn separately.
        """
        columns = [rng.integers(0, len(knob.values), count) for knob in self.knobs]
        return np.stack(columns, axis=1) if columns else np.zeros((count, 0), dtype=np.int64)


class Space(Grid, ABC):
    """Space of the choices that a rule has for one function."""

    @abstractmethod
    def valid(self, k: Point) -> Column:
        """Whether choices are legal: registers, memory and threads suffice."""

    @abstractmethod
    def estimate(self, k: Point) -> Column:
        """Return a cost estimate, of which only the order matters."""

    @abstractmethod
    def nest(self, k: Point) -> Sequence[LoopLevel]:
        """Return the loops around the main block, outermost first."""

    @abstractmethod
    def operands(self) -> Sequence[Operand]:
        """Return the buffers that the main block reads and writes."""

    @property
    def leading(self) -> tuple[str, ...]:
        """The knobs that the estimate depends on; the others follow from them by default."""
        return tuple(knob.name for knob in self.knobs)

    @property
    def untold(self) -> tuple[str, ...]:
        """The knobs whose values do not follow from `nest`.

        Choices with equal values of these and equal nests are the same schedule, of which a search
        tries only one.
        """
        return tuple(knob.name for knob in self.knobs)

    def usual(self, k: Point) -> Column:
        """Whether the default may have these values of the leading knobs.

        Other values are only considered by a search that measures.
        """
        return self.valid(k)

    def ties(self, k: Point) -> Sequence[Column]:
        """Return tie-breakers between choices of equal estimates; smaller is better."""
        del k
        return ()

    def complete(self, leading: Choice) -> dict[str, int]:
        """Return a complete choice: derive the other knobs from the leading ones."""
        return dict(leading)

    def default(self) -> dict[str, int]:
        """Return the choice used without measurements: the usual one with the lowest estimate.

        Raises:
            InputError: no choice is usual.
        """
        first = Grid([knob for knob in self.knobs if knob.name in self.leading])
        points = first.points(range(first.size))
        k = first.at(points)
        usual = np.broadcast_to(np.asarray(self.usual(k)), len(points))
        if not usual.any():
            raise InputError("a space has no usual choice")
        costs = np.asarray(self.estimate(k), dtype=np.float64)
        keys = [np.broadcast_to(each, len(points)) for each in (costs, *self.ties(k))]
        kept = np.flatnonzero(usual)
        best = kept[np.lexsort([key[kept] for key in reversed(keys)])[0]]
        return self.complete(first.choice(points[best]))

    def point(self, choice: Choice) -> NDArray[np.int64]:
        """Return the row of positions of a choice.

        Raises:
            InputError: a knob is missing, unknown, or has an illegal value.
        """
        self.check(choice)
        return np.asarray([knob.values.index(choice[knob.name]) for knob in self.knobs])

    def check(self, choice: Choice) -> None:
        """Raise InputError unless `choice` is a choice of this space."""
        names = [knob.name for knob in self.knobs]
        if unknown := sorted(set(choice) - set(names)):
            raise InputError(
                f"no knob is named '{unknown[0]}'",
                hint=f"there are {', '.join(names)}" if names else "there is nothing to choose",
            )
        for knob in self.knobs:
            if knob.name not in choice:
                raise InputError(f"a choice needs a value for knob '{knob.name}'")
            if choice[knob.name] not in knob.values:
                given = choice[knob.name]
                raise InputError(
                    f"knob '{knob.name}' may be one of {list(knob.values)}, not {given}"
                )

    def words(self, choice: Choice) -> dict[str, int | str]:
        """Return a choice as printed and as recorded in schedules: kinds by their labels."""
        return {
            knob.name: knob.word(choice[knob.name]) if knob.labels else choice[knob.name]
            for knob in self.knobs
            if not knob.is_quiet or choice[knob.name] != knob.values[0]
        }

    def from_words(self, words: Mapping[str, int | str]) -> dict[str, int]:
        """Return the choice that `words` describes.

        Raises:
            InputError: a knob is missing, unknown, or has an illegal value.
        """
        known = {knob.name: knob for knob in self.knobs}
        choice = {knob.name: knob.values[0] for knob in self.knobs if knob.is_quiet}
        for name, word in words.items():
            knob = known.get(name)
            if knob is not None and isinstance(word, str):
                if word not in knob.labels:
                    raise InputError(
                        f"knob '{name}' may be one of {list(knob.labels or knob.values)}, "
                        f"not '{word}'"
                    )
                choice[name] = knob.values[knob.labels.index(word)]
            else:
                choice[name] = int(word)
        self.check(choice)
        return choice

    def is_valid(self, choice: Choice) -> bool:
        """Whether one choice is legal."""
        return bool(self.valid(Point(dict(choice))))

    def choices(self) -> Iterator[dict[str, int]]:
        """Yield all valid choices."""
        for number in range(self.size):
            choice = self.choice(self.points([number])[0])
            if self.is_valid(choice):
                yield choice
