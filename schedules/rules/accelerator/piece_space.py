"""Space of `accelerator-contraction`: pieces, slots, loop order, and placement of loads.

Its formulas use only the machine's facts, so it also serves third-party accelerators.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import ceil, prod

import numpy as np

from tcopt.dialects.target import AcceleratorFacts
from tcopt.dialects.target.accelerator import MatrixInstructions, MatrixUnit
from tcopt.schedules.rules.accelerator.contraction_space import (
    LOADED,
    ORDERS,
    OUTPUTS_OUTSIDE,
    PIXELS_OUTSIDE,
    ContractionSpace,
    knob_names,
)
from tcopt.schedules.rules.accelerator.pieces import Pieces
from tcopt.schedules.rules.accelerator.products import Products
from tcopt.schedules.spaces.space import (
    Choice,
    Column,
    Knob,
    Point,
)
from tcopt.support.arithmetic.columns import is_column, most, where
from tcopt.support.errors import InputError

_USUAL_SLOTS = 2
_MOST_SLOTS = 3
_SUM_BYTES = 4


class PieceSpace(ContractionSpace):
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
        self.facts, self.unit, self.names = facts, unit, names
        extents = found.pattern.extents
        self._sized = knob_names("outputs", found.outputs) | knob_names("pixels", found.pixels)
        self._sized |= knob_names("depth", found.depth)
        knobs = [Knob(name, piece_sizes(extents[v])) for name, v in self._sized.items()]
        knobs.append(Knob("slots", tuple(range(1, _MOST_SLOTS + 1))))
        self._leading = tuple(knob.name for knob in knobs)
        knobs += [
            Knob("order", (0, 1), ORDERS, is_quiet=True),
            Knob("data", (0, 1), LOADED, is_quiet=True),
            Knob("weights", (0, 1), LOADED, is_quiet=True),
        ]
        super().__init__(found, knobs)

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
        sizes: dict[int, Column] = dict.fromkeys(self.found.groups, 1)
        sizes |= {v: getattr(k, name) for name, v in self._sized.items()}
        given = vars(k)
        order, data, weights = (given.get(name, 0) for name in ("order", "data", "weights"))
        return Pieces(sizes, (k.slots,) * 3, order == PIXELS_OUTSIDE, data == 1, weights == 1)

    def valid(self, k: Point) -> Column:
        """Whether slots of all operands fit their memories."""
        pieces = self.pieces(k)
        needed: dict[str, Column] = {}
        scopes = (self.names.data, self.names.weights, self.names.sums)
        for scope, size in zip(scopes, self._bytes(pieces), strict=True):
            needed[scope] = needed.get(scope, 0) + size * k.slots
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

    @cached_property
    def _default(self) -> dict[str, int] | None:
        try:
            return super().default()
        except InputError:
            return None

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
