"""Tables of sums, and convolutions that look them up: natively and interpreted, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from checks.cpu_kernels import check_op, kernel_text
from tcopt.backends.llvm.machine.host import default_target
from tcopt.dialects.graph.packed.sum_tables import SumTablesOp, TableShape
from tcopt.dialects.graph.packed.table_conv import TableConvOp
from tcopt.dialects.intrinsics.table_sums import lookup_of

TABLES = {
    "image": ((1, 4, 5, 3, 16), np.uint8, (0, 256), TableShape(4, 4, 4, 10), {}),
    "row": ((1, 1, 100), np.int16, (0, 256), TableShape(6, 8, 2, 11), {}),
    "plus_or_minus": (
        (2, 3, 2, 8),
        np.int8,
        (-128, 128),
        TableShape(6, 4, 1, 11),
        {"bias": 768, "exclusive": True},
    ),
    "few_bits": ((3, 2, 2, 2, 4), np.uint8, (0, 16), TableShape(4, 1, 2, 7), {}),
}
"""Shapes, types, value bounds, tables."""


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("width", [512, 128])
def test_tables(name: str, width: int) -> None:
    shape, dtype, limits, tables, options = TABLES[name]
    x = np.random.default_rng(0).integers(*limits, shape).astype(dtype)
    check_op(lambda value: SumTablesOp(value, tables, **options), x, bits=width, tolerance=0)


CONVOLUTIONS = {
    "window": ((1, 6, 5, 2, 2, 2, 64), (2, 2, 3, 3, 1, 2, 64), 11, {}),
    "rows": ((1, 9, 3, 4, 1, 16), (2, 3, 1, 1, 4, 64), 7, {"signed": True}),
    "planes": ((1, 3, 2, 4, 2, 64), (1, 2, 1, 2, 4, 64), 11, {"signed": True}),
    "strides": ((2, 7, 6, 1, 1, 1, 64), (1, 1, 3, 2, 3, 1, 64), 5, {"strides": [2, 1]}),
    "dilated": ((1, 7, 7, 1, 2, 2, 16), (1, 1, 2, 2, 1, 2, 32), 10, {"dilations": [2, 2]}),
    "narrow": ((1, 4, 1, 1, 1, 64), (3, 1, 1, 1, 1, 7), 7, {}),
}


@pytest.mark.nightly(every=4)
@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("width", [512, 256])
def test_convolutions(name: str, width: int) -> None:
    data, weights, bits, options = CONVOLUTIONS[name]
    rng = np.random.default_rng(0)
    x, w = (rng.integers(0, 256, shape, np.uint8) for shape in (data, weights))
    check_op(lambda a, b: TableConvOp(a, b, bits=bits, **options), x, w, bits=width, tolerance=0)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_entries_are_looked_up(name: str) -> None:
    data, weights, bits, options = CONVOLUTIONS[name]
    arrays = [np.zeros(shape, np.uint8) for shape in (data, weights)]
    text = kernel_text(lambda a, b: TableConvOp(a, b, bits=bits, **options), *arrays)
    lookup = lookup_of(default_target().capabilities)
    if lookup is not None and lookup.entries == data[-1]:
        assert "simd.table_sum" in text
