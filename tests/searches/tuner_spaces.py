"""A space with synthetic times by a formula, for tests of searches without code."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np
from numpy.typing import NDArray

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
from tcopt.support.arithmetic.columns import ceil_div, where

LANES = 16
REGISTERS = 32


class ProductSpace(Space):
    """Tiles of a matrix product.

    Args:
        height, width, depth: extents of the product.
        wide: whether there are more knobs, with billions of choices.
    """

    def __init__(self, height: int, width: int, depth: int, *, wide: bool = False):
        self.sizes = height, width, depth
        knobs = [
            Knob("rows", tuple(range(1, 17))),
            Knob("vectors", (1, 2, 3, 4, 5, 6)),
            Knob("steps", (1, 2, 4, 8)),
            Knob("chunk", (1, 2, 4, 8, 16, 32)),
            Knob("panel", (1, 2, 4, 8, 16)),
            Knob("order", (0, 1), ("rows", "columns")),
            Knob("parallel", (0, 1, 2)),
        ]
        if wide:
            knobs += [Knob(f"part{i}", tuple(range(1, 33))) for i in range(5)]
        super().__init__(knobs)
        self.wide = wide

    def valid(self, k: Point) -> Column:
        return k.rows * k.vectors + k.vectors + 1 <= REGISTERS

    def estimate(self, k: Point) -> Column:
        """Estimate by the tile alone, like a rule's: it ignores other factors."""
        waste = self._waste(k)
        return waste * (1 + 4 / (k.rows * k.vectors) + 1 / k.vectors)

    @property
    def leading(self) -> tuple[str, ...]:
        return ("rows", "vectors")

    def complete(self, leading: Choice) -> dict[str, int]:
        rest = {knob.name: knob.values[0] for knob in self.knobs} | {"steps": 4, "parallel": 1}
        return rest | dict(leading)

    def nest(self, k: Point) -> Sequence[LoopLevel]:
        height, width, depth = self.sizes
        tiles = ceil_div(height, k.rows)
        panels = ceil_div(width, k.vectors * LANES)
        first = where(k.order == 0, 0, 1)
        outer = ceil_div(tiles, k.chunk), ceil_div(panels, k.panel)
        kinds = [
            where(k.parallel > n, int(NestKind.PARALLEL), int(NestKind.SERIAL)) for n in range(2)
        ]
        return [
            LoopLevel(first, where(k.order == 0, *outer), kinds[0]),
            LoopLevel(1 - first, where(k.order == 0, *outer[::-1]), kinds[1]),
            LoopLevel(1, k.panel),
            LoopLevel(0, k.chunk),
            LoopLevel(2, ceil_div(depth, k.steps)),
            LoopLevel(2, k.steps, NestKind.UNROLLED),
            LoopLevel(0, k.rows, NestKind.UNROLLED),
            LoopLevel(1, k.vectors, NestKind.UNROLLED),
            LoopLevel(1, LANES, NestKind.VECTOR),
        ]

    def operands(self) -> Sequence[Operand]:
        height, width, depth = self.sizes
        return [
            Operand((height, width), 4, ((1, 0), (0, 1), (0, 0)), is_output=True),
            Operand((height, depth), 4, ((1, 0), (0, 0), (0, 1)), is_output=False),
            Operand((depth, width), 4, ((0, 0), (0, 1), (1, 0)), is_output=False),
        ]

    def _waste(self, k: Point) -> Column:
        height, width, _ = self.sizes
        rows = ceil_div(height, k.rows) * k.rows / height
        return rows * ceil_div(width, k.vectors * LANES) * k.vectors * LANES / width

    def time_ns(self, points: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the times of choices by a formula that the estimate approximates."""
        k = self.at(points)
        height, width, depth = self.sizes
        work = height * width * depth / 64
        reads = 1 + 2 / k.rows + 0.6 / k.vectors
        loop = 1 + 0.5 / k.steps + 0.08 * (k.steps == 8) * (k.rows * k.vectors > 20)
        panel = k.panel * k.vectors * LANES * depth * 4
        rows = k.chunk * k.rows * depth * 4
        beyond = 1 + 0.3 * (panel > 256e3) + 0.2 * (rows > 512e3) + 0.25 * (panel + rows > 1e6)
        order = 1 + 0.1 * ((k.order == 1) ^ (width > height))
        tasks = np.where(k.parallel == 0, 1, ceil_div(ceil_div(height, k.rows), k.chunk))
        tasks = np.where(k.parallel == 2, tasks * ceil(width / 64), tasks)
        threads = ceil_div(tasks, 2) / tasks + 0.002 * tasks / 100
        time = work * self._waste(k) * reads * loop * beyond * order * threads
        if self.wide:
            for number in range(5):
                best = 3 + 5 * number
                time = time * (1 + 0.04 * np.abs(getattr(k, f"part{number}") - best) ** 0.5)
        return np.asarray(time, np.float64)
