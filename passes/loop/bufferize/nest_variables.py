"""Choice of the variables of a stage's loop nest: its axes, or others that suit its reads.

If an axis is read by quotient and remainder, each part has a loop:

    %y = te.compute "weave" [%p = 8] { te.read %phases[%p floordiv 2, %p mod 2] }
->
    loop.for %p = 0 to 4 {
      loop.for %pi = 0 to 2 {
        ... loop.load %phases[%vp, %vpi] ... loop.store %y[%vp * 2 + %vpi]

A stage that permutes the result of a contraction iterates in the order of the contraction:

    %y = te.compute "transpose" [%h = 12, %s = 128, %d = 64] { te.read %sums[%s, %h * 64 + %d] }
->
    loop.for %i = 0 to 128 {
      loop.for %j = 0 to 768 {
        ... loop.load %sums[%vi, %vj] ... loop.store %y[%vj floordiv 64, %vi, %vj mod 64]

The stage then reads each element at its own variables, so that a schedule can compute it at its
producer, and only its stores are strided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from tcopt.dialects import te
from tcopt.dialects.graph.core.types import shape_of
from tcopt.dialects.table import ScaleOp
from tcopt.dialects.te.access import index_ranges
from tcopt.passes.te.te_inline import is_contraction, uses_table
from tcopt.support.arithmetic.affine import (
    Dim,
    FloorDiv,
    LinearSum,
    linear_sum,
    simplify,
    substitute,
)
from tcopt.support.arithmetic.intervals import Range, extents_to_ranges
from tcopt.support.arithmetic.permutations import inverse_permutation
from tcopt.support.arithmetic.sizes import Size, lower_bound, upper_bound
from tcopt.support.ir.literals import integers
from tcopt.support.syntax.access_syntax import unique_operands


@dataclass(frozen=True)
class NestVariables:
    """The spatial variables of a stage's nest, and the stage's axes as functions of them.

    Attributes:
        stage: the stage.
        extents: extents of the spatial variables; they may be sizes.
        hints: names of the spatial variables.
        axes: each spatial axis of the stage as an expression of the variables.
    """

    stage: te.ComputeOp
    extents: tuple[int, ...]
    hints: tuple[str | None, ...]
    axes: tuple[AffineExpr, ...]

    @classmethod
    def of(cls, stage: te.ComputeOp) -> NestVariables:
        """Return the variables that suit the stage's reads of other stages."""
        if stage.is_reduction:
            return _in_parts(stage, [1] * len(stage.spatial_extents))
        parts = _in_parts(stage, _inner_extents(stage))
        return _in_read_order(stage, parts) or parts

    @property
    def all_hints(self) -> list[str | None]:
        """Names of all variables, reduction variables included."""
        reduced = self.stage.body.block.args[len(self.axes) :]
        return [*self.hints, *(axis.name_hint for axis in reduced)]

    def place(self, map: AffineMap) -> AffineMap:
        """Rewrite a map over the spatial axes as a map over the variables."""
        ranges = _ranges_below(self.extents)
        return AffineMap(len(self.extents), 0, tuple(_mapped(map.results, self.axes, ranges)))

    def bind(self, variables: Sequence[SSAValue], sizes: Mapping[SSAValue, SSAValue]) -> Indexing:
        """Return the mapping from the stage's values to a nest with these variables.

        Args:
            sizes: the size of the loop function for each size of the stage's function.
        """
        axes = self.stage.body.block.args
        spatial = tuple(variables[: len(self.extents)])
        values = dict(sizes)
        places: dict[SSAValue, AffineExpr] = {}
        for axis, expr in zip(axes, self.axes, strict=False):
            if isinstance(expr, AffineDimExpr):
                values[axis] = spatial[expr.position]
            else:
                places[axis] = expr
        values.update(zip(axes[len(self.axes) :], variables[len(self.extents) :], strict=True))
        return Indexing(values, places, spatial, _ranges_below(self.extents))


@dataclass(frozen=True)
class Indexing:
    """Mapping from the values of a stage's body to those of a loop nest.

    Attributes:
        values: values of the nest by those of the body.
        places: for axes without a corresponding value, an expression of the spatial variables.
        spatial: the spatial variables.
        ranges: ranges of the spatial variables.
    """

    values: dict[SSAValue, SSAValue]
    places: dict[SSAValue, AffineExpr]
    spatial: tuple[SSAValue, ...]
    ranges: tuple[Range, ...]

    def apply(
        self, map: AffineMap, indices: Sequence[SSAValue]
    ) -> tuple[AffineMap, list[SSAValue]]:
        """Rewrite a map over values of the body as a map over values of the nest."""
        if not any(value in self.places for value in indices):
            return map, [self.values[value] for value in indices]
        operands = list(self.spatial)
        ranges = list(self.ranges)
        dims: list[AffineExpr] = []
        for value, range_ in zip(indices, index_ranges(indices), strict=True):
            if value in self.places:
                dims.append(self.places[value])
                continue
            dims.append(AffineDimExpr(len(operands)))
            operands.append(self.values[value])
            ranges.append(range_)
        results = tuple(_mapped(map.results, dims, ranges))
        return unique_operands(AffineMap(len(operands), 0, results), operands)


def _ranges_below(extents: Sequence[int]) -> tuple[Range, ...]:
    return extents_to_ranges(map(upper_bound, extents))


def _mapped(
    exprs: Sequence[AffineExpr], dims: Sequence[AffineExpr], ranges: Sequence[Range]
) -> list[AffineExpr]:
    return [simplify(substitute(expr, dims), ranges) for expr in exprs]


def _in_parts(stage: te.ComputeOp, sizes: Sequence[int]) -> NestVariables:
    """Return a variable for each axis, or two if the extent of its inner part is above 1."""
    extents: list[int] = []
    hints: list[str | None] = []
    axes: list[AffineExpr] = []
    for axis, extent, size in zip(
        stage.body.block.args, stage.spatial_extents, sizes, strict=False
    ):
        hint = axis.name_hint
        outer = AffineDimExpr(len(extents))
        extents.append(extent // size)
        hints.append(hint)
        if size == 1:
            axes.append(outer)
            continue
        axes.append(outer * size + AffineDimExpr(len(extents)))
        extents.append(size)
        hints.append(f"{hint}i" if hint else None)
    return NestVariables(stage, tuple(extents), tuple(hints), tuple(axes))


def _inner_extents(stage: te.ComputeOp) -> list[int]:
    """Return the extent of the inner part of each spatial axis; 1 if it is not split."""
    sizes = [1] * len(stage.spatial_extents)
    for axis, size in _quotients(stage):
        position = stage.body.block.args.index(axis)
        extent = stage.spatial_extents[position]
        if sizes[position] == 1 and extent % size == 0 and lower_bound(extent) > size:
            sizes[position] = size
    return sizes


def _quotients(stage: te.ComputeOp) -> list[tuple[SSAValue, int]]:
    """Return the axes whose quotient is an index of another stage, with the divisors.

    Transforms by a table are excluded, as they traverse their sources in a different order.
    """
    found: list[tuple[SSAValue, int]] = []
    block = stage.body.block
    if any(isinstance(op, ScaleOp) for op in block.ops):
        return found
    for read in block.ops:
        if not isinstance(read, te.ReadOp) or not isinstance(read.source.owner, te.ComputeOp):
            continue
        ranges = index_ranges(read.indices)
        for expr in read.map.data.results:
            match linear_sum(expr, ranges):
                case LinearSum(
                    terms=((FloorDiv(LinearSum(terms=((Dim() as dim, 1),), constant=0), size), 1),),
                    constant=0,
                ):
                    found.append((read.indices[dim.position], size))
                case _:
                    pass
    return [(axis, size) for axis, size in found if axis.owner is block and _only_indexes(axis)]


def _in_read_order(stage: te.ComputeOp, parts: NestVariables) -> NestVariables | None:
    """Return the variables of a contraction whose result a stage permutes, or None.

    Args:
        parts: the variables to use if vectors are along the same axis either way.
    """
    block = stage.body.block
    reads = [op for op in block.ops if isinstance(op, te.ReadOp)]
    computed = [read for read in reads if isinstance(read.source.owner, te.ComputeOp)]
    if len(computed) != 1 or not all(_only_indexes(axis) for axis in block.args):
        return None
    (read,) = computed
    source = read.source.owner
    assert isinstance(source, te.ComputeOp)
    if read.default is not None or not is_contraction(source) or uses_table(source):
        return None
    if any(value.owner is not block for value in read.indices):
        return None
    axes: list[AffineExpr] = [AffineDimExpr(block.args.index(value)) for value in read.indices]
    indices = [substitute(expr, axes) for expr in read.map.data.results]
    found = _mapped(indices, parts.axes, _ranges_below(parts.extents))
    plain = all(isinstance(expr, AffineDimExpr | AffineConstantExpr) for expr in found)
    if plain and found[-1:] == [AffineDimExpr(len(parts.extents) - 1)]:
        return None
    shape = shape_of(read.source)
    if not _reads_sizes_whole(indices, stage.spatial_extents, shape):
        return None
    bounds = [upper_bound(extent) for extent in shape]
    places = inverse_permutation(indices, integers(stage.extents), bounds)
    if places is None:
        return None
    hints = [axis.name_hint for axis in source.body.block.args[: len(shape)]]
    return NestVariables(stage, shape, tuple(hints), places)


def _reads_sizes_whole(
    indices: Sequence[AffineExpr], extents: Sequence[int], shape: Sequence[int]
) -> bool:
    """Whether each dimension whose extent is a size is indexed by one axis of the same extent.

    A permutation of all other axes is then one for every value of the sizes.
    """
    whole = [
        index.position if isinstance(index, AffineDimExpr) else None
        for index, extent in zip(indices, shape, strict=True)
        if isinstance(extent, Size)
    ]
    sizes = [extent for extent in shape if isinstance(extent, Size)]
    axes = [axis for axis, extent in enumerate(extents) if isinstance(extent, Size)]
    pairs = zip(whole, sizes, strict=True)
    return sorted(axis for axis in whole if axis is not None) == axes and all(
        axis is not None and extents[axis] == size for axis, size in pairs
    )


def _only_indexes(axis: SSAValue) -> bool:
    assert isinstance(axis.owner, Block)
    return all(isinstance(use.operation, te.ReadOp | te.IndexOp) for use in axis.uses)
