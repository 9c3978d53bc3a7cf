"""Cost model of convolutions on cores that run thread blocks, in cycles.

A roofline model: a kernel takes the maximum of its arithmetic and its memory traffic. The Winograd
form has three kernels, whose intermediate results go through memory; caches are not modelled.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, sqrt

from tcopt.dialects.target.convolution_costs import ConvLayer, operations
from tcopt.support.arithmetic.winograd_tables import winograd_tables
from tcopt.support.machines.machine import kernel_cycles
from tcopt.support.machines.thread_blocks import ThreadBlocks

ELEMENT = 4
"""Size of an f32 in bytes."""

THREADS = 256
"""Threads per core needed to hide latency."""

MOST_SUMS = 32
"""Maximum accumulators per thread; with this many, the cost of loads is small."""


@dataclass(frozen=True)
class ThreadCosts:
    """Cost model of convolutions whose threads compute adjacent pixels."""

    blocks: ThreadBlocks

    def direct(self, layer: ConvLayer) -> float:
        """Return the time of one tiled kernel."""
        results = layer.pixels * layer.outputs
        moved = layer.pixels * (layer.inputs + layer.outputs)
        moved += layer.places * layer.inputs * layer.outputs
        return self._contraction(results, layer.places * layer.inputs, moved, layer.width)

    def winograd(self, layer: ConvLayer, tile: int) -> float:
        """Return the time of both transforms and of the contraction between them."""
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

    def has_room(self, layer: ConvLayer, tile: int) -> bool:
        """Whether a thread has enough registers for a tile and its transform."""
        return 2 * winograd_tables(tile, layer.taps).extent ** 2 <= self.blocks.registers

    def _contraction(self, results: int, depth: int, moved: int, row: int) -> float:
        """Return the time of a contraction with a tile of results per thread; operands are read
        through shared memory.

        Args:
            row: the number of contiguous results.
        """
        each = results / (self.blocks.cores * THREADS)
        sums = max(min(each, MOST_SUMS), 1.0)
        # For a square tile, a thread loads two of its sides and multiplies all pairs.
        useful = sums / (sums + 2 * sqrt(sums))
        useful *= min(each, 1.0) * self._lanes(row)
        return self._kernel(results * depth / useful, moved)

    def _lanes(self, row: int) -> float:
        """Return the fraction of vector lanes in use if each thread computes whole vectors of a
        row. With warps, the threads themselves are the lanes."""
        if self.blocks.warp > 1:
            return 1.0
        widest = self.blocks.vector_bits // (8 * ELEMENT)
        return gcd(row, widest) / widest

    def _kernel(self, work: float, moved: int) -> float:
        """Return the time of `work` multiply-adds and `moved` elements of traffic in a launch."""
        cores = self.blocks.cores
        return kernel_cycles(self.blocks, work, ELEMENT * moved, cores=cores, starts=1)
