"""Estimated time of a convolution on a GPU, direct and through transformed tiles, in cycles.

Multiply-adds and bytes are counted against the device's facts: a kernel takes as long as its
arithmetic or as its accesses to memory, whichever is more. The transformed form is three kernels,
and what they hand on goes through memory; caches are not counted.
"""

from __future__ import annotations

from math import sqrt

from tcopt.dialects.target import GpuTargetAttr
from tcopt.passes.graph.winograd.winograd_cost import Layer, operations
from tcopt.support.winograd_tables import winograd_tables

ELEMENT = 4
"""Bytes of an f32."""

LAUNCH = 4000
"""Cycles from the end of a kernel until the next one has all cores busy."""

THREADS = 256
"""Of a core, that hide how long each of them waits."""

MOST_SUMS = 32
"""Sums that a thread keeps in registers: with as many, loads cost little beside them."""


def direct_cycles(layer: Layer, target: GpuTargetAttr) -> float:
    """A direct convolution's time."""
    results = layer.pixels * layer.outputs
    moved = layer.pixels * (layer.inputs + layer.outputs)
    moved += layer.places * layer.inputs * layer.outputs
    return _contraction(results, layer.places * layer.inputs, moved, target)


def winograd_cycles(layer: Layer, tile: int, target: GpuTargetAttr) -> float:
    """The time of F(tile x tile, r x r): both transforms, and the contraction between them."""
    tables, tiles = winograd_tables(tile, layer.taps), layer.tiles(tile)
    t = tables.extent
    data, sums = t * t * tiles * layer.inputs, t * t * tiles * layer.outputs
    weights = t * t * layer.inputs * layer.outputs
    forward = 2 * t * operations(tables.input) * tiles * layer.inputs
    back = (t + tile) * operations(tables.output) * tiles * layer.outputs
    return sum(
        (
            _kernel(forward, layer.pixels * layer.inputs + data, target),
            _contraction(sums, layer.inputs, data + weights + sums, target),
            _kernel(back, sums + layer.pixels * layer.outputs, target),
        )
    )


def fits_registers(tile: int, taps: int, target: GpuTargetAttr) -> bool:
    """Whether a thread has room for a tile, and for as many numbers as it makes of it."""
    return 2 * winograd_tables(tile, taps).extent ** 2 <= target.registers.data


def _contraction(results: int, depth: int, moved: int, target: GpuTargetAttr) -> float:
    """Sums of products, a tile of them in each thread; operands come through shared memory."""
    each = results / (target.cores.data * THREADS)
    sums = max(min(each, MOST_SUMS), 1.0)
    # For a square tile a thread loads two sides of it, and multiplies all.
    useful = sums / (sums + 2 * sqrt(sums))
    return _kernel(results * depth / (useful * min(each, 1.0)), moved, target)


def _kernel(work: float, moved: int, target: GpuTargetAttr) -> float:
    """The time of so many multiply-adds, or of moving so many elements, and of a launch."""
    compute = work / (target.cores.data * target.multiply_adds.data)
    return max(compute, ELEMENT * moved / target.memory_rate.data) + LAUNCH
