"""Estimated time of a 3x3 convolution on a CPU, direct and through transformed tiles, in cycles.

Figures are for one core with two FMA units, two loads and one store a cycle; only their ratios
matter. They were set by timing layers, and hold for 128-bit to 512-bit vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tcopt.dialects.target import CpuTargetAttr
from tcopt.support.winograd_tables import TAPS, Matrix, winograd_tables

UNITS = 2
"""FMA units of a core."""

LATENCY = 12
"""Independent sums that keep the FMA units busy."""

TRANSFORM_SHARE = 0.6
"""Share of the peak issue rate that the transforms reach: they load, spill and store much."""

L3_RATE, DRAM_RATE = 8.0, 4.0
"""Bytes a cycle that a core reads of what lies in the shared cache or in memory."""


@dataclass(frozen=True)
class Layer:
    """A 3x3 convolution of stride 1.

    Attributes:
        tiles: for an output tile extent, how many tiles there are, all images together.
        pixels: outputs of a channel, all images together.
        inputs, outputs: channels.
        resident: bytes of all weights of the program, which share the caches.
    """

    images: int
    height: int
    width: int
    inputs: int
    outputs: int
    resident: int

    @property
    def pixels(self) -> int:
        return self.images * self.height * self.width

    def tiles(self, tile: int) -> int:
        return self.images * ceil(self.height / tile) * ceil(self.width / tile)


def direct_cycles(layer: Layer, target: CpuTargetAttr) -> float:
    """A direct convolution's time: its products, or the reading of its weights."""
    lanes = target.vector_lanes()
    products = TAPS * TAPS * layer.pixels * layer.inputs * layer.outputs
    compute = products / (UNITS * lanes * _efficiency(layer.width, target))
    return max(compute, _reading(TAPS * TAPS, layer, target))


def winograd_cycles(layer: Layer, tile: int, target: CpuTargetAttr) -> float:
    """The time of F(tile x tile, 3x3): contraction or reading of its weights, and transforms."""
    lanes, tables = target.vector_lanes(), winograd_tables(tile)
    tiles, t = layer.tiles(tile), tables.extent
    products = t * t * tiles * layer.inputs * layer.outputs
    compute = products / (UNITS * lanes * _efficiency(tiles, target))
    inputs = 2 * t * operations(tables.input) + UNITS * t * t
    outputs = (t + tile) * operations(tables.output) + UNITS * t * t
    transforms = inputs * layer.inputs + outputs * layer.outputs
    transforms *= tiles / (lanes * UNITS * TRANSFORM_SHARE)
    return max(compute, _reading(t * t, layer, target)) + transforms


def _efficiency(rows: int, target: CpuTargetAttr) -> float:
    """The share of peak of a register tile whose height divides `rows` about evenly."""
    vectors = 2
    most = max((target.registers.data - vectors - 1) // vectors, 1)
    height = ceil(rows / ceil(rows / most))
    useful = rows / (ceil(rows / height) * height)
    sums = height * vectors
    return useful * min(1.0, sums / LATENCY) * min(1.0, sums / (height + vectors))


def operations(matrix: Matrix) -> int:
    """Instructions for the product of a matrix and a vector: the first term of a row is free."""
    return sum(max(sum(entry != 0 for entry in row) - 1, 0) for row in matrix)


def _reading(places: int, layer: Layer, target: CpuTargetAttr) -> float:
    """The time to read the weights once from where they lie."""
    size = 4 * places * layer.inputs * layer.outputs
    # Each form of the weights is as much larger than the kernels as its own.
    resident = layer.resident * places / (TAPS * TAPS)
    if resident <= target.l2.data / 2:
        return 0.0
    return size / (L3_RATE if resident <= target.l3.data else DRAM_RATE)
