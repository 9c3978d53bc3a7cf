"""Warp-level ops in the kernel interpreter.

Values have an entry for each thread; a warp is 32 consecutive threads of a block. The element of
each lane is computed from `dialects/fragments.py` element by element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import VectorType
from xdsl.ir.affine import AffineConstantExpr
from xdsl.utils.hints import isa

from tcopt.dialects.fragments import LANES, MATRIX, Fragment
from tcopt.dialects.simt import ExchangeRowsOp, MmaSyncOp
from tcopt.support.data.dtypes import numpy_dtype

Array = NDArray[Any]
Rule = Callable[[Any, Sequence[Array]], Array]


def _mma_sync(op: MmaSyncOp, operands: Sequence[Array]) -> Array:
    """Return the matrix product of each warp, assembled from and split into fragments."""
    rows, columns, depth = op.sizes
    parts = Fragment(rows, columns), Fragment(rows, depth), Fragment(depth, columns, is_right=True)
    acc, left, right = (_tile(value, part) for value, part in zip(operands, parts, strict=True))
    total = acc + left.astype(acc.dtype) @ right.astype(acc.dtype)
    down, across = _places(parts[0])
    result = total[:, down, across]
    return result.reshape(operands[0].shape)


def _tile(value: Array, part: Fragment) -> Array:
    """Return the tile of each warp from the fragments of its lanes."""
    down, across = _places(part)
    tile = np.empty((len(value) // LANES, part.rows, part.columns), value.dtype)
    tile[:, down, across] = value.reshape(-1, *down.shape)
    return tile


@cache
def _places(part: Fragment) -> tuple[Array, Array]:
    """Return the row and column of each element of each lane."""
    shape = [extent for extent, _ in part.box]
    at = np.empty((2, LANES, int(np.prod(shape))), np.int64)
    for lane in range(LANES):
        first = [expr.eval([lane], []) for expr in part.origin(AffineConstantExpr(lane))]
        for number, point in enumerate(product(*map(range, shape))):
            for dim in (0, 1):
                moved = sum(n * step[dim] for n, (_, step) in zip(point, part.box, strict=True))
                at[dim, lane, number] = first[dim] + moved
    return at[0], at[1]


def _exchange_rows(op: ExchangeRowsOp, operands: Sequence[Array]) -> Array:
    """Return pairs of the rows, or columns, of each matrix of a warp."""
    (rows,) = operands
    matrices = rows.reshape(-1, LANES // MATRIX, MATRIX, MATRIX)[:, : op.matrices]
    if op.transposed is not None:
        matrices = matrices.swapaxes(2, 3)
    # Warp, matrix, row, and pair in the row: a lane has one pair of each matrix.
    pairs = matrices.reshape(-1, op.matrices, LANES, 2)
    return pairs.swapaxes(1, 2).reshape(len(rows), 2 * op.matrices)


def per_thread(value: Any, type: Any, count: int) -> Array:
    """Broadcast a value that may be uniform to an entry for each thread."""
    assert isa(type, VectorType)
    dtype = numpy_dtype(type.get_element_type())
    return np.broadcast_to(np.asarray(value, dtype), (count, *type.get_shape()))


WARP_RULES: dict[str, Rule] = {
    MmaSyncOp.name: _mma_sync,
    ExchangeRowsOp.name: _exchange_rows,
}
"""Evaluators of warp-level ops, by op name."""
