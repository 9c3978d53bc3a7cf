"""Cost model of convolutions on cores with vectors, in cycles; only ratios matter.

The constants were fitted to measured layers and hold for 128-bit to 512-bit vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tcopt.dialects.target.convolution_costs import ConvLayer, operations
from tcopt.support.arithmetic.winograd_tables import phase_tables
from tcopt.support.machines.machine import VectorUnits

MOVES = 2
"""Cost of loading and storing an element of a transformed tile, in operations."""

CONTROL = 3
"""Instructions of a reduction step for the loop."""

CHAIN = 1.375
"""Latencies of a multiply-add that a step takes at least, see `tiles.py`."""

TRANSFORM_SHARE = 0.6
"""Fraction of the peak issue rate that transforms reach, given their loads and stores."""


@dataclass(frozen=True)
class VectorCosts:
    """Cost model of convolutions whose vectors hold channels."""

    units: VectorUnits

    def direct(self, layer: ConvLayer) -> float:
        """Return the maximum of the times of its multiplications and of reading its weights."""
        products = layer.places * layer.pixels * layer.inputs * layer.outputs / layer.terms
        compute = products / (self._rate * self._efficiency(layer.width))
        return max(compute, self._reading(layer.places, layer))

    def winograd(self, layer: ConvLayer, tile: int) -> float:
        """Return the time of the contraction (or of reading its weights) and of the transforms."""
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

    def has_room(self, layer: ConvLayer, tile: int) -> bool:
        """Always true: spills are included in the estimate."""
        return True

    @property
    def _rate(self) -> int:
        """Multiply-adds of scalars per core and cycle."""
        return self.units.peak

    def _efficiency(self, rows: int) -> float:
        """Return the fraction of peak of a register tile whose height divides `rows` about
        evenly."""
        vectors = 2
        most = max((self.units.registers - vectors - 1) // vectors, 1)
        height = ceil(rows / ceil(rows / most))
        useful = rows / (ceil(rows / height) * height)
        sums = height * vectors
        step = self.units.cycles(
            products=sums, vectors=vectors, scalars=height, others=CONTROL, chain=CHAIN
        )
        return useful * self.units.cycles(products=sums) / step

    def _reading(self, places: int, layer: ConvLayer) -> float:
        """Return the time to read the weights once from the memory level that holds them."""
        size = layer.element_bytes * places * layer.inputs * layer.outputs
        # Scale the total size of all weights to this form of the weights.
        resident = layer.resident * places / layer.places
        if resident <= self.units.l2 / 2:
            return 0.0
        return size / self.units.rate(max(resident, self.units.l2 + 1))
