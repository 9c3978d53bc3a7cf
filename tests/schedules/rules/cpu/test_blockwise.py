"""Products with matrices of codes, by the rule for blockwise products, against numpy."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from checks.cpu_kernels import AVX2, check_op, data, everything_parallel, scheduled
from checks.te_check import check, value
from tcopt.dialects.graph import BlockwiseMatmulOp


def matrix(
    bits: int,
    size: int,
    blocks: int,
    columns: int,
    zeros: bool,
    scale: type = np.float32,
    rounded: bool = False,
) -> tuple[partial[BlockwiseMatmulOp], list[np.ndarray]]:
    """Return the op and its constant operands, with any bits in the padding of the last panel."""
    rng = np.random.default_rng(bits)
    shape = (-(-columns // 32), blocks)
    codes = rng.integers(0, 1 << 32, (*shape, size * bits // 32, 32), np.uint32)
    operands = [codes, rng.uniform(0.01, 0.1, (*shape, 32)).astype(scale)]
    if zeros:
        operands.append(rng.integers(0, 1 << bits, (*shape, 32)).astype(np.uint8))
    return partial(BlockwiseMatmulOp, bits=bits, columns=columns, rounded=rounded), operands


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("rounded", [False, True])
def test_expression(bits: int, zeros: bool, rounded: bool):
    """The tensor expression and the evaluation agree, for data in several dimensions."""
    make, operands = matrix(bits, 32, 3, 40, zeros, np.float16, rounded)
    x = data(2, 2, 96)
    x[0, 0, :32] = 0
    op = make(value(x), *map(value, operands))
    check(op, [x, *operands], atol=1e-3)


@pytest.mark.parametrize(
    ("rows", "bits", "size", "columns", "zeros"),
    [
        ((1,), 4, 32, 64, False),
        ((1, 1), 8, 16, 40, True),
        ((7,), 2, 32, 96, True),
        ((2, 9), 4, 128, 70, False),
        ((33,), 8, 32, 32, False),
    ],
)
@pytest.mark.parametrize("rounded", [False, True])
def test_kernels(rows, bits, size, columns, zeros, rounded):
    """One row, few rows, tiles with a rest, and partial panels, on one thread and on several."""
    make, operands = matrix(bits, size, 3, columns, zeros, rounded=rounded)
    with everything_parallel(len(rows) > 1):
        check_op(make, data(*rows, 3 * size), *operands, tolerance=1e-4)


def test_rule():
    make, operands = matrix(4, 32, 2, 64, False)
    x = data(5, 64)
    op = make(value(x), *map(value, operands))
    _, rule = scheduled([x, *operands], op.tensor_expression, AVX2)
    assert rule == "cpu-blockwise-product"
