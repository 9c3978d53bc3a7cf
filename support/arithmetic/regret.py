"""Choices that serve several cases, such as the sizes of a range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

Choice = TypeVar("Choice")


def least_regret(costs: Mapping[Choice, Sequence[float]]) -> Choice:
    """Return the choice whose maximum ratio to the lowest cost of each case is lowest.

    This is the minimax-regret rule of decision theory, with ratios in place of differences. With a
    single case, it returns the choice with the lowest cost.

    Args:
        costs: positive costs of each choice, one for each case; of equal choices, the first wins.
    """
    lowest = [min(case) for case in zip(*costs.values(), strict=True)]
    return min(
        costs,
        key=lambda choice: max(
            cost / least for cost, least in zip(costs[choice], lowest, strict=True)
        ),
    )
