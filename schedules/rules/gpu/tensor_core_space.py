"""Space of `gpu-tensor-core-tile`: matrices of a warp, warps of a block, parts of sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from tcopt.dialects.intrinsics import Intrinsic
from tcopt.schedules.analysis.patterns import BlockPattern
from tcopt.schedules.rules.gpu.split_sum import beside_time
from tcopt.schedules.rules.gpu.tensor_core_choice import (
    FRAGMENTS,
    STEPS,
    WARPS,
    WarpTile,
    WarpTileCosts,
)
from tcopt.schedules.rules.gpu.tensor_core_roles import WarpRoles
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
from tcopt.support.arithmetic.columns import ceil_div, is_column, where
from tcopt.support.machines.thread_blocks import ThreadBlocks

MATRICES = ("down", "along", "across")
"""Knobs for the matrices of a warp: along rows, spans and columns."""

IN_BLOCK = ("warps_down", "warps_along", "warps_across")
"""Knobs for the warps of a block."""

Numbers = tuple[int, ...]


class WarpTileSpace(Space):
    """Tiles of a contraction on tensor cores.

    Args:
        mmas: intrinsics for matrix products of its types.
        tile, parts: tile and parts with the lowest estimated time.
        counts: candidate numbers of parts of a sum.
        share: estimated time relative to that without tensor cores; None if there is no
            alternative.
    """

    def __init__(
        self,
        pattern: BlockPattern,
        roles: WarpRoles,
        mmas: Sequence[Intrinsic],
        facts: ThreadBlocks,
        tile: WarpTile,
        parts: int,
        counts: Sequence[int],
        share: float | None = None,
    ):
        self.pattern, self.roles, self.facts, self.share = pattern, roles, facts, share
        self._mmas, self._first, self._parts = tuple(mmas), tile, parts
        self._costs: dict[int, WarpTileCosts] = {}
        self._known: dict[Numbers, float] = {}
        names = tuple(each.name for each in mmas)
        knobs = [Knob("product", tuple(range(len(names))), names)]
        # Intrinsics with the smallest matrices need the most products.
        for number, (variable, values) in enumerate(zip(self._variables, FRAGMENTS, strict=True)):
            extent = 1 if variable is None else pattern.extents[variable]
            for name, sizes, own in (
                (MATRICES[number], values, tile.fragments[number]),
                (IN_BLOCK[number], WARPS, tile.warps[number]),
            ):
                knobs.append(Knob(name, tuple(sorted({own, *(n for n in sizes if n <= extent)}))))
        knobs += [
            Knob("steps", tuple(sorted({tile.steps, *STEPS}))),
            Knob("stages", WarpTileCosts(pattern, roles, facts).stages),
            Knob("parts", tuple(sorted({1, parts, *counts}))),
        ]
        super().__init__(knobs)

    @property
    def _variables(self) -> tuple[int, int | None, int]:
        return self.roles.rows, self.roles.spans, self.roles.columns

    def default(self) -> dict[str, int]:
        tile = self._first
        return {
            "product": self._mmas.index(tile.mma),
            **dict(zip(MATRICES, tile.fragments, strict=True)),
            **dict(zip(IN_BLOCK, tile.warps, strict=True)),
            "steps": tile.steps,
            "stages": tile.stages,
            "parts": self._parts,
        }

    def tile(self, choice: Choice) -> WarpTile:
        """Return the tile of a choice."""
        down, along, across = (choice[name] for name in MATRICES)
        warps_down, warps_along, warps_across = (choice[name] for name in IN_BLOCK)
        return WarpTile(
            self._mmas[choice["product"]],
            (down, along, across),
            (warps_down, warps_along, warps_across),
            choice["steps"],
            choice["stages"],
        )

    def valid(self, k: Point) -> Column:
        threads: Column = self.facts.warp
        fine: Column = True
        for number, variable in enumerate(self._variables):
            matrices, warps = (getattr(k, names[number]) for names in (MATRICES, IN_BLOCK))
            threads = threads * warps
            size = self._shape(k, number // 2) if number != 1 else 1
            extent = 1 if variable is None else self.pattern.extents[variable]
            # Each warp must have work.
            fine = fine & ((matrices == 1) | (matrices * size < extent + size))
            fine = fine & ((warps == 1) | ((warps - 1) * matrices * size < extent))
        fine = fine & (threads <= self.facts.usual_threads)
        depth = self.pattern.extents[self.roles.depth] // k.parts
        terms = k.steps * self._shape(k, 2)
        fine = fine & ((k.steps == 1) | (terms < depth + self._shape(k, 2)))
        # Elements beyond the end of a part belong to the next part.
        fine = fine & ((k.parts == 1) | (depth % terms == 0))
        fine = fine & ((k.parts == 1) | (self.pattern.extents[self.roles.depth] % k.parts == 0))
        return (
            self._of_each(k, fine, self._fits).astype(bool)
            if is_column(fine)
            else (bool(fine) and bool(self._fits(self._numbers(k))))
        )

    def estimate(self, k: Point) -> Column:
        """Estimate the cycles of all launches."""
        if not is_column(k.steps):
            return self._time(self._numbers(k))
        return self._of_each(k, np.ones(len(k.steps), bool), self._time)

    def _numbers(self, k: Point) -> Numbers:
        return tuple(int(getattr(k, knob.name)) for knob in self.knobs)

    def _of_each(self, k: Point, wanted: Column, ask: Callable[[Numbers], float]) -> Column:
        """Evaluate `ask` once for each distinct wanted choice; 0 for the others."""
        rows = np.stack([getattr(k, knob.name) for knob in self.knobs], axis=1)
        found = np.zeros(len(rows))
        kept = np.flatnonzero(np.broadcast_to(wanted, len(rows)))
        unique, places = np.unique(rows[kept], axis=0, return_inverse=True)
        told = np.asarray([ask(tuple(row)) for row in unique.tolist()], np.float64)
        if len(kept):
            found[kept] = told[places.reshape(-1)]
        return found

    def _fits(self, numbers: Numbers) -> float:
        choice = self._choice(numbers)
        return float(self._costs_of(choice["parts"]).fits(self.tile(choice)))

    def _time(self, numbers: Numbers) -> float:
        if numbers not in self._known:
            choice = self._choice(numbers)
            parts = choice["parts"]
            alone = self._costs_of(parts).time(self.tile(choice))
            self._known[numbers] = alone + beside_time(self.pattern, parts, self.facts)
        return self._known[numbers]

    def _choice(self, numbers: Numbers) -> dict[str, int]:
        return dict(zip((knob.name for knob in self.knobs), numbers, strict=True))

    def _costs_of(self, parts: int) -> WarpTileCosts:
        if parts not in self._costs:
            self._costs[parts] = WarpTileCosts(self.pattern, self.roles, self.facts, parts)
        return self._costs[parts]

    def _shape(self, k: Point, place: int) -> Column:
        """Return the rows, columns or depth of a product."""
        found: Column = 1
        for number, mma in enumerate(self._mmas):
            size = WarpTile(mma, (1, 1, 1), (1, 1, 1), 1).shape[place]
            found = where(k.product == number, size, found)
        return found

    def nest(self, k: Point) -> Sequence[LoopLevel]:
        extents, depth = self.pattern.extents, self.roles.depth
        block, thread, unrolled = NestKind.BLOCK, NestKind.THREAD, NestKind.UNROLLED
        placed = {*self._variables, depth}
        levels = [LoopLevel(v, extents[v], block) for v in self.pattern.spatial if v not in placed]
        levels.append(LoopLevel(depth, k.parts, block))
        blocks, warps, matrices, elements = (list[LoopLevel]() for _ in range(4))
        for number, v in enumerate(self._variables):
            if v is None:
                continue
            own, together = (getattr(k, names[number]) for names in (MATRICES, IN_BLOCK))
            size = self._shape(k, number // 2) if number != 1 else 1
            blocks.append(LoopLevel(v, ceil_div(extents[v], own * together * size), block))
            warps.append(LoopLevel(v, together, thread))
            matrices.append(LoopLevel(v, own, unrolled))
            elements.append(LoopLevel(v, size, thread if number == 0 else NestKind.VECTOR))
        terms = k.steps * self._shape(k, 2)
        sums = [LoopLevel(depth, ceil_div(ceil_div(extents[depth], k.parts), terms))]
        sums += [LoopLevel(v, extents[v]) for v in self.pattern.reduce if v != depth]
        sums.append(LoopLevel(depth, k.steps))
        inner = [*matrices, LoopLevel(depth, self._shape(k, 2), unrolled), *elements]
        return [*levels, *blocks, *warps, *sums, *inner]

    @property
    def untold(self) -> tuple[str, ...]:
        """Knobs for the intrinsic, and for fetching parts ahead."""
        return ("product", "stages")

    @cached_property
    def _operands(self) -> Sequence[Operand]:
        return operands_of(self.pattern)

    def operands(self) -> Sequence[Operand]:
        return self._operands
