"""Two matrix products with operations on whole rows between them, for a strip of rows at a time.

    scores [rows, keys] = left [rows, depth] x keys [depth, keys]
    weights = some function of each row of scores
    result [rows, columns] = weights x values [keys, columns]

A strip of scores and weights stays in cache, but keys and values are read again for each strip.
Separate kernels read these once, and write and read all scores and weights. The products take the
same time in both forms, so only transfers are compared.
"""

from __future__ import annotations

from dataclasses import dataclass

from tcopt.support.arithmetic.columns import Column, ceil_div, where
from tcopt.support.machines.alignment import ALIGNMENT
from tcopt.support.machines.machine import EXPOSED, VectorUnits
from tcopt.support.machines.matmul_tiles import best_tile

PASSES = 4
"""Transfers of the rows: scores are written and read, and weights are written and read."""

COPY_CYCLES = 1.5
"""Cycles in which a vector of a matrix is copied to contiguous rows."""

TILES = (1, 2, 4, 8, 16, 32)
"""Candidate numbers of register tiles in a strip."""

NEAR = 8
"""Maximum size of a strip, as a multiple of L2; longer strips are limited by L3."""


@dataclass(frozen=True)
class RowStrips:
    """Extents of the two products.

    Attributes:
        batch: number of pairs of products, such as attention heads.
        rows: rows of both results.
        keys: columns of the first result, which the second product sums over.
        depth: terms of a sum of the first product.
        columns: columns of the second result.
        bytes: size of an element.
    """

    batch: int
    rows: int
    keys: int
    depth: int
    columns: int
    bytes: int

    def strip_bytes(self, strip: Column) -> Column:
        """Return the bytes of the scores and weights of a strip of rows."""
        return 2 * strip * self.keys * self.bytes

    def candidates(self, units: VectorUnits) -> tuple[int, ...]:
        """Return numbers of rows of a strip: whole register tiles that fit a few times L2."""
        found = [min(max(n * self._tile(units), 2), self.rows) for n in TILES]
        most = NEAR * units.l2
        fitting = {strip for strip in found if self.strip_bytes(strip) <= most}
        return tuple(sorted(fitting or {found[0]}))

    def _tile(self, units: VectorUnits) -> int:
        """Return the rows of a register tile of the second product."""
        return int(best_tile(self.rows, self.columns, units.lanes(8 * self.bytes), units).rows)

    def conflicts(self, units: VectorUnits) -> bool:
        """Whether rows of a matrix that a tile reads are in too few sets of L1 to stay there."""

        def conflicting(columns: int, terms: int) -> bool:
            stride = columns * self.bytes
            return 2 * terms > units.l1 // max(stride & -stride, ALIGNMENT)

        return conflicting(self.keys, self.depth) or conflicting(self.columns, self.keys)

    def strip_cycles(self, units: VectorUnits, strip: Column, copies: Column = 0) -> Column:
        """Return the cycles that transfers add if all is computed for a strip of rows at a time.

        Args:
            strip: rows of a strip.
            copies: whether keys and values are copied to contiguous rows for each strip. Otherwise
                each register tile reads them again from L3, if they conflict and do not fit L2.
        """
        matrices = self.keys * (self.depth + self.columns) * self.bytes
        size = self.strip_bytes(strip)
        again = self.batch * ceil_div(self.rows, strip) * matrices
        moved = PASSES * self.batch * self.rows * self.keys * self.bytes
        reads = _wait(units, again, matrices + size)
        copied = COPY_CYCLES * again * 8 / units.vector_bits
        # The products read panels from L2 anyway.
        far = self.conflicts(units) and not units.is_near(matrices)
        tiles = self.batch * ceil_div(self.rows, self._tile(units)) if far else 0
        missed = _wait(units, tiles * matrices, matrices)
        return reads + where(copies, copied, missed) + _wait(units, moved, size)

    def separate_cycles(self, units: VectorUnits) -> Column:
        """Return the cycles that transfers of all scores and weights add in separate kernels."""
        size = self.batch * self.rows * self.keys * self.bytes
        return _wait(units, PASSES * size, size)


def _wait(units: VectorUnits, moved: Column, size: Column) -> Column:
    """Return the cycles for which computation waits for transfers.

    Args:
        moved: transferred bytes.
        size: bytes of the data that is transferred repeatedly.
    """
    far = EXPOSED * moved / units.rate(size)
    return where(units.is_near(size), units.exposed(moved, near=True), far)
