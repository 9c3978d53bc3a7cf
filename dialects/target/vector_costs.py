"""Cost model of convolutions on cores with vectors, in cycles; only ratios matter.

The constants were fitted to measured layers and hold for 128-bit to 512-bit vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tcopt.dialects.target.convolution_costs import ConvLayer, operations
from tcopt.support.arithmetic.winograd_tables import phase_tables
from tcopt.support.machines.machine import VectorUnits
from tcopt.support.machines.register_tiles import TileProblem, plan_tile

MOVES = 2
"""Cost of loading and storing an element of a transformed tile, in operations."""

TRANSFORM_SHARE = 0.6
"""Fraction of the peak issue rate that transforms reach, given their loads and stores."""


@dataclass(frozen=True)
class VectorCosts:
    """Cost model of convolutions whose vectors hold channels."""

    units: VectorUnits

    def direct(self, layer: ConvLayer) -> float:
        """Return the maximum of the times of its multiplications and of reading its weights."""
        steps = layer.places * layer.inputs
        compute = self._contraction(layer, layer.width, layer.height, steps, layer.images)
        return max(compute, self._reading(layer.places, layer))

    def winograd(self, layer: ConvLayer, tile: int) -> float:
        """Return the time of the contraction (or of reading its weights) and of the transforms."""
        lanes = self.units.lanes()
        last = layer.phases - 1
        tables = phase_tables(tile, layer.taps, layer.phases, last, whole=layer.whole)
        tiles, t, reach = layer.tiles(tile), tables.extent, tables.reach
        compute = self._contraction(layer, tiles, 1, layer.inputs, t * t)
        inputs = (reach + t) * operations(tables.input) + MOVES * t * t
        inputs *= lanes / min(layer.inner or lanes, lanes)
        outputs = (t + len(tables.output)) * operations(tables.output) + MOVES * t * t
        transforms = inputs * layer.inputs + outputs * layer.outputs
        transforms *= tiles / (self.units.peak * TRANSFORM_SHARE)
        return max(compute, self._reading(t * t, layer)) + transforms

    def has_room(self, layer: ConvLayer, tile: int) -> bool:
        """Always true: spills are included in the estimate."""
        return True

    def _contraction(
        self, layer: ConvLayer, rows: int, spans: int, steps: int, repeats: int
    ) -> float:
        """Return the time of a contraction with the register tile that its loops would get."""
        lanes, size = self.units.lanes(), layer.element_bytes
        problem = TileProblem(
            rows,
            spans,
            layer.outputs,
            lanes,
            ceil(steps / layer.terms),
            repeats,
            scalar_bytes=size * rows * spans * steps * repeats,
            is_dot=layer.terms > 1,
        )
        cycles = plan_tile(problem, self.units).cycles
        # Tiles of dot products are chosen as for two units.
        return cycles * 2 / min(self.units.fma_units, 2) if problem.is_dot else cycles

    def _reading(self, places: int, layer: ConvLayer) -> float:
        """Return the time to read the weights once from the memory level that holds them."""
        size = layer.element_bytes * places * layer.inputs * layer.outputs
        # Scale the total size of all weights to this form of the weights.
        resident = layer.resident * places / layer.places
        if resident <= self.units.l2 / 2:
            return 0.0
        return size / self.units.rate(max(resident, self.units.l2 + 1))
