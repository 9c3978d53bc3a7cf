"""Estimated time of a convolution on cores that run blocks of threads, in cycles.

Multiply-adds and bytes are counted against the device's numbers: a kernel takes as long as its
arithmetic or as its accesses to memory, whichever is more. The transformed form is three kernels,
and what they hand on goes through memory; caches are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, sqrt

from tcopt.dialects.target.convolution_costs import Layer, operations
from tcopt.dialects.target.hardware import ThreadBlocks
from tcopt.support.winograd_tables import winograd_tables

ELEMENT = 4
"""Bytes of an f32."""

LAUNCH = 4000
"""Cycles from the end of a kernel until the next one has all cores busy."""

THREADS = 256
"""Of a core, that hide how long each of them waits."""

MOST_SUMS = 32
"""Sums that a thread keeps in registers: with as many, loads cost little beside them."""


@dataclass(frozen=True)
class ThreadCosts:
    """The times of convolutions whose threads have neighbouring pixels."""

    blocks: ThreadBlocks

    def direct(self, layer: Layer) -> float:
        """A kernel of tiles of sums."""
        results = layer.pixels * layer.outputs
        moved = layer.pixels * (layer.inputs + layer.outputs)
        moved += layer.places * layer.inputs * layer.outputs
        return self._contraction(results, layer.places * layer.inputs, moved, layer.width)

    def winograd(self, layer: Layer, tile: int) -> float:
        """Both transforms, and the contraction between them."""
        tables, tiles = winograd_tables(tile, layer.taps), layer.tiles(tile)
        t = tables.extent
        data, sums = t * t * tiles * layer.inputs, t * t * tiles * layer.outputs
        weights = t * t * layer.inputs * layer.outputs
        forward = 2 * t * operations(tables.input) * tiles * layer.inputs
        back = (t + tile) * operations(tables.output) * tiles * layer.outputs
        return sum(
            (
                self._kernel(forward, layer.pixels * layer.inputs + data),
                self._contraction(sums, layer.inputs, data + weights + sums, tiles),
                self._kernel(back, sums + layer.pixels * layer.outputs),
            )
        )

    def has_room(self, layer: Layer, tile: int) -> bool:
        """Whether a thread has room for a tile, and for as many numbers as it makes of it."""
        return 2 * winograd_tables(tile, layer.taps).extent ** 2 <= self.blocks.registers

    def _contraction(self, results: int, depth: int, moved: int, row: int) -> float:
        """Sums of products, a tile of them in each thread; operands come through shared memory.

        Args:
            row: results that lie beside each other.
        """
        each = results / (self.blocks.cores * THREADS)
        sums = max(min(each, MOST_SUMS), 1.0)
        # For a square tile a thread loads two sides of it, and multiplies all.
        useful = sums / (sums + 2 * sqrt(sums))
        useful *= min(each, 1.0) * self._lanes(row)
        return self._kernel(results * depth / useful, moved)

    def _lanes(self, row: int) -> float:
        """The part of a vector's lanes that compute, where each thread has whole vectors of a row:
        threads in lockstep are lanes themselves."""
        if self.blocks.warp > 1:
            return 1.0
        widest = self.blocks.vector_bits // (8 * ELEMENT)
        return gcd(row, widest) / widest

    def _kernel(self, work: float, moved: int) -> float:
        """The time of so many multiply-adds, or of moving so many elements, and of a launch."""
        compute = work / (self.blocks.cores * self.blocks.multiply_adds)
        return max(compute, ELEMENT * moved / self.blocks.memory_rate) + LAUNCH
