"""Ranges for the open dimensions of a model, from the shapes of its runs.

The first combination of shapes has a program of its own. Dimensions that differ in later runs
become sizes with a range that starts at 1 and has room above the largest extent so far; the others
keep their numbers. If a node needs more than 1, the range starts below the smallest extent so far.
Dimensions whose extents were equal in all runs share a size, whatever their names, since operators
may need them to be equal. A run that does not fit makes the ranges wider.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from tcopt.runtime.specs import TensorSpec
from tcopt.support.arithmetic.room import room_for
from tcopt.support.arithmetic.size_parser import derived_extent, names_in
from tcopt.support.arithmetic.size_ranges import GivenSize, SizeRange, given_size
from tcopt.support.arithmetic.sizes import Extent, evaluate
from tcopt.support.data.structures import Kind
from tcopt.support.errors import TcoptError
from tcopt.support.remarks import Remark, replay

Shapes: TypeAlias = Mapping[str, tuple[Extent, ...]]
"""Shape of each input; extents may be sizes."""


@dataclass(frozen=True)
class _Dimension:
    """An open dimension of an input.

    Attributes:
        declared: its name, or a size such as `past + 1`; empty if unknown.
    """

    input: str
    axis: int
    declared: str

    @property
    def is_derived(self) -> bool:
        """Whether the model declares how it follows from other dimensions."""
        return bool(self.declared) and names_in(self.declared) != (self.declared,)

    def of(self, shapes: Mapping[str, Sequence[Any]]) -> Any:
        """Return the extent of the dimension."""
        return shapes[self.input][self.axis]


@dataclass(frozen=True)
class SeenShapes:
    """The combinations of shapes so far.

    Attributes:
        first: the first combination.
        largest, smallest: largest and smallest extent of each dimension.
        group: number of each dimension's group; dimensions of one group were always equal.
        varied: dimensions that had several extents.
        broken: derived dimensions that were not as declared.
        ranged: shapes with a size for each group that varied; None before that.
        ranges: the range of each size, and a dimension that has the size as its extent.
        starts_at_one: whether ranges start at 1 rather than below the smallest extent.
    """

    first: Mapping[str, tuple[int, ...]]
    largest: Mapping[_Dimension, int]
    smallest: Mapping[_Dimension, int]
    group: Mapping[_Dimension, int]
    varied: frozenset[_Dimension] = frozenset()
    broken: frozenset[_Dimension] = frozenset()
    ranged: Shapes | None = None
    ranges: Mapping[str, tuple[SizeRange, _Dimension]] = field(default_factory=dict)
    starts_at_one: bool = True

    def covers(self, shapes: Mapping[str, tuple[int, ...]]) -> bool:
        """Whether the ranged shapes include a combination."""
        if self.ranged is None or shapes == self.first:
            return False
        values = {name: known.of(shapes) for name, (_, known) in self.ranges.items()}
        return all(values[name] in known for name, (known, _) in self.ranges.items()) and all(
            evaluate(extent, values) == have
            for name, shape in shapes.items()
            for extent, have in zip(self.ranged[name], shape, strict=True)
        )


class OpenSizes:
    """Decides which combinations of shapes share a program.

    Args:
        inputs: inputs of the model.
        dims: ranges given for some of its dimensions.

    Attributes:
        remark: why the model is compiled for each combination; None if it is not.
    """

    def __init__(self, inputs: Sequence[TensorSpec], dims: Mapping[str, GivenSize]):
        sizes = {name: given_size(name, given) for name, given in dims.items()}
        derived = {name: size for name, size in sizes.items() if isinstance(size, str)}
        self._open = [
            _Dimension(
                spec.name, axis, derived.get(extent, extent) if isinstance(extent, str) else ""
            )
            for spec in inputs
            for axis, extent in enumerate(spec.shape)
            if not isinstance(extent, int)
        ]
        self._dims = {name: size for name, size in sizes.items() if isinstance(size, SizeRange)}
        plain = all(spec.kind is Kind.TENSOR and not spec.any_rank for spec in inputs)
        # A model that is open although all dimensions have ranges has no program for them.
        free = any(not set(names_in(d.declared)) & set(self._dims) for d in self._open)
        self._serves = plain and free
        self._seen: SeenShapes | None = None
        self.remark: Remark | None = None

    def unseen(self) -> OpenSizes:
        """Return an object for the same inputs that has seen no shapes."""
        other = copy(self)
        other._seen = None
        return other

    def shapes_of(self, shapes: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the shapes that the program of a combination is compiled for."""
        seen = self._seen
        if self._serves and seen is not None and seen.ranged and seen.covers(shapes):
            return seen.ranged
        return shapes

    def widened(self, shapes: Mapping[str, Any]) -> SeenShapes | None:
        """Return ranges that include a combination; None if it needs a program of its own."""
        # Empty tensors are rare, and sizes that may be 0 decide fewer comparisons.
        if not self._serves or not all(dim.of(shapes) for dim in self._open):
            return None
        seen = self._seen
        if seen is None:
            group = _numbered({dim: dim.of(shapes) for dim in self._open})
            extents = {dim: dim.of(shapes) for dim in self._open}
            seen = SeenShapes(dict(shapes), extents, extents, group, broken=self._broken(shapes))
        elif not seen.covers(shapes):
            group = _numbered({dim: (seen.group[dim], dim.of(shapes)) for dim in self._open})
            seen = replace(
                seen,
                largest={dim: max(seen.largest[dim], dim.of(shapes)) for dim in self._open},
                smallest={dim: min(seen.smallest[dim], dim.of(shapes)) for dim in self._open},
                group=group,
                varied=seen.varied
                | {dim for dim in self._open if dim.of(shapes) != dim.of(seen.first)},
                broken=seen.broken | self._broken(shapes),
            )
            seen = self._with_ranges(seen) if seen.varied else seen
        return seen if seen.ranged is None or seen.covers(shapes) else None

    def accept(self, seen: SeenShapes) -> None:
        """Use ranges for later combinations, after a program for them was compiled."""
        self._seen = seen

    def without_ones(self, seen: SeenShapes) -> SeenShapes | None:
        """Return narrower ranges, which start below the smallest extents; None if they do."""
        if not seen.starts_at_one:
            return None
        narrower = self._with_ranges(replace(seen, starts_at_one=False))
        return narrower if narrower.ranges != seen.ranges else None

    def give_up(self, seen: SeenShapes, error: TcoptError) -> None:
        """Use a program for each combination from now on, as ranges cannot be compiled.

        If narrower ranges have a program, only combinations outside of these get their own.
        """
        if self._seen is not None and self._seen.ranged is not None:
            return
        self._serves = False
        message = f"compiled for each combination of shapes: {error.message}"
        place = error.where or (str(error.node) if error.node else "")
        self.remark = Remark("compile", ", ".join(seen.ranges), place, message, missed=True)
        replay([self.remark])

    def _low(self, seen: SeenShapes, dim: _Dimension) -> int:
        """Return the lower bound for the size of a dimension: a power of two."""
        if seen.starts_at_one:
            return 1
        alike = (each for each in self._open if seen.group[each] == seen.group[dim])
        return 1 << (min(map(seen.smallest.__getitem__, alike)).bit_length() - 1)

    def _broken(self, shapes: Mapping[str, tuple[int, ...]]) -> frozenset[_Dimension]:
        """Return the derived dimensions that are not as declared in a combination."""
        values = {dim.declared: dim.of(shapes) for dim in reversed(self._open)}
        return frozenset(
            dim
            for dim in self._open
            if dim.is_derived and derived_extent(dim.declared, values) != dim.of(shapes)
        )

    def _with_ranges(self, seen: SeenShapes) -> SeenShapes:
        """Return the combinations with shapes whose extents are sizes."""
        sizes: dict[int, Extent] = {}
        ranges: dict[str, tuple[SizeRange, _Dimension]] = {}
        extents: dict[_Dimension, Extent] = {}
        known: dict[str, Extent] = {}
        # Derived dimensions follow from those with names.
        for dim in sorted(self._open, key=lambda dim: dim.is_derived):
            extent: Extent | None = None
            if dim.is_derived and dim not in seen.broken:
                extent = derived_extent(dim.declared, known)
            if extent is None and dim not in seen.varied:
                extent = dim.of(seen.first)
            if extent is None and (extent := sizes.get(seen.group[dim])) is None:
                name = next(name for name in _names_for(dim) if name not in ranges)
                room = room_for(seen.largest[dim])
                ranges[name] = self._dims.get(name, SizeRange(self._low(seen, dim), room)), dim
                extent = sizes[seen.group[dim]] = ranges[name][0].size(name)
            extents[dim] = extent
            known.setdefault(dim.declared, extent)
        ranged: dict[str, list[Extent]] = {name: [*shape] for name, shape in seen.first.items()}
        for dim, extent in extents.items():
            ranged[dim.input][dim.axis] = extent
        return replace(
            seen, ranged={name: tuple(shape) for name, shape in ranged.items()}, ranges=ranges
        )


def _numbered(labels: Mapping[_Dimension, object]) -> dict[_Dimension, int]:
    """Return the same number for dimensions with equal labels."""
    numbers: dict[object, int] = {}
    return {dim: numbers.setdefault(label, len(numbers)) for dim, label in labels.items()}


def _names_for(dim: _Dimension) -> Iterator[str]:
    """Yield names for the size of a dimension, the declared one first."""
    if dim.declared and not dim.is_derived:
        yield dim.declared
    base = re.sub(r"\W|^(?=\d)", "_", f"{dim.input}_{dim.axis}")
    yield base
    number = 2
    while True:
        yield f"{base}_{number}"
        number += 1
