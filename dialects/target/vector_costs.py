"""Estimated time of a convolution on cores with vectors, in cycles.

Figures are for one core that loads two vectors and stores one while it begins two multiply-adds;
only their ratios matter. They were set by timing layers, and hold for 128-bit to 512-bit vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tcopt.dialects.target.convolution_costs import Layer, operations
from tcopt.dialects.target.hardware import VectorUnits
from tcopt.support.winograd_tables import phase_tables

MOVES = 2
"""What a number of a transformed tile costs to load and store, in operations."""

LATENCY = 6
"""Independent sums that keep an FMA unit busy."""

TRANSFORM_SHARE = 0.6
"""Share of the peak issue rate that the transforms reach: they load, spill and store much."""

L3_RATE, DRAM_RATE = 8.0, 4.0
"""Bytes a cycle that a core reads of what lies in the shared cache or in memory."""


@dataclass(frozen=True)
class VectorCosts:
    """The times of convolutions whose vectors hold channels."""

    units: VectorUnits

    def direct(self, layer: Layer) -> float:
        """Its products, or the reading of its weights."""
        products = layer.places * layer.pixels * layer.inputs * layer.outputs / layer.terms
        compute = products / (self._rate * self._efficiency(layer.width))
        return max(compute, self._reading(layer.places, layer))

    def winograd(self, layer: Layer, tile: int) -> float:
        """Contraction or reading of its weights, and transforms."""
        lanes = self.units.lanes()
        last = layer.phases - 1
        tables = phase_tables(tile, layer.taps, layer.phases, last, whole=layer.whole)
        tiles, t, reach = layer.tiles(tile), tables.extent, tables.reach
        products = t * t * tiles * layer.inputs * layer.outputs / layer.terms
        compute = products / (self._rate * self._efficiency(tiles))
        inputs = (reach + t) * operations(tables.input) + MOVES * t * t
        inputs *= lanes / min(layer.inner or lanes, lanes)
        outputs = (t + len(tables.output)) * operations(tables.output) + MOVES * t * t
        transforms = inputs * layer.inputs + outputs * layer.outputs
        transforms *= tiles / (self._rate * TRANSFORM_SHARE)
        return max(compute, self._reading(t * t, layer)) + transforms

    def has_room(self, layer: Layer, tile: int) -> bool:
        """Any tile: what spills is part of the estimate."""
        return True

    @property
    def _rate(self) -> int:
        """Elements that a core multiplies and adds in a cycle."""
        return self.units.fma_units * self.units.lanes()

    def _efficiency(self, rows: int) -> float:
        """The share of peak of a register tile whose height divides `rows` about evenly."""
        vectors = 2
        most = max((self.units.registers - vectors - 1) // vectors, 1)
        height = ceil(rows / ceil(rows / most))
        useful = rows / (ceil(rows / height) * height)
        sums = height * vectors
        busy = min(1.0, sums / (LATENCY * self.units.fma_units))
        return useful * busy * min(1.0, sums / (height + vectors))

    def _reading(self, places: int, layer: Layer) -> float:
        """The time to read the weights once from where they lie."""
        size = layer.element_bytes * places * layer.inputs * layer.outputs
        # Each form of the weights is as much larger than the kernels as its own.
        resident = layer.resident * places / layer.places
        if resident <= self.units.l2 / 2:
            return 0.0
        return size / (L3_RATE if resident <= self.units.l3 else DRAM_RATE)
