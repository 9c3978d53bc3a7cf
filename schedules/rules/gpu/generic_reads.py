"""Operands of a block that `gpu-generic` tiles, which the threads of a block may share."""

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
from tcopt.support.arithmetic.columns import ceil_div, most, where


@dataclass(frozen=True)
class GenericRead:
    """A buffer that the main block reads at affine indices.

    Attributes:
        number: its position among the buffers that the block reads.
        terms: all loads of it.
        maker: a producer whose only consumer is the main block, without producers itself.
    """

    number: int
    terms: tuple[StridedAccess, ...]
    maker: Block | None

    @property
    def knob(self) -> str:
        """Name of the knob that decides where it is read from."""
        return f"read{self.number}"

    @property
    def element_bytes(self) -> float:
        """Size of an element in bytes."""
        return access_bits(self.terms[0]) / BYTE

    def reach(self, sizes: Mapping[int, Column]) -> list[Column]:
        """Return the extents of the accessed part along each dimension, for given variable
        sizes."""
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
        """Return the number of elements of a copy, including gaps between loads."""
        total: Column = 1
        for reach in self.reach(sizes):
            total = total * reach
        return total

    def places(self, sizes: Mapping[int, Column], at_once: Column) -> Column:
        """Return the number of elements for which a copy needs room.

        In the last iteration of copying, some threads write beyond its end, so the copy gets
        additional rows.

        Args:
            at_once: number of elements that all threads copy together.
        """
        row: Column = 1
        inside: Column = False
        for reach in self.reach(sizes):
            row = where(inside, row * reach, row)
            inside = inside | (reach > 1)
        rounds = ceil_div(self.elements(sizes), at_once)
        return ceil_div(rounds * at_once, row) * row


def reads_of(sch: Schedule, pattern: BlockPattern, makers: Sequence[Block]) -> list[GenericRead]:
    """Return the operands that the main block reads at linear indices.

    Args:
        makers: producers whose only consumer is the main block.
    """
    block = sch.get_block(pattern.block.block_name.data)
    found: list[GenericRead] = []
    for number, buffer in enumerate(buffers_read(sch.block_op(block))):
        terms = tuple(term for term in pattern.terms if term.buffer is buffer)
        linear = all(steps is not None for term in terms for steps in term.steps)
        if terms and linear:
            maker = next((m for m in makers if buffer in buffers_written(sch.block_op(m))), None)
            found.append(GenericRead(number, terms, maker))
    return found
