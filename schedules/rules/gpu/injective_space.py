"""Space of `gpu-injective`: threads per block and vectors of each launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from tcopt.schedules.analysis.patterns import BlockPattern, body_cost, match_block
from tcopt.schedules.api.handles import Block
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.gpu.vector_rows import row_lanes
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
from tcopt.support.arithmetic.columns import ceil_div, least, where
from tcopt.support.machines.thread_blocks import WORD, LaunchWork, ThreadBlocks

THREADS = (32, 64, 128, 256, 512, 1024)
"""Candidate numbers of threads per block."""


@dataclass(frozen=True)
class Elements:
    """How elements are distributed over threads.

    Attributes:
        threads: threads of a block.
        lanes: adjacent elements of a row that a thread handles as a vector.
    """

    threads: Column
    lanes: Column


def usual_elements(pattern: BlockPattern, facts: ThreadBlocks) -> Elements:
    """Return vectors if rows can be vectorised and there is work for all concurrent threads."""
    lanes = row_lanes(pattern, facts)
    if lanes > 1 and pattern.work < lanes * facts.running:
        lanes = 1
    count = prod(pattern.extents[v] for v in pattern.spatial)
    return Elements(facts.block_threads(count // lanes), lanes)


def elements_time(
    count: Column, bytes_each: float, threads: Column, lanes: Column, facts: ThreadBlocks
) -> Column:
    """Estimate the cycles of a launch without reductions, from its start.

    Args:
        count: number of elements.
        bytes_each: bytes moved per element.
        threads: threads of a block.
        lanes: elements of a thread.
    """
    blocks = ceil_div(ceil_div(count, lanes), threads)
    moved = facts.whole_warps(threads) * lanes * bytes_each
    work = LaunchWork(
        blocks=blocks, threads=threads, far=moved, in_flight=lanes * WORD, moved=blocks * moved
    )
    return facts.start + facts.launch(work).total


def elements_cycles(pattern: BlockPattern, elements: Elements, facts: ThreadBlocks) -> Column:
    """Estimate the cycles of a block without reductions in a launch of its own."""
    bytes_each = sum(each.element_bytes for each in operands_of(pattern))
    return elements_time(pattern.work, bytes_each, elements.threads, elements.lanes, facts)


def thread_counts(usual: int, facts: ThreadBlocks) -> tuple[int, ...]:
    """Return candidate numbers of threads per block."""
    return tuple(sorted({*(n for n in THREADS if n <= facts.max_threads), usual}))


class InjectiveSpace(Space):
    """Threads and vectors of each block of a function.

    Args:
        blocks: the blocks with loops and a pattern; other blocks have no knobs.
    """

    def __init__(self, sch: Schedule, blocks: Mapping[Block, BlockPattern], facts: ThreadBlocks):
        self.blocks, self.facts = dict(blocks), facts
        self._usual = {each: usual_elements(p, facts) for each, p in blocks.items()}
        knobs: list[Knob] = []
        for block, pattern in blocks.items():
            usual = self._usual[block]
            name = self._name(block, "threads")
            knobs.append(Knob(name, thread_counts(usual.threads, facts)))
            lanes = {1, usual.lanes, row_lanes(pattern, facts)}
            knobs.append(Knob(self._name(block, "lanes"), tuple(sorted(lanes))))
        super().__init__(knobs)
        self._costs = {b: p.work * body_cost(sch.block_op(b)) for b, p in blocks.items()}

    def _name(self, block: Block, name: str) -> str:
        return name if len(self.blocks) == 1 else f"{block.name}.{name}"

    def chosen(self, block: Block, choice: Choice) -> Elements | None:
        """Return how a block's elements are distributed; None if the block has no knobs."""
        if block not in self.blocks:
            return None
        return Elements(choice[self._name(block, "threads")], choice[self._name(block, "lanes")])

    def _at(self, k: Point, block: Block) -> tuple[Column, Column]:
        names = (self._name(block, name) for name in ("threads", "lanes"))
        threads, lanes = (getattr(k, name) for name in names)
        return threads, lanes

    def valid(self, k: Point) -> Column:
        fine: Column = True
        for block, pattern in self.blocks.items():
            threads, lanes = self._at(k, block)
            usual = self._usual[block].threads
            # A block with twice as many threads as there is work for has some that never run.
            fine = fine & ((threads == usual) | (threads * lanes < 2 * pattern.work))
        return fine

    def estimate(self, k: Point) -> Column:
        """Estimate the cycles of all launches."""
        total: Column = 0.0
        for block, pattern in self.blocks.items():
            elements = Elements(*self._at(k, block))
            total = total + elements_cycles(pattern, elements, self.facts)
        return total

    def default(self) -> dict[str, int]:
        """Return the values that rows and the device suggest."""
        found: dict[str, int] = {}
        for block, usual in self._usual.items():
            found[self._name(block, "threads")] = usual.threads
            found[self._name(block, "lanes")] = usual.lanes
        return found

    @cached_property
    def _heaviest(self) -> Block | None:
        return max(self.blocks, key=lambda each: self._costs[each], default=None)

    def nest(self, k: Point) -> Sequence[LoopLevel]:
        if (block := self._heaviest) is None:
            return ()
        pattern, (threads, lanes) = self.blocks[block], self._at(k, block)
        outer, inner = list[LoopLevel](), list[LoopLevel]()
        last, left = pattern.spatial[-1:], threads
        for v in reversed(pattern.spatial):
            extent = ceil_div(pattern.extents[v], lanes) if v in last else pattern.extents[v]
            own = least(left, extent)
            left = where(own > 0, ceil_div(left, own), left)
            outer.insert(0, LoopLevel(v, ceil_div(extent, own), NestKind.BLOCK))
            inner.insert(0, LoopLevel(v, own, NestKind.THREAD))
        vectors = [LoopLevel(v, lanes, NestKind.VECTOR) for v in last]
        return [*outer, *inner, *vectors]

    def operands(self) -> Sequence[Operand]:
        block = self._heaviest
        return () if block is None else operands_of(self.blocks[block])


def open_blocks(sch: Schedule, blocks: Sequence[Block]) -> dict[Block, BlockPattern]:
    """Return the blocks that have loops over elements, with their patterns."""
    found: dict[Block, BlockPattern] = {}
    for block in blocks:
        pattern = match_block(sch.block_op(block))
        if pattern is not None and pattern.spatial and sch.get_loops(block):
            found[block] = pattern
    return found
