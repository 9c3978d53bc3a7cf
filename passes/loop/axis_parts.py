"""Axes of a stage that read another one by quotient and remainder: a loop for each part.

    %y = te.compute "weave" [%p = 8] { te.read %phases[%p floordiv 2, %p mod 2] }
->
    loop.for %p = 0 to 4 {
      loop.for %pi = 0 to 2 {
        ... loop.load %phases[%vp, %vpi] ... loop.store %y[%vp * 2 + %vpi]

The stage then reads each element at variables of its own, so that a schedule can compute it
where its input is produced, and only its store jumps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from tcopt.dialects import te
from tcopt.dialects.table import ScaleOp
from tcopt.dialects.te.access import index_ranges
from tcopt.support.access_syntax import unique_operands
from tcopt.support.affine import (
    Dim,
    FloorDiv,
    LinearSum,
    Range,
    extents_to_ranges,
    linear_sum,
    simplify,
    substitute,
)


@dataclass(frozen=True)
class AxisParts:
    """The variables of a stage's nest, which are its axes or two parts of one.

    Attributes:
        stage: the stage.
        sizes: for each spatial axis the extent of its inner part; 1 if it stays whole.
    """

    stage: te.ComputeOp
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, stage: te.ComputeOp) -> AxisParts:
        """The parts that the stage's reads of other stages ask for."""
        sizes = [1] * len(stage.spatial_extents)
        if not stage.is_reduction:
            for axis, size in _quotients(stage):
                position = stage.body.block.args.index(axis)
                extent = stage.spatial_extents[position]
                if sizes[position] == 1 and extent % size == 0 and extent > size:
                    sizes[position] = size
        return cls(stage, tuple(sizes))

    @property
    def spatial_extents(self) -> list[int]:
        """Extents of the spatial variables."""
        found: list[int] = []
        for extent, size in zip(self.stage.spatial_extents, self.sizes, strict=True):
            found += [extent] if size == 1 else [extent // size, size]
        return found

    @property
    def hints(self) -> list[str | None]:
        """Names of all variables."""
        names: list[str | None] = []
        for position, axis in enumerate(self.stage.body.block.args):
            hint = axis.name_hint
            names.append(hint)
            if position < len(self.sizes) and self.sizes[position] > 1:
                names.append(f"{hint}i" if hint else None)
        return names

    def place(self, map: AffineMap) -> AffineMap:
        """A map over the spatial axes as one over the variables."""
        dims: list[AffineExpr] = []
        count = 0
        for size in self.sizes:
            outer = AffineDimExpr(count)
            dims.append(outer if size == 1 else outer * size + AffineDimExpr(count + 1))
            count += 1 if size == 1 else 2
        ranges = extents_to_ranges(self.spatial_extents)
        return AffineMap(count, 0, tuple(_mapped(map.results, dims, ranges)))

    def bind(self, variables: Sequence[SSAValue]) -> Indexing:
        """How to index by the axes when a nest's variables are these."""
        values: dict[SSAValue, SSAValue] = {}
        inner: dict[SSAValue, tuple[SSAValue, int]] = {}
        rest = iter(variables)
        for position, axis in enumerate(self.stage.body.block.args):
            values[axis] = next(rest)
            if position < len(self.sizes) and self.sizes[position] > 1:
                inner[axis] = next(rest), self.sizes[position]
        return Indexing(values, inner)


@dataclass(frozen=True)
class Indexing:
    """What stands for each value of a stage's body.

    Attributes:
        values: its counterpart; of an axis that has two parts the outer one.
        inner: the inner part's variable and extent.
    """

    values: dict[SSAValue, SSAValue]
    inner: dict[SSAValue, tuple[SSAValue, int]]

    def apply(
        self, map: AffineMap, indices: Sequence[SSAValue]
    ) -> tuple[AffineMap, list[SSAValue]]:
        """A map over values of the body as one over their counterparts."""
        operands = [self.values[value] for value in indices]
        if not any(value in self.inner for value in indices):
            return map, operands
        ranges = list(index_ranges(indices))
        dims: list[AffineExpr] = []
        for place, value in enumerate(indices):
            dims.append(AffineDimExpr(place))
            if value in self.inner:
                variable, size = self.inner[value]
                dims[place] = dims[place] * size + AffineDimExpr(len(operands))
                operands.append(variable)
                ranges[place] = (0, (ranges[place][1] + 1) // size - 1)
                ranges.append((0, size - 1))
        results = tuple(_mapped(map.results, dims, ranges))
        return unique_operands(AffineMap(len(operands), 0, results), operands)


def _mapped(
    exprs: Sequence[AffineExpr], dims: Sequence[AffineExpr], ranges: Sequence[Range]
) -> list[AffineExpr]:
    return [simplify(substitute(expr, dims), ranges) for expr in exprs]


def _quotients(stage: te.ComputeOp) -> list[tuple[SSAValue, int]]:
    """Axes whose quotient is an index of another stage, with the divisors.

    Transforms by a table go through the stages they read in an order of their own.
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


def _only_indexes(axis: SSAValue) -> bool:
    return all(isinstance(use.operation, te.ReadOp | te.IndexOp) for use in axis.uses)
