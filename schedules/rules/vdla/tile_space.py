"""Space of `vdla-contraction`: pieces, loop order, placement of loads, and slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from tcopt.dialects.target import VdlaTargetAttr
from tcopt.schedules.rules.operands import operands_of
from tcopt.schedules.rules.vdla.roles import Roles
from tcopt.schedules.rules.vdla.tiles import (
    Tile,
    entries_of,
    other_entries,
    piece_sizes,
    pixel_sizes,
)
from tcopt.schedules.rules.vdla.timing import Estimator
from tcopt.schedules.spaces.space import (
    Choice,
    Column,
    Grid,
    Knob,
    LoopLevel,
    NestKind,
    Operand,
    Point,
    Space,
)
from tcopt.support.arithmetic.columns import ceil_div, least, most, where

OUTPUTS_OUTSIDE, PIXELS_OUTSIDE = 0, 1
"""The orders of the loops over pieces."""

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


class TileSpace(Space):
    """Pieces of a contraction on an accelerator.

    The leading knobs are the sizes and the order of pieces, and whether an operand is loaded with
    each part of a sum or completely. By default there are as many slots as fit, and one virtual
    thread.
    """

    def __init__(self, roles: Roles, facts: VdlaTargetAttr):
        self.roles, self.facts = roles, facts
        self.timer = Estimator(roles, facts)
        self._room = tuple(facts.entries[name] for name in ("inp", "wgt", "acc"))
        self._blocks = self._names("outputs", roles.outputs)
        self._blocks |= {} if roles.depth is None else {"depth": roles.depth}
        self._pixels = self._names("pixels", roles.pixels)
        extents = roles.pattern.extents
        knobs = [Knob(name, tuple(piece_sizes(extents[v]))) for name, v in self._blocks.items()]
        for name, v in self._pixels.items():
            sizes = pixel_sizes(extents, roles.data, roles.pixels, v)
            knobs.append(Knob(name, tuple(sizes)))
        loaded = ("by parts", "whole")
        knobs += [
            Knob("order", (OUTPUTS_OUTSIDE, PIXELS_OUTSIDE), ("outputs outside", "pixels outside")),
            Knob("data", (0, 1), loaded),
            Knob("weights", (0, 1), loaded),
        ]
        self._leading = tuple(knob.name for knob in knobs)
        for name, count in zip(_SLOTS, _MOST_SLOTS, strict=True):
            knobs.append(Knob(name, tuple(range(1, count + 1))))
        knobs.append(Knob("threads", tuple(range(1, _MOST_THREADS + 1)), is_quiet=True))
        super().__init__(knobs)

    @staticmethod
    def _names(name: str, variables: Sequence[int]) -> dict[str, int]:
        many = len(variables) > 1
        return {f"{name}_{n}" if many else name: v for n, v in enumerate(variables)}

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

    def tile(self, k: Point) -> Tile:
        """Return the tile of a choice; if it has no slots, use as many as fit."""
        names = {**self._blocks, **self._pixels}
        sizes = {v: getattr(k, name) for name, v in names.items()}
        sizes |= dict.fromkeys(self.roles.shared, 1)
        tile = Tile(sizes, k.order == OUTPUTS_OUTSIDE, k.data == 1, k.weights == 1)
        given = vars(k)
        if _SLOTS[0] not in given:
            return replace(tile, slots=self._most_slots(tile))
        slots = k.data_slots, k.weight_slots, k.sum_slots
        return replace(tile, slots=slots, threads=k.threads)

    def valid(self, k: Point) -> Column:
        """Whether slots of all operands fit their memories, and threads divide the pieces."""
        tile, roles = self.tile(k), self.roles
        fits = True
        for (entries, room), slots in zip(self._needs(tile), tile.slots, strict=True):
            fits = fits & (entries * slots * tile.threads <= room) & (slots >= 1)
        # If there are fewer sum registers than the distance between micro-ops on the same register,
        # each product needs a separate instruction.
        (_, _, (registers, _)), extents = self._needs(tile), roles.pattern.extents
        whole = prod(extents[v] for v in (*roles.outputs, *roles.pixels))
        fits = fits & (registers >= min(self.facts.rewrite.data, whole))
        if roles.depth is not None:
            # A single part counts as loaded completely.
            many = tile.sizes[roles.depth] < extents[roles.depth]
            fits = fits & (many | (tile.whole_data & tile.whole_weights))
        else:
            fits = fits & tile.whole_data & tile.whole_weights
        return fits & ((tile.threads == 1) | (self._thread_pieces(tile) % tile.threads == 0))

    def estimate(self, k: Point) -> Column:
        """Estimate the busy cycles of the units and the port."""
        return self.timer.bound(self.tile(k))

    def ties(self, k: Point) -> Sequence[Column]:
        """Prefer the largest pieces, and operands that are loaded completely."""
        sizes = [-getattr(k, name) for name in (*self._blocks, *self._pixels)]
        return (*sizes, k.order, -k.data, -k.weights)

    def complete(self, leading: Choice) -> dict[str, int]:
        slots = self.tile(Point(dict(leading))).slots
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
            pieces = self._thread_pieces(self.tile(k))
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
            cycles = self.timer.cycles(self.tile(Point({**choice, "threads": 1})), fewest)
            if fewest is None or cycles < fewest:
                fewest, best = cycles, choice
        return best

    def nest(self, k: Point) -> Sequence[LoopLevel]:
        roles, tile = self.roles, self.tile(k)
        extents = roles.pattern.extents
        levels = [LoopLevel(v, extents[v]) for v in roles.shared]
        outputs, pixels = (self._pieces(vs, tile) for vs in (roles.outputs, roles.pixels))
        for first, second in zip((*outputs, *pixels), (*pixels, *outputs), strict=True):
            levels.append(_either(tile.outputs_outer, first, second))
        parts = () if roles.depth is None else (roles.depth,)
        levels += self._pieces(parts, tile)
        inside = (*roles.outputs, *parts, *roles.taps, *roles.pixels)
        for v in inside:
            size = least(tile.sizes[v], extents[v]) if v in tile.sizes else extents[v]
            levels.append(LoopLevel(v, size, NestKind.UNROLLED))
        vector = NestKind.VECTOR
        return [*levels, *(LoopLevel(v, extents[v], vector) for v in (roles.lanes, roles.inner))]

    def operands(self) -> Sequence[Operand]:
        return operands_of(self.roles.pattern)

    def _pieces(self, variables: Sequence[int], tile: Tile) -> list[LoopLevel]:
        extents = self.roles.pattern.extents
        return [LoopLevel(v, ceil_div(extents[v], tile.sizes[v])) for v in variables]

    def _needs(self, tile: Tile) -> list[tuple[Column, Column]]:
        """Return the entries of a slot of each operand, and the room for all of its slots."""
        entries, (*room, registers) = entries_of(self.roles, tile), self._room
        rest = registers - other_entries(self.roles, tile) * tile.threads
        return list(zip(entries, (*room, rest), strict=True))

    def _most_slots(self, tile: Tile) -> tuple[Column, Column, Column]:
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
        slots = self.tile(grid.at(points)).slots
        return grid, points, tuple(np.broadcast_to(count, len(points)) for count in slots)

    @property
    def _block_knobs(self) -> list[Knob]:
        return [knob for knob in self.knobs if knob.name in self._blocks]

    def _thread_pieces(self, tile: Tile) -> Column:
        """Return the number of pieces of the variable for threads; 1 if nothing is split."""
        extents, found = self.roles.pattern.extents, 1
        for v in reversed((*self.roles.outputs, *self.roles.pixels)):
            count = ceil_div(extents[v], tile.sizes[v])
            found = where(count > 1, count, found)
        return found


def _either(condition: Column, yes: LoopLevel, no: LoopLevel) -> LoopLevel:
    """Return one loop or the other, depending on a condition."""
    variable = where(condition, yes.variable, no.variable)
    return LoopLevel(variable, where(condition, yes.extent, no.extent))
