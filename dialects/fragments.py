"""Mapping of the matrices of `mma.sync` to the lanes of a warp.

As in the PTX ISA, sections "Matrix Fragments for mma.m16n8k16 with floating point type" and the
same for m16n8k8: with `group = lane floordiv 4` and `pair = lane mod 4`,

    element                 of            row                    column
    2 * h + i               sums, 16 x 8  group + 8 * h          2 * pair + i
    4 * g + 2 * h + i       left, 16 x k  group + 8 * h          2 * pair + i + 8 * g
    2 * g + i               right, k x 8  2 * pair + i + 8 * g   group

for i, h and g in {0, 1}; if k is 8, g is 0. So each fragment is a box: two neighbouring elements,
at the same position of several 8x8 matrices.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir.affine import AffineConstantExpr, AffineExpr

LANES = 32
"""Lanes of a warp."""

MATRIX = 8
"""Rows and columns of the matrices that tiles consist of."""

_PAIR = 2
_PAIRS = MATRIX // _PAIR


@dataclass(frozen=True)
class Fragment:
    """The elements of a tile that one lane holds.

    Attributes:
        rows, columns: extents of the tile.
        is_right: whether it is a right factor, whose pairs are adjacent rows.
    """

    rows: int
    columns: int
    is_right: bool = False

    @property
    def along(self) -> int:
        """The dimension along which a lane's pair of elements is adjacent."""
        return 0 if self.is_right else 1

    def origin(self, lane: AffineExpr) -> tuple[AffineExpr, AffineExpr]:
        """Return the row and column of a lane's first element."""
        group, pair = lane // _PAIRS, (lane % _PAIRS) * _PAIR
        return (pair, group) if self.is_right else (group, pair)

    @property
    def box(self) -> tuple[tuple[int, tuple[int, int]], ...]:
        """Extents of the box, each with its steps along rows and columns, outermost first."""
        outer: list[tuple[int, tuple[int, int]]] = []
        # Matrices are numbered down the columns of a tile.
        for extent, step in ((self.columns, (0, MATRIX)), (self.rows, (MATRIX, 0))):
            if extent > MATRIX:
                outer.append((extent // MATRIX, step))
        return (*outer, (_PAIR, (1, 0) if self.is_right else (0, 1)))

    @property
    def matrices(self) -> int:
        """The number of 8x8 matrices in the tile."""
        return self.rows * self.columns // (MATRIX * MATRIX)

    def row_origin(self, lane: AffineExpr, *, transposed: bool) -> tuple[AffineExpr, AffineExpr]:
        """Return the start of the row that a lane provides to `simt.exchange_rows`: lanes in
        order, matrices in the order of the box.

        Args:
            transposed: whether rows are perpendicular to a lane's pairs.
        """
        number, down, across = lane // MATRIX, self.rows // MATRIX, self.columns // MATRIX
        column: AffineExpr = AffineConstantExpr(0)
        if across > 1:
            column = (number // down) % across * MATRIX
        if (self.along == 0) == transposed:
            return lane % (MATRIX * down), column
        row = (number % down) * MATRIX if down > 1 else AffineConstantExpr(0)
        return row, column + lane % MATRIX


def elements_a_lane(rows: int, columns: int) -> int:
    """Return the number of elements of a tile that each lane holds."""
    return rows * columns // LANES


def place_of_sum(row: AffineExpr, column: AffineExpr) -> tuple[AffineExpr, AffineExpr, AffineExpr]:
    """Return the lane that holds an accumulator, its matrix, and its position in the pair."""
    lane = (row % MATRIX) * _PAIRS + (column % MATRIX) // _PAIR
    return lane, row % (2 * MATRIX) // MATRIX, column % _PAIR
