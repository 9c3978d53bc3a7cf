"""Analysis of adjacent axes of a function's tensors and stages that can be merged.

Two dimensions of a tensor can be merged if every stage that reads it indexes them with two adjacent
axes that can be merged too, the inner one over its whole extent; a stage may add a constant to the
outer one, as slices and padding do. Two axes of a stage can be merged if every read that uses
either uses both in this way. The analysis starts with all pairs, and removes a pair when a read
contradicts it, together with all pairs that depend on it, until nothing changes.

Extents may be sizes. If axes are merged whose extents are different sizes, the function gets a size
for their product.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from xdsl.ir import SSAValue

from tcopt.dialects.graph.core.types import shape_of
from tcopt.dialects.te import ComputeOp, FuncOp, ReadOp
from tcopt.dialects.te.access import index_ranges, is_axis
from tcopt.support.arithmetic.affine import Dim, bounds, linear_sum
from tcopt.support.arithmetic.sizes import Size

Holder = SSAValue | ComputeOp
"""Owner of axes: a tensor (its dimensions are the spatial axes of the stage that computes it), or a
stage for its reduction axes."""

Groups = list[list[int]]
"""Positions of the old axes that form each new axis, in order; axes of extent 1 are in no group."""


@dataclass
class Grouping:
    """The new axes of each holder, as groups of the positions of old ones."""

    groups: dict[Holder, Groups] = field(default_factory=dict[Holder, Groups])
    ranks: dict[Holder, int] = field(default_factory=dict[Holder, int])

    @property
    def is_trivial(self) -> bool:
        """Whether no axis changes."""
        return all(len(groups) == self.ranks[holder] for holder, groups in self.groups.items())


def find_grouping(
    function: FuncOp, *, keeps_axes: bool = False, rows_only: bool = False
) -> Grouping:
    """Return the coarsest grouping that is valid for every stage of a function without empty axes.

    Args:
        keeps_axes: drop no axis of extent 1.
        rows_only: merge only the two innermost axes of tensors.
    """
    return _Finder(function, keeps_axes, rows_only).run()


@dataclass(frozen=True)
class _Axis:
    """A spatial or reduction axis of a stage."""

    holder: Holder
    position: int


class _Finder:
    def __init__(self, function: FuncOp, keeps_axes: bool, rows_only: bool):
        self.stages = function.stages
        self.extents: dict[Holder, tuple[int, ...]] = {}
        for argument in function.tensor_arguments:
            self.extents[argument] = shape_of(argument)
        for stage in self.stages:
            self.extents[stage.result] = stage.spatial_extents
            if stage.is_reduction:
                self.extents[stage] = stage.reduction_extents
        self.reads = [op for s in self.stages for op in s.body.block.ops if isinstance(op, ReadOp)]
        self.kept = {
            h: [p for p, n in enumerate(e) if n != 1 or keeps_axes] for h, e in self.extents.items()
        }
        self.split: set[tuple[Holder, int]] = set()
        """Pairs that cannot be merged, by the position of the outer axis."""
        if rows_only:
            self._separate_outer_axes()

    def run(self) -> Grouping:
        self._keep_padded_points()
        self._keep_one_axis()
        self._refute_other_uses()
        count = -1
        while count != len(self.split):
            count = len(self.split)
            for read in self.reads:
                self._refute(read)
        result = Grouping()
        for holder, kept in self.kept.items():
            groups: Groups = []
            for at, place in enumerate(kept):
                if not at or (holder, kept[at - 1]) in self.split:
                    groups.append([])
                groups[-1].append(place)
            result.groups[holder] = groups
            result.ranks[holder] = len(self.extents[holder])
        return result

    def _separate_outer_axes(self) -> None:
        """Separate axes outside of the two innermost ones."""
        for holder, extents in self.extents.items():
            inner = len(extents) - 2 if isinstance(holder, SSAValue) else len(extents)
            self.split |= {(holder, place) for place in range(inner)}

    def _keep_padded_points(self) -> None:
        """Keep and separate dimensions of extent 1 that are read out of bounds (padding)."""
        for read in self.reads:
            ranges = index_ranges(read.indices)
            for dim, expr in enumerate(read.map.data.results):
                if read.source_shape[dim] == 1 and bounds(expr, ranges) != (0, 0):
                    self._restore(read.source, dim)

    def _keep_one_axis(self) -> None:
        """Keep one axis of each holder whose extents are all 1."""
        for holder, extents in self.extents.items():
            if extents and not self.kept[holder]:
                self._restore(holder, len(extents) - 1)

    def _restore(self, holder: Holder, place: int) -> None:
        if place not in self.kept[holder]:
            self.kept[holder] = sorted([*self.kept[holder], place])
            self._split_at(holder, place)

    def _split_at(self, holder: Holder, place: int) -> None:
        """Separate an axis from both neighbours."""
        kept = self.kept[holder]
        at = kept.index(place)
        self.split.add((holder, place))
        if at:
            self.split.add((holder, kept[at - 1]))

    def _refute_other_uses(self) -> None:
        """Separate axes whose value is used by anything other than read indices."""
        for stage in self.stages:
            for value in stage.body.block.args:
                place = self._place(value)
                if place.position not in self.kept[place.holder]:
                    continue
                if any(not isinstance(use.operation, ReadOp) for use in value.uses):
                    self._split_at(place.holder, place.position)

    def _place(self, axis: SSAValue) -> _Axis:
        stage = axis.owner.parent_op()
        assert isinstance(stage, ComputeOp)
        position = stage.body.block.args.index(axis)
        spatial = len(stage.spatial_extents)
        if position < spatial:
            return _Axis(stage.result, position)
        return _Axis(stage, position - spatial)

    def _is_one(self, holder: Holder, place: int) -> bool:
        return (holder, place) not in self.split and place != self.kept[holder][-1]

    def _refute(self, read: ReadOp) -> None:
        """Separate the pairs that one read does not index as a merged axis."""
        source = read.source
        kept = self.kept[source]
        together: set[tuple[Holder, int]] = set()
        for outer, inner in pairwise(kept):
            if not self._is_one(source, outer):
                continue
            pair = self._axis_pair(read, outer, inner)
            if pair is None or not self._is_one(pair.holder, pair.position):
                self.split.add((source, outer))
            else:
                together.add((pair.holder, pair.position))
        for axis in read.indices:
            if not is_axis(axis):
                continue
            place = self._place(axis)
            kept = self.kept[place.holder]
            if place.position not in kept:
                continue
            at = kept.index(place.position)
            neighbours = [place.position] + ([kept[at - 1]] if at else [])
            for first in neighbours:
                if (place.holder, first) not in together:
                    self.split.add((place.holder, first))

    def _axis_pair(self, read: ReadOp, outer: int, inner: int) -> _Axis | None:
        """Return the outer of the two adjacent axes that index two dimensions, or None."""
        first, last = self._axis_of(read, outer), self._axis_of(read, inner)
        if first is None or last is None or last[1]:
            return None
        if first[1] and sum(isinstance(n, Size) for n in read.source_shape[outer + 1 :]) > 1:
            return None  # The constant would become a product of sizes.
        place, below = self._place(first[0]), self._place(last[0])
        kept = self.kept[place.holder]
        if place.holder != below.holder or place.position not in kept:
            return None
        at = kept.index(place.position)
        if at + 1 >= len(kept) or kept[at + 1] != below.position:
            return None
        whole = self.extents[below.holder][below.position] == read.source_shape[inner]
        return place if whole else None

    def _axis_of(self, read: ReadOp, dim: int) -> tuple[SSAValue, int] | None:
        """Return the axis and the constant whose sum is an index; None for any other index."""
        total = linear_sum(read.map.data.results[dim], index_ranges(read.indices))
        match total.terms:
            case ((Dim() as atom, 1),):
                value = read.indices[atom.position]
                alone = sum(atom.position in e.used_dims() for e in read.map.data.results) == 1
                return (value, total.constant) if is_axis(value) and alone else None
            case _:
                return None
