"""Space of `gpu-winograd`: threads of the transforms, and tiles of the products."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

from tcopt.schedules.analysis.patterns import BlockPattern, element_bits, match_block
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.gpu import register_tile, shared_tile
from tcopt.schedules.rules.gpu.injective_space import elements_time, thread_counts
from tcopt.schedules.rules.gpu.register_tile import RegisterTileSpace
from tcopt.schedules.rules.gpu.shared_tile_space import SharedTileSpace
from tcopt.schedules.rules.operands import BYTE
from tcopt.schedules.rules.rule import Declined
from tcopt.schedules.rules.winograd_stages import Stages
from tcopt.schedules.spaces.space import Column, Knob, LoopLevel, Operand, Point, Space
from tcopt.support.machines.thread_blocks import ADDRESSES, ThreadBlocks

ProductSpace = SharedTileSpace | RegisterTileSpace


class WinogradSpace(Space):
    """Threads of a block in both transforms, vectors of results, and the knobs of the products.

    Args:
        products: space of the products between the transforms.
    """

    def __init__(self, sch: Schedule, stages: Stages, products: ProductSpace, facts: ThreadBlocks):
        self.stages, self.products, self.facts = stages, products, facts
        last, data = sch.block_op(stages.last), sch.block_op(stages.data)
        self.extent = extent = sch.block_op(stages.right).domain[2]
        self.bytes = element_bits(last) // BYTE
        *outer, height, width = last.domain
        # Each thread has one tile of results or of data.
        self.results = prod(outer) * ceil(height / extent) * ceil(width / extent)
        places, across, *tiles = data.domain
        self.places, self.tiles = places * across, prod(tiles)
        widest = extent if width % extent == 0 else 1
        self.lanes = widest if widest <= facts.lanes(element_bits(last)) else 1
        self._result_threads = facts.block_threads(self.results)
        self._data_threads = facts.block_threads(self.tiles)
        super().__init__(
            [
                *products.knobs,
                Knob("data_threads", thread_counts(self._data_threads, facts)),
                Knob("result_threads", thread_counts(self._result_threads, facts)),
                Knob("result_lanes", tuple(sorted({1, self.lanes}))),
            ]
        )

    def valid(self, k: Point) -> Column:
        """Whether the products are legal, and the transforms fit registers and keep threads
        busy."""
        fine = self.products.valid(k)
        data = self._fits(k.data_threads, self.tiles, self._data_threads)
        return fine & data & self._fits(k.result_threads, self.results, self._result_threads)

    def _fits(self, threads: Column, count: int, usual: int) -> Column:
        # Registers hold a tile both before and after its transform.
        numbers = min(2 * self.places + ADDRESSES, self.facts.registers)
        room = threads * numbers <= self.facts.core_registers
        return (threads == usual) | (room & (threads < 2 * count))

    def estimate(self, k: Point) -> Column:
        """Estimate the cycles of three launches."""
        result, data = self.bytes * self.extent**2, self.bytes * self.places
        # Elements that are stored one by one write the same line of memory several times.
        stored = result * self.lanes / k.result_lanes
        return (
            self.products.estimate(k)
            + elements_time(self.tiles, result + data, k.data_threads, 1, self.facts)
            + elements_time(self.results, data + stored, k.result_threads, 1, self.facts)
        )

    def default(self) -> dict[str, int]:
        return self.products.default() | {
            "data_threads": self._data_threads,
            "result_threads": self._result_threads,
            "result_lanes": self.lanes,
        }

    def nest(self, k: Point) -> Sequence[LoopLevel]:
        return self.products.nest(k)

    def operands(self) -> Sequence[Operand]:
        return self.products.operands()


def open_products(pattern: BlockPattern, facts: ThreadBlocks) -> ProductSpace | Declined:
    """Return the space of the products: with shared operands if the device has shared memory."""
    if facts.shared:
        shared = shared_tile.open_tiles(pattern, facts, in_parts=False)
        if not isinstance(shared, Declined):
            return shared
    return register_tile.open_tiles(pattern, facts)


def open_winograd(sch: Schedule, stages: Stages, facts: ThreadBlocks) -> WinogradSpace | Declined:
    """Return the space of a Winograd convolution; decline if its products have no tiles."""
    pattern = match_block(sch.block_op(stages.products))
    assert pattern is not None
    products = open_products(pattern, facts)
    if isinstance(products, Declined):
        return products
    return WinogradSpace(sch, stages, products, facts)
