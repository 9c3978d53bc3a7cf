"""Space of `vdla-contraction`: pieces, loop order, placement of loads, and slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from tcopt.dialects.target import VdlaTargetAttr
from tcopt.schedules.rules.accelerator.contraction_space import (
    LOADED,
    ORDERS,
    OUTPUTS_OUTSIDE,
    PIXELS_OUTSIDE,
    ContractionSpace,
    knob_names,
)
from tcopt.schedules.rules.accelerator.pieces import Pieces
from tcopt.schedules.rules.vdla.roles import VdlaRoles
from tcopt.schedules.rules.vdla.tiles import entries_of, other_entries, piece_sizes, pixel_sizes
from tcopt.schedules.rules.vdla.timing import Estimator
from tcopt.schedules.spaces.space import (
    Choice,
    Column,
    Grid,
    Knob,
    Point,
)
from tcopt.support.arithmetic.columns import ceil_div, least, most, where

_SLOTS = ("data_slots", "weight_slots", "sum_slots")
_MOST_SLOTS = (3, 3, 2)
"""Maximum slots of data, weights and sums."""

_MOST_THREADS = 2

_TIMED = 36
"""Number of choices to simulate: those with the lowest bound."""

_TIMED_OF_THREADS = 24
"""The same for virtual threads, which the model treats as slots."""

_COLUMN = 1 << 17
"""Number of choices to evaluate at once."""

_LEAST_SHARE = 8
"""Pieces with fewer pixels than the maximum by this factor are not considered for the default."""


class TileSpace(ContractionSpace):
    """Pieces of a contraction on an accelerator.

    The leading knobs are the sizes and the order of pieces, and whether an operand is loaded with
    each part of a sum or completely. By default there are as many slots as fit, and one virtual
    thread.
    """

    def __init__(self, roles: VdlaRoles, facts: VdlaTargetAttr):
        self.roles, self.facts = roles, facts
        self.timer = Estimator(roles, facts)
        self._room = tuple(facts.entries[name] for name in ("inp", "wgt", "acc"))
        self._blocks = knob_names("outputs", roles.outputs) | knob_names("depth", roles.depth)
        self._pixels = knob_names("pixels", roles.pixels)
        extents = roles.pattern.extents
        knobs = [Knob(name, tuple(piece_sizes(extents[v]))) for name, v in self._blocks.items()]
        for name, v in self._pixels.items():
            sizes = pixel_sizes(extents, roles.inputs, roles.pixels, v)
            knobs.append(Knob(name, tuple(sizes)))
        knobs += [
            Knob("order", (OUTPUTS_OUTSIDE, PIXELS_OUTSIDE), ORDERS),
            Knob("data", (0, 1), LOADED),
            Knob("weights", (0, 1), LOADED),
        ]
        self._leading = tuple(knob.name for knob in knobs)
        for name, count in zip(_SLOTS, _MOST_SLOTS, strict=True):
            knobs.append(Knob(name, tuple(range(1, count + 1))))
        knobs.append(Knob("threads", tuple(range(1, _MOST_THREADS + 1)), is_quiet=True))
        super().__init__(roles, knobs)

    @property
    def is_empty(self) -> bool:
        """Whether no piece fits the memories."""
        return not len(self._leading_points[1])

    @property
    def leading(self) -> tuple[str, ...]:
        return self._leading

    @property
    def untold(self) -> tuple[str, ...]:
        return ("data", "weights", *_SLOTS, "threads")

    def pieces(self, k: Point) -> Pieces:
        names = {**self._blocks, **self._pixels}
        sizes = {v: getattr(k, name) for name, v in names.items()}
        sizes |= dict.fromkeys(self.roles.groups, 1)
        tile = Pieces(
            sizes,
            pixels_outside=k.order == PIXELS_OUTSIDE,
            whole_data=k.data == 1,
            whole_weights=k.weights == 1,
        )
        if _SLOTS[0] not in vars(k):
            return replace(tile, slots=self._most_slots(tile))
        slots = k.data_slots, k.weight_slots, k.sum_slots
        return replace(tile, slots=slots, threads=k.threads)

    def valid(self, k: Point) -> Column:
        """Whether slots of all operands fit their memories, and threads divide the pieces."""
        tile, roles = self.pieces(k), self.roles
        fits = True
        for (entries, room), slots in zip(self._needs(tile), tile.slots, strict=True):
            fits = fits & (entries * slots * tile.threads <= room) & (slots >= 1)
        # If there are fewer sum registers than the distance between micro-ops on the same register,
        # each product needs a separate instruction.
        (_, _, (registers, _)), extents = self._needs(tile), roles.pattern.extents
        whole = prod(extents[v] for v in (*roles.outputs, *roles.pixels))
        fits = fits & (registers >= min(self.facts.rewrite.data, whole))
        # A single part counts as loaded completely.
        many = False
        for v in roles.depth:
            many = tile.sizes[v] < extents[v]
        fits = fits & (many | (tile.whole_data & tile.whole_weights))
        return fits & ((tile.threads == 1) | (self._thread_pieces(tile) % tile.threads == 0))

    def estimate(self, k: Point) -> Column:
        """Estimate the busy cycles of the units and the port."""
        return self.timer.bound(self.pieces(k))

    def ties(self, k: Point) -> Sequence[Column]:
        """Prefer the largest pieces, and operands that are loaded completely."""
        sizes = [-getattr(k, name) for name in (*self._blocks, *self._pixels)]
        return (*sizes, k.order, -k.data, -k.weights)

    def complete(self, leading: Choice) -> dict[str, int]:
        slots = self.pieces(Point(dict(leading))).slots
        return dict(leading) | dict(zip(_SLOTS, map(int, slots), strict=True)) | {"threads": 1}

    def default(self) -> dict[str, int]:
        return self.shortest()

    def shortest(
        self, slots: tuple[int, int, int] | None = None, threads: int = 1
    ) -> dict[str, int]:
        """Return the choice with the fewest simulated cycles among those with the lowest estimates.

        Empty if no choice is valid.

        Args:
            slots: slots of each operand; as many as fit by default.
            threads: virtual threads, each with one slot.
        """
        grid, points, room = self._leading_points
        if not len(points):
            return {}
        given = slots or ((threads,) * 3 if threads > 1 else None)
        k = grid.at(points)
        counts = [least(most, n) for most, n in zip(room, given or _MOST_SLOTS, strict=True)]
        k = Point(vars(k) | dict(zip(_SLOTS, counts, strict=True)) | {"threads": 1})
        costs = np.asarray(self.estimate(k), np.float64)
        kept = np.flatnonzero(np.all(np.asarray(counts) >= np.reshape(given or 1, (-1, 1)), axis=0))
        if threads > 1:
            pieces = self._thread_pieces(self.pieces(k))
            kept = kept[np.broadcast_to(pieces, len(points))[kept] % threads == 0]
        else:
            # If both operands are loaded by parts, the order matters little.
            kept = kept[((k.order == OUTPUTS_OUTSIDE) | (k.data == 1) | (k.weights == 1))[kept]]
        order = np.lexsort([key[kept] for key in reversed((costs, *self.ties(k)))])
        chosen = [
            grid.choice(points[row])
            | {name: int(count[row]) for name, count in zip(_SLOTS, counts, strict=True)}
            for row in kept[order[: _TIMED if threads == 1 else _TIMED_OF_THREADS]]
        ]
        best = self._quickest(chosen)
        if best is None:
            return {}
        if threads == 1 and not (best["data"] or best["weights"]):
            best = self._quickest([best, {**best, "order": PIXELS_OUTSIDE}]) or best
        again = dict.fromkeys(_SLOTS, 1) if threads > 1 else {}
        return best | again | {"threads": threads}

    def _quickest(self, choices: Sequence[dict[str, int]]) -> dict[str, int] | None:
        """Return the choice with the fewest cycles with one thread; the first one in a tie."""
        best: dict[str, int] | None = None
        fewest: int | None = None
        for choice in choices:
            cycles = self.timer.cycles(self.pieces(Point({**choice, "threads": 1})), fewest)
            if fewest is None or cycles < fewest:
                fewest, best = cycles, choice
        return best

    def _needs(self, tile: Pieces) -> list[tuple[Column, Column]]:
        """Return the entries of a slot of each operand, and the room for all of its slots."""
        entries, (*room, registers) = entries_of(self.roles, tile), self._room
        rest = registers - other_entries(self.roles, tile) * tile.threads
        return list(zip(entries, (*room, rest), strict=True))

    def _most_slots(self, tile: Pieces) -> tuple[Column, Column, Column]:
        """Return the number of slots that fit; 0 if not even one fits."""
        data, weights, sums = (
            least(most(room // entries, 0), count)
            for (entries, room), count in zip(self._needs(tile), _MOST_SLOTS, strict=True)
        )
        return data, weights, sums

    @cached_property
    def _leading_points(self) -> tuple[Grid, NDArray[np.int64], tuple[Column, ...]]:
        """The candidates for the default choice, and the number of slots that fit."""
        grid = Grid([knob for knob in self.knobs if knob.name in self.leading])
        per_block = max(grid.size // prod(len(knob.values) for knob in self._block_knobs), 1)
        step = per_block * max(_COLUMN // per_block, 1)
        found: list[NDArray[np.int64]] = []
        for start in range(0, grid.size, step):
            points = grid.points(range(start, min(start + step, grid.size)))
            k = grid.at(points)
            fits = np.broadcast_to(np.asarray(self.valid(k), np.bool_), len(points))
            # If many more pixels would fit with the same channels, small pieces are skipped.
            pixels = np.where(fits, prod(getattr(k, name) for name in self._pixels), 0)
            pixels = pixels.reshape(-1, per_block)
            enough = pixels * _LEAST_SHARE >= pixels.max(axis=1, keepdims=True)
            found.append(points[fits & enough.reshape(-1)])
        points = np.concatenate(found)
        slots = self.pieces(grid.at(points)).slots
        return grid, points, tuple(np.broadcast_to(count, len(points)) for count in slots)

    @property
    def _block_knobs(self) -> list[Knob]:
        return [knob for knob in self.knobs if knob.name in self._blocks]

    def _thread_pieces(self, tile: Pieces) -> Column:
        """Return the number of pieces of the variable for threads; 1 if nothing is split."""
        extents, found = self.roles.pattern.extents, 1
        for v in reversed((*self.roles.outputs, *self.roles.pixels)):
            count = ceil_div(extents[v], tile.sizes[v])
            found = where(count > 1, count, found)
        return found
