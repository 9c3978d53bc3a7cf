"""The space of a rule without choices."""

from __future__ import annotations

from collections.abc import Sequence

from tcopt.schedules.spaces.space import Column, LoopLevel, Operand, Point, Space


class Closed(Space):
    """Space with a single choice and no knobs."""

    def __init__(self) -> None:
        super().__init__(())

    def valid(self, k: Point) -> Column:
        del k
        return True

    def estimate(self, k: Point) -> Column:
        del k
        return 0.0

    def nest(self, k: Point) -> Sequence[LoopLevel]:
        del k
        return ()

    def operands(self) -> Sequence[Operand]:
        return ()

    def default(self) -> dict[str, int]:
        return {}
