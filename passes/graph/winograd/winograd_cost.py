"""Estimated time of a convolution on a CPU, direct and through transformed tiles, in cycles.

Figures are for one core with two FMA units, two loads and one store a cycle; only their ratios
matter. They were set by timing layers, and hold for 128-bit to 512-bit vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tcopt.dialects.target import CpuTargetAttr
from tcopt.support.winograd_tables import Matrix, phase_tables

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
    """A convolution of stride 1, of each phase of its result.

    Attributes:
        height, width: outputs of a phase.
        inputs, outputs: channels; each phase of a stride is an input of its own.
        resident: bytes of all weights of the program, which share the caches.
        taps: of a phase, in each dimension.
        phases: of the result, in each dimension.
        inner: channels in a block of inputs; a vector unless given.
    """

    images: int
    height: int
    width: int
    inputs: int
    outputs: int
    resident: int
    taps: int = 3
    phases: int = 1
    inner: int | None = None

    @property
    def pixels(self) -> int:
        """Outputs of a channel and phase, all images together."""
        return self.images * self.height * self.width

    @property
    def places(self) -> int:
        """Products of the direct form for an output of each phase and a pair of channels."""
        return (self.phases * self.taps) ** 2

    def tiles(self, tile: int) -> int:
        """How many tiles of an output extent there are, all images together."""
        return self.images * ceil(self.height / tile) * ceil(self.width / tile)


def direct_cycles(layer: Layer, target: CpuTargetAttr) -> float:
    """A direct convolution's time: its products, or the reading of its weights."""
    lanes = target.vector_lanes()
    products = layer.places * layer.pixels * layer.inputs * layer.outputs
    compute = products / (UNITS * lanes * _efficiency(layer.width, target))
    return max(compute, _reading(layer.places, layer, target))


def winograd_cycles(layer: Layer, tile: int, target: CpuTargetAttr) -> float:
    """The time of F(tile x tile, r x r): contraction or reading of its weights, and transforms."""
    lanes = target.vector_lanes()
    tables = phase_tables(tile, layer.taps, layer.phases, layer.phases - 1)
    tiles, t, reach = layer.tiles(tile), tables.extent, tables.reach
    products = t * t * tiles * layer.inputs * layer.outputs
    compute = products / (UNITS * lanes * _efficiency(tiles, target))
    inputs = (reach + t) * operations(tables.input) + UNITS * t * t
    inputs *= lanes / min(layer.inner or lanes, lanes)
    outputs = (t + len(tables.output)) * operations(tables.output) + UNITS * t * t
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
    resident = layer.resident * places / layer.places
    if resident <= target.l2.data / 2:
        return 0.0
    return size / (L3_RATE if resident <= target.l3.data else DRAM_RATE)
