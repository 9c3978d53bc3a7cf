"""Space of `accelerator-contraction`: pieces, slots, loop order, and placement of loads.

Its formulas use only the machine's facts, so it also serves third-party accelerators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, prod

import numpy as np

from tcopt.dialects.target import AcceleratorFacts
from tcopt.dialects.target.accelerator import MatrixInstructions, MatrixUnit
from tcopt.schedules.rules.accelerator.products import Products
from tcopt.schedules.rules.operands import operands_of
from tcopt.schedules.spaces.space import (
    Choice,
    Column,
    Knob,
    LoopLevel,
    NestKind,
    Operand,
    Point,
    Space,
)
from tcopt.support.arithmetic.columns import ceil_div, is_column, most, where
from tcopt.support.errors import InputError

OUTPUTS_OUTSIDE, PIXELS_OUTSIDE = 0, 1
"""The orders of the loops over pieces."""

_USUAL_SLOTS = 2
_MOST_SLOTS = 3
_SUM_BYTES = 4


@dataclass(frozen=True)
class Pieces:
    """How a contraction is divided into pieces; sizes are NumPy arrays for many choices.

    Attributes:
        sizes: sizes of pieces by variable.
        slots: number of slots of each operand.
        pixels_outside: whether the loop over pieces of pixels is outside of that over channels.
        whole_data, whole_weights: whether an operand is loaded once for all parts of a sum and all
            pieces that share it, instead of with each part.
    """

    sizes: Mapping[int, Column]
    slots: Column
    pixels_outside: Column = False
    whole_data: Column = False
    whole_weights: Column = False

    def order(self, found: Products) -> tuple[int, ...]:
        """Return the variables of the results in loop order, outermost first."""
        first, second = found.outputs, found.pixels
        if self.pixels_outside:
            first, second = second, first
        return (*found.groups, *first, *second)

    def __str__(self) -> str:
        told = [f"{'x'.join(map(str, self.sizes.values()))}, {self.slots} slots"]
        told += ["pixels outside"] if self.pixels_outside else []
        told += ["whole data"] if self.whole_data else []
        return ", ".join(told + (["whole weights"] if self.whole_weights else []))


class PieceSpace(Space):
    """Pieces of a contraction on an accelerator that is described by its facts.

    The leading knobs are the sizes of pieces and the number of slots. By default operands are
    loaded with each part of a sum, into two slots if they fit.
    """

    def __init__(
        self,
        found: Products,
        facts: AcceleratorFacts,
        unit: MatrixUnit,
        names: MatrixInstructions,
    ):
        self.found, self.facts, self.unit, self.names = found, facts, unit, names
        extents = found.pattern.extents
        self._sized: dict[str, int] = {}
        for name, variables in (
            ("outputs", found.outputs),
            ("pixels", found.pixels),
            ("depth", found.depth),
        ):
            many = len(variables) > 1
            self._sized |= {f"{name}_{n}" if many else name: v for n, v in enumerate(variables)}
        knobs = [Knob(name, piece_sizes(extents[v])) for name, v in self._sized.items()]
        knobs.append(Knob("slots", tuple(range(1, _MOST_SLOTS + 1))))
        self._leading = tuple(knob.name for knob in knobs)
        loaded = ("by parts", "whole")
        knobs += [
            Knob("order", (0, 1), ("outputs outside", "pixels outside"), is_quiet=True),
            Knob("data", (0, 1), loaded, is_quiet=True),
            Knob("weights", (0, 1), loaded, is_quiet=True),
        ]
        super().__init__(knobs)

    @property
    def is_empty(self) -> bool:
        """Whether no piece fits the memories."""
        return self._default is None

    @property
    def leading(self) -> tuple[str, ...]:
        return self._leading

    @property
    def untold(self) -> tuple[str, ...]:
        return ("slots", "data", "weights")

    def pieces(self, k: Point) -> Pieces:
        """Return the pieces of a choice; knobs that it lacks have their defaults."""
        sizes: dict[int, Column] = dict.fromkeys(self.found.groups, 1)
        sizes |= {v: getattr(k, name) for name, v in self._sized.items()}
        given = vars(k)
        order, data, weights = (given.get(name, 0) for name in ("order", "data", "weights"))
        return Pieces(sizes, k.slots, order == PIXELS_OUTSIDE, data == 1, weights == 1)

    def valid(self, k: Point) -> Column:
        """Whether slots of all operands fit their memories."""
        pieces = self.pieces(k)
        needed: dict[str, Column] = {}
        scopes = (self.names.data, self.names.weights, self.names.sums)
        for scope, size in zip(scopes, self._bytes(pieces), strict=True):
            needed[scope] = needed.get(scope, 0) + size * pieces.slots
        fits: Column = True
        for scope, size in needed.items():
            memory = self.facts.memories[scope]
            fits = fits & (size <= memory.entries * memory.entry_bytes)
        return fits

    def usual(self, k: Point) -> Column:
        return self.valid(k) & (k.slots <= _USUAL_SLOTS)

    def estimate(self, k: Point) -> Column:
        """Estimate cycles; port and unit overlap if there are several slots."""
        found, pieces = self.found, self.pieces(k)
        groups, outputs, pixels, parts = (
            self._count(variables, pieces)
            for variables in (found.groups, found.outputs, found.pixels, found.depth)
        )
        results = groups * outputs * pixels
        data, weights, sums = (self._transfer(size) for size in self._bytes(pieces))
        # An operand that is loaded completely is loaded in the innermost loop that moves it.
        whole_data = groups * where(pieces.pixels_outside, pixels, outputs * pixels)
        whole_weights = groups * where(pieces.pixels_outside, outputs * pixels, outputs)
        port = results * sums
        port = port + data * where(pieces.whole_data, whole_data, results * parts)
        port = port + weights * where(pieces.whole_weights, whole_weights, results * parts)
        products = prod(found.pattern.extents) * self.unit.cycles // self.unit.products
        return where(k.slots > 1, most(port, products), port + products)

    def ties(self, k: Point) -> Sequence[Column]:
        """Prefer the largest pieces, and more slots."""
        return [-getattr(k, name) for name in self._leading]

    def complete(self, leading: Choice) -> dict[str, int]:
        return {**leading, "order": OUTPUTS_OUTSIDE, "data": 0, "weights": 0}

    def default(self) -> dict[str, int]:
        if self._default is None:
            raise InputError("no piece fits the accelerator's memories")
        return dict(self._default)

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
            levels.append(LoopLevel(v, pieces.sizes.get(v, extents[v]), NestKind.UNROLLED))
        lanes = (found.lane, found.inner)
        return [*levels, *(LoopLevel(v, extents[v], NestKind.VECTOR) for v in lanes)]

    def operands(self) -> Sequence[Operand]:
        return operands_of(self.found.pattern)

    @cached_property
    def _default(self) -> dict[str, int] | None:
        try:
            return super().default()
        except InputError:
            return None

    def _levels(self, variables: Sequence[int], pieces: Pieces) -> list[LoopLevel]:
        return [LoopLevel(v, self._count((v,), pieces)) for v in variables]

    def _count(self, variables: Sequence[int], pieces: Pieces) -> Column:
        """Return the number of pieces of some variables."""
        extents = self.found.pattern.extents
        return prod(ceil_div(extents[v], pieces.sizes[v]) for v in variables)

    def _bytes(self, pieces: Pieces) -> tuple[Column, Column, Column]:
        """Return the bytes of a piece's data, weights and sums."""
        found = self.found
        parts = dict(pieces.sizes)
        whole = {v: n for v, n in parts.items() if v not in found.depth}
        data, weights = (
            where(is_whole, found.entries(access, whole), found.entries(access, parts))
            for access, is_whole in (
                (found.data, pieces.whole_data),
                (found.weights, pieces.whole_weights),
            )
        )
        spatial = (*found.outputs, *found.pixels, *found.groups)
        sums = prod(parts[v] for v in spatial) * found.pattern.extents[found.lane]
        return data, weights, sums * _SUM_BYTES

    def _transfer(self, size: Column) -> Column:
        """Return the cycles of a transfer; the facts compute them for one size at a time."""
        latency = self.facts.memory_port.latency
        if not is_column(size):
            return self.facts.transfer_cycles(1, int(size)) + latency
        values, place = np.unique(np.asarray(size), return_inverse=True)
        cycles = [self.facts.transfer_cycles(1, int(value)) + latency for value in values]
        return np.asarray(cycles)[place.reshape(np.shape(size))]


def piece_sizes(extent: int) -> tuple[int, ...]:
    """Return the extent and about a half, a third, ... of it, down to one, in ascending order."""
    found, pieces = {1}, 1
    while pieces < extent:
        found.add(ceil(extent / pieces))
        pieces = pieces + 1 if pieces < 4 else 2 * pieces
    return tuple(sorted(found))
