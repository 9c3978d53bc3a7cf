"""Footprints of a loop nest at each of its levels, by formulas over columns of choices.

At a level, the loops from there inwards run once, and the outer ones are fixed. The iterations are
the product of the inner extents. The footprint of a buffer is a box, whose sides follow from the
step of each variable in each index.

    for i in 4:             # level 0: 16 iterations; A[i, k] 4 x 4 elements
      for k in 4:           # level 1:  4 iterations; A[i, k] 1 x 4
                            # level 2:  1 iteration;  A[i, k] 1
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from tcopt.schedules.spaces.space import LoopLevel, NestKind, Operand
from tcopt.support.machines.alignment import ALIGNMENT

Floats = NDArray[np.float32]

LINE = ALIGNMENT
"""Bytes of a cache line."""


@dataclass(frozen=True)
class NestMeasures:
    """Measures of the loop nests of `n` choices, with L loops each, outermost first.

    Attributes:
        extents, kinds, variables: of each loop, [L, n].
        iterations: of the loops from a level inwards, [L + 1, n]; 1 at the last.
        elements, lines: footprint of each operand in elements and in cache lines, [L + 1, n].
        padded: for each variable the product of its loops' extents, [variables, n]; larger than its
            trip count if a tail is padded.
    """

    extents: Floats
    kinds: NDArray[np.int8]
    variables: NDArray[np.int8]
    iterations: Floats
    elements: list[Floats]
    lines: list[Floats]
    padded: Floats


def measure_nest(
    levels: Sequence[LoopLevel], operands: Sequence[Operand], count: int
) -> NestMeasures:
    """Measure the nests of `count` choices.

    Args:
        levels: the loops, whose fields are scalars or columns of `count` values.
    """
    variables = max((len(operand.steps) for operand in operands), default=0)
    for level in levels:
        variables = max(variables, int(np.max(level.variable)) + 1)
    boxes = [_Box(operand, variables, count) for operand in operands]
    inside = [np.ones(count, np.float32) for _ in range(variables)]
    iterations = np.ones((len(levels) + 1, count), np.float32)
    extents = np.empty((len(levels), count), np.float32)
    kinds = np.empty((len(levels), count), np.int8)
    moving = np.empty((len(levels), count), np.int8)
    for number in range(len(levels) - 1, -1, -1):
        level = levels[number]
        extents[number], kinds[number] = level.extent, level.kind
        moving[number] = level.variable
        iterations[number] = iterations[number + 1] * extents[number]
        touched = _grow(inside, moving[number], level.variable, extents[number])
        for box in boxes:
            box.grow(inside, touched)
    elements = [np.stack(box.elements[::-1]) for box in boxes]
    lines = [np.stack(box.lines[::-1]) for box in boxes]
    padded = np.stack(inside) if inside else np.ones((0, count), np.float32)
    return NestMeasures(extents, kinds, moving, iterations, elements, lines, padded)


def _grow(
    inside: list[Floats], column: NDArray[np.int8], variable: object, extent: Floats
) -> list[int]:
    """Multiply a variable's covered range by a loop's extent; return the changed variables."""
    if not isinstance(variable, np.ndarray):
        number = int(column[0]) if len(column) else 0
        inside[number] = inside[number] * extent
        return [number]
    touched = [int(v) for v in np.unique(column)]
    for number in touched:
        inside[number] = np.where(column == number, inside[number] * extent, inside[number])
    return touched


class _Box:
    """Footprint of an operand inside a loop nest, extended one loop level at a time."""

    def __init__(self, operand: Operand, variables: int, count: int):
        self.shape, self.bytes = operand.shape, operand.element_bytes
        rest = ((0,) * len(operand.shape),) * (variables - len(operand.steps))
        self.steps = (*operand.steps, *rest)
        ones = np.ones(count, np.float32)
        self._sides: list[Floats] = [ones] * len(operand.shape)
        self._counts: list[Floats] = [ones] * len(operand.shape)
        last = operand.shape[-1] if operand.shape else 1
        # Rows shorter than a line share lines.
        self._least = min(1.0, last * operand.element_bytes / LINE)
        self.elements = [ones]
        self.lines = [np.full(count, self._least, np.float32)]

    def grow(self, inside: Sequence[Floats], touched: Sequence[int]) -> None:
        """Extend the footprint by a loop level that moves these variables."""
        dims = {d for v in touched for d, step in enumerate(self.steps[v]) if step}
        if not dims:
            self.elements.append(self.elements[-1])
            self.lines.append(self.lines[-1])
            return
        for dim in dims:
            self._sides[dim], self._counts[dim] = self._side(dim, inside)
        elements = _product(self._counts, self.elements[0])
        self.elements.append(elements)
        self.lines.append(self._count_lines())

    def _side(self, dim: int, inside: Sequence[Floats]) -> tuple[Floats, Floats]:
        """Return the length of the accessed range along a dimension, and the number of accessed
        indices.
        """
        side, count = None, None
        for variable, steps in enumerate(self.steps):
            if not steps[dim]:
                continue
            reach = (inside[variable] - 1) * np.float32(abs(steps[dim]))
            side = reach if side is None else side + reach
            count = inside[variable] if count is None else count * inside[variable]
        assert side is not None and count is not None
        side = np.minimum(side + 1, np.float32(self.shape[dim]))
        return side, np.minimum(count, side)

    def _count_lines(self) -> Floats:
        rows = _product(self._counts[:-1], self.elements[0])
        of_row = np.minimum(self._sides[-1] * np.float32(self.bytes / LINE), self._counts[-1])
        return rows * np.maximum(of_row, np.float32(self._least))


def _product(columns: Sequence[Floats], one: Floats) -> Floats:
    result = None
    for column in columns:
        if column is not one:
            result = column if result is None else result * column
    return one if result is None else result


def strides(operand: Operand, variables: int) -> Floats:
    """Return the stride in bytes of an operand along each variable."""
    found = [
        abs(sum(s * prod(operand.shape[d + 1 :]) for d, s in enumerate(steps)))
        for steps in operand.steps
    ]
    found += [0] * (variables - len(found))
    return np.asarray(found, np.float32) * np.float32(operand.element_bytes)


def suffix(holds: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the outermost level from which a condition holds for all inner loops, for [L, n]."""
    if not len(holds):
        return np.zeros(holds.shape[1], np.intp)
    inwards = np.logical_and.accumulate(holds[::-1], axis=0)
    return len(holds) - inwards.sum(axis=0, dtype=np.intp)


def behind(holds: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the level after the innermost loop that satisfies a condition; 0 if there is none."""
    return suffix(~holds)


def extent_of(nest: NestMeasures, kind: NestKind) -> Floats:
    """Return the product of the extents of all loops of a kind."""
    if not len(nest.extents):
        return np.ones(nest.extents.shape[1], np.float32)
    product: Floats = np.where(nest.kinds == kind, nest.extents, np.float32(1)).prod(axis=0)
    return product
