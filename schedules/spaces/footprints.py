"""Footprint of an operand in a part of a loop nest, as a formula over tile sizes."""

from __future__ import annotations

from collections.abc import Mapping

from tcopt.schedules.spaces.space import Column, Operand
from tcopt.support.arithmetic.columns import least


def footprint(operand: Operand, sizes: Mapping[int, Column]) -> Column:
    """Return the bytes of an operand that are accessed while variables run over given sizes.

    Args:
        sizes: number of values of each variable, by position; other variables are fixed.
    """
    total: Column = operand.element_bytes
    for dim, extent in enumerate(operand.shape):
        reach: Column = 1
        for variable, steps in enumerate(operand.steps):
            if steps[dim] and variable in sizes:
                reach = reach + abs(steps[dim]) * (sizes[variable] - 1)
        total = total * least(reach, extent)
    return total
