"""What a part of a loop nest touches of an operand, as a formula over sizes."""

from __future__ import annotations

from collections.abc import Mapping

from tcopt.schedules.spaces.space import Column, Operand
from tcopt.support.columns import least


def footprint(operand: Operand, sizes: Mapping[int, Column]) -> Column:
    """Bytes of an operand that are touched while variables go through so many values.

    Args:
        sizes: how far each variable goes, by position; those that are not named stay.
    """
    total: Column = operand.element_bytes
    for dim, extent in enumerate(operand.shape):
        reach: Column = 1
        for variable, steps in enumerate(operand.steps):
            if steps[dim] and variable in sizes:
                reach = reach + abs(steps[dim]) * (sizes[variable] - 1)
        total = total * least(reach, extent)
    return total
