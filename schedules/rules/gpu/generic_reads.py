"""The operands of a block that `gpu-generic` tiles, which the threads of a block may share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.schedules.analysis.patterns import BlockPattern, StridedAccess, access_bits
from tcopt.schedules.api.handles import Block
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.operands import BYTE
from tcopt.schedules.spaces.space import Column
from tcopt.schedules.state.state import buffers_read, buffers_written
from tcopt.support.columns import ceil_div, most, where


@dataclass(frozen=True)
class Read:
    """A buffer that the block that counts reads, by affine indices.

    Attributes:
        number: among the buffers that the block reads.
        terms: all loads of it.
        maker: a block that computes it for this one alone, from what is there before.
    """

    number: int
    terms: tuple[StridedAccess, ...]
    maker: Block | None

    @property
    def knob(self) -> str:
        """The name of the knob that says where it is read."""
        return f"read{self.number}"

    @property
    def element_bytes(self) -> float:
        """Of one number."""
        return access_bits(self.terms[0]) / BYTE

    def reach(self, sizes: Mapping[int, Column]) -> list[Column]:
        """How far loads go along each dimension as variables take so many values."""
        return [
            most(*(self._reach(term, dim, sizes) for term in self.terms))
            for dim in range(len(buffer_shape(self.terms[0].buffer)))
        ]

    @staticmethod
    def _reach(term: StridedAccess, dim: int, sizes: Mapping[int, Column]) -> Column:
        reach: Column = 1
        for variable, size in sizes.items():
            steps = term.steps[variable]
            if steps is not None and steps[dim]:
                reach = reach + abs(steps[dim]) * (size - 1)
        return reach

    def elements(self, sizes: Mapping[int, Column]) -> Column:
        """How many numbers of it a copy has; what lies between loads is copied with them."""
        total: Column = 1
        for reach in self.reach(sizes):
            total = total * reach
        return total

    def places(self, sizes: Mapping[int, Column], at_once: Column) -> Column:
        """How many numbers a copy has room for: the last round of copying leaves some threads with
        places beyond its end, for which it has more rows.

        Args:
            at_once: numbers that all threads copy together.
        """
        row: Column = 1
        inside: Column = False
        for reach in self.reach(sizes):
            row = where(inside, row * reach, row)
            inside = inside | (reach > 1)
        rounds = ceil_div(self.elements(sizes), at_once)
        return ceil_div(rounds * at_once, row) * row


def reads_of(sch: Schedule, pattern: BlockPattern, makers: Sequence[Block]) -> list[Read]:
    """What the block that counts reads by linear indices.

    Args:
        makers: blocks that compute operands for it alone.
    """
    block = sch.get_block(pattern.block.block_name.data)
    found: list[Read] = []
    for number, buffer in enumerate(buffers_read(sch.block_op(block))):
        terms = tuple(term for term in pattern.terms if term.buffer is buffer)
        linear = all(steps is not None for term in terms for steps in term.steps)
        if terms and linear:
            maker = next((m for m in makers if buffer in buffers_written(sch.block_op(m))), None)
            found.append(Read(number, terms, maker))
    return found
