"""Base of the spaces of contractions on an accelerator: pieces as a loop nest."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from math import prod

from tcopt.schedules.rules.accelerator.pieces import Pieces
from tcopt.schedules.rules.accelerator.products import Products
from tcopt.schedules.rules.operands import operands_of
from tcopt.schedules.spaces.space import Knob, LoopLevel, NestKind, Operand, Point, Space
from tcopt.support.arithmetic.columns import Column, ceil_div, least, where

OUTPUTS_OUTSIDE, PIXELS_OUTSIDE = 0, 1
"""The orders of the loops over pieces."""

ORDERS = ("outputs outside", "pixels outside")
LOADED = ("by parts", "whole")
"""Words of the knobs for the order, and for the load of an operand."""


class ContractionSpace(Space):
    """Pieces of a contraction on an accelerator."""

    def __init__(self, found: Products, knobs: Sequence[Knob]):
        self.found = found
        super().__init__(knobs)

    @abstractmethod
    def pieces(self, k: Point) -> Pieces:
        """Return the pieces of a choice; knobs that it lacks have their defaults."""

    def nest(self, k: Point) -> Sequence[LoopLevel]:
        found, pieces = self.found, self.pieces(k)
        extents = found.pattern.extents
        levels = [LoopLevel(v, extents[v]) for v in found.groups]
        outputs, pixels = (self._levels(v, pieces) for v in (found.outputs, found.pixels))
        for first, second in zip((*outputs, *pixels), (*pixels, *outputs), strict=True):
            variable = where(pieces.pixels_outside, second.variable, first.variable)
            extent = where(pieces.pixels_outside, second.extent, first.extent)
            levels.append(LoopLevel(variable, extent))
        levels += self._levels(found.depth, pieces)
        for v in (*found.outputs, *found.depth, *found.taps, *found.pixels):
            size = least(pieces.sizes.get(v, extents[v]), extents[v])
            levels.append(LoopLevel(v, size, NestKind.UNROLLED))
        lanes = (found.lane, found.inner)
        return [*levels, *(LoopLevel(v, extents[v], NestKind.VECTOR) for v in lanes)]

    def operands(self) -> Sequence[Operand]:
        return operands_of(self.found.pattern)

    def _levels(self, variables: Sequence[int], pieces: Pieces) -> list[LoopLevel]:
        return [LoopLevel(v, self._count((v,), pieces)) for v in variables]

    def _count(self, variables: Sequence[int], pieces: Pieces) -> Column:
        """Return the number of pieces of some variables."""
        extents = self.found.pattern.extents
        return prod(ceil_div(extents[v], pieces.sizes[v]) for v in variables)


def knob_names(name: str, variables: Sequence[int]) -> dict[str, int]:
    """Return the variables by the names of their knobs: numbered, if there are several."""
    many = len(variables) > 1
    return {f"{name}_{n}" if many else name: v for n, v in enumerate(variables)}
