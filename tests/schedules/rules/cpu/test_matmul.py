"""Matrix products in every layout, by the matmul rules, against numpy."""

from __future__ import annotations

from math import prod
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checks.cpu_kernels import AVX2, check_op, data, everything_parallel, scheduled, target
from running.examples import examples
from tcopt.dialects.graph import GraphOp, MatmulOp, TransposeOp
from tcopt.dialects.graph.packed.packed_matmul import PackedMatmulOp
from tcopt.dialects.loop import AllocOp, BlockOp, LoopKind, PrefetchOp, Scope
from tcopt.schedules.rules.cpu import matmul_space
from tcopt.schedules.state.state import loops_of
from tcopt.support.machines.machine import VectorUnits
from tcopt.support.machines.matmul_tiles import MAX_ROWS, best_tile, fits, tile_cost

FEW = settings(max_examples=examples(8), deadline=None, suppress_health_check=[*HealthCheck])

rows = st.sampled_from([1, 2, 3, 7, 8, 9, 13, 17, 33])
depths = st.sampled_from([1, 2, 3, 4, 5, 8, 16, 65])
batches = st.sampled_from([(), (1,), (3,), (2, 2)])
bits = st.sampled_from([256, None])


@FEW
@given(rows, depths, st.integers(1, 4), st.integers(1, 3), st.data())
def test_panels(m, k, vectors, panels, choices):
    """Products with any panel, number of columns, batch and layout of the left operand."""
    bits_ = choices.draw(bits)
    width = vectors * ((bits_ or 512) // 32)
    columns = width * panels - choices.draw(st.integers(0, width - 1))
    transposed = choices.draw(st.booleans())
    batch = choices.draw(batches)
    with everything_parallel(choices.draw(st.booleans())):
        check_op(
            lambda a, b: PackedMatmulOp(a, b, columns=columns, transpose_a=transposed),
            data(*batch, *((k, m) if transposed else (m, k))),
            data(panels, k, width, seed=1),
            bits=bits_,
        )


@FEW
@given(
    st.sampled_from([32, 33, 40, 70]),
    st.sampled_from([16, 24, 60, 134]),
    st.integers(1, 3),
    bits,
    st.booleans(),
)
def test_deep_reductions_in_parts(m, k, panels, bits_, parallel):
    """Partial results of parts of the depth add up, with a bias, for any number of rows."""
    width = (bits_ or 512) // 32

    def product(a, b):
        return PackedMatmulOp(a, b, columns=width * panels - 3)

    with everything_parallel(parallel), mock.patch.object(matmul_space, "PART_SHARE", 4096):
        arrays = data(m, k), data(panels, k, width, seed=1)
        op = product(*_values(*arrays))
        assert scheduled(arrays, op.tensor_expression, target(bits_))[1] == "cpu-matmul"
        check_op(product, *arrays, bits=bits_)


@pytest.mark.parametrize("m", [1, 45])
def test_panels_beyond_the_second_cache(m):
    """Panels that several tiles of rows use are prefetched, without changing results."""
    arrays = data(m, 96), data(9, 96, 16, seed=1)

    def product(a, b):
        return PackedMatmulOp(a, b, columns=140)

    with mock.patch.object(matmul_space, "access_bytes", lambda _: 4096), everything_parallel():
        op = product(*_values(*arrays))
        module, rule = scheduled(arrays, op.tensor_expression, AVX2)
        assert rule == "cpu-matmul"
        assert any(isinstance(step, PrefetchOp) for step in module.walk()) == (m > 1)
        check_op(product, *arrays, bits=256)


@pytest.mark.parametrize(("panels", "streams"), [(8, 2), (12, 3)])
def test_a_row_passes_over_several_panels_at_once(panels, streams):
    """Results are also correct if a row ends inside the last panel."""
    arrays = data(1, 23), data(panels, 23, 32, seed=1)

    def product(a, b):
        return PackedMatmulOp(a, b, columns=32 * panels - 5)

    assert _tiles(product, *arrays) == {32 * streams}
    check_op(product, *arrays, bits=256)


@pytest.mark.parametrize(("batch", "tile"), [(16, 64), (1, 32)])
def test_a_row_reads_whole_rows_unless_threads_divide_them(batch, tile):
    arrays = data(batch, 1, 23), data(batch, 23, 64, seed=1)
    assert _tiles(MatmulOp, *arrays) == {tile}
    check_op(MatmulOp, *arrays, bits=256)


def _tiles(product, *arrays):
    """Numbers of elements that are computed at once."""
    module, rule = scheduled(arrays, product(*_values(*arrays)).tensor_expression, AVX2)
    assert rule == "cpu-matmul"
    kinds = (LoopKind.UNROLLED, LoopKind.VECTORIZED)
    return {
        prod(each.trip_count for each in loops_of(op) if each.loop_kind in kinds)
        for op in module.walk()
        if isinstance(op, BlockOp) and not op.is_reduction
    }


@pytest.mark.parametrize(("depth", "chunks"), [(24, 1), (200, 6), (300, 1), (1000, 2)])
def test_rows_of_a_chunk_stay_in_the_second_cache(depth, chunks):
    """Few tiles do not justify reading the panels again."""
    arrays = data(864, depth), data(8, depth, 16, seed=1)
    op = PackedMatmulOp(*_values(*arrays), columns=120)
    module, _ = scheduled(arrays, op.tensor_expression, AVX2)
    sums = next(op for op in module.walk() if isinstance(op, BlockOp) and op.is_reduction)
    outer = loops_of(sums)[0]  # The outer loops are over chunks and panels.
    assert outer.trip_count == 8 * chunks


@pytest.mark.parametrize(("columns", "copied"), [(512, True), (500, False)])
def test_columns_that_conflict_in_the_first_cache_are_copied(columns, copied):
    """Rows a power of two apart share few cache sets; the last tile may have fewer rows."""
    arrays = data(2, 133, 72), data(2, 72, columns, seed=1)
    op = MatmulOp(*_values(*arrays))
    module, rule = scheduled(arrays, op.tensor_expression, AVX2)
    assert rule == "cpu-matmul"
    allocs = [op for op in module.walk() if isinstance(op, AllocOp)]
    assert any(op.scope.data == Scope.LOCAL for op in allocs) == copied
    check_op(MatmulOp, *arrays, bits=256)


@FEW
@given(
    st.integers(1, 3),
    st.integers(1, 40),
    st.sampled_from([1, 3, 16, 64, 70]),
    batches,
    bits,
    st.booleans(),
)
def test_few_rows_with_columns_as_they_are_stored(m, n, k, batch, bits_, parallel):
    """Products whose two operands are contiguous along the reduction."""
    with everything_parallel(parallel):
        check_op(
            lambda a, b: MatmulOp(a, b, transpose_b=True),
            data(*batch, m, k),
            data(*batch, n, k, seed=1),
            bits=bits_,
        )


@given(st.integers(1, 5), st.permutations(range(4)))
def test_decomposed_products_are_the_product(rows, perm):
    """Products with any transpose of the right operand and any number of rows."""
    stored = data(2, 3, 4, 5)
    array = stored.transpose(perm)
    x = data(*array.shape[:2], rows, array.shape[2], seed=1)
    lhs, rhs = _variables(x, stored)
    transposed = TransposeOp(rhs, perm)
    product = MatmulOp(lhs, transposed)
    values = {lhs: x, rhs: stored, transposed.result: array}
    ops = product.decompose() or (product,)
    for op in ops:
        assert isinstance(op, GraphOp)
        values[op.results[0]] = op.evaluate(*(values[v] for v in op.operands))[0]
    np.testing.assert_allclose(values[ops[-1].results[0]], x @ array, rtol=1e-5, atol=1e-5)


def _variables(*arrays):
    from xdsl.ir import Block

    from tcopt.dialects.graph.core.types import like

    return Block(arg_types=[like(array) for array in arrays]).args


def test_panels_are_the_matrix():
    """Panels are slices of a matrix's columns; the last one is padded with zeros."""
    matrix = data(5, 7)
    panels = np.moveaxis(np.pad(matrix, ((0, 0), (0, 1))).reshape(5, 2, 4), 1, 0)
    x = data(3, 5)
    (y,) = PackedMatmulOp(*_values(x, panels), columns=7).evaluate(x, panels)
    np.testing.assert_allclose(y, x @ matrix, rtol=1e-5)


def _values(*arrays):
    from tcopt.dialects.graph import ConstantOp
    from tcopt.dialects.graph.core.types import like

    return [ConstantOp.weight("v", like(array)).results[0] for array in arrays]


@given(st.integers(1, 300), st.integers(1, 300), st.sampled_from([(4, 32), (8, 16), (16, 32)]))
def test_tiles_fit_registers_and_are_near_the_cheapest(m, n, facts):
    lanes, registers = facts
    units = VectorUnits(vector_bits=32 * lanes, registers=registers)
    tile = best_tile(m, n, lanes, units)
    assert fits(tile, registers)
    assert 1 <= tile.rows <= min(m, MAX_ROWS)
    assert (tile.vectors - 1) * lanes < n
    alone = tile._replace(rows=1)
    assert tile_cost(m, n, lanes, units, tile) <= 1.02 * tile_cost(m, n, lanes, units, alone)


def test_large_products_get_the_tiles_that_reach_peak():
    wide = VectorUnits(vector_bits=512, registers=32)
    assert best_tile(128, 768, 16, wide) == (8, 3)
    assert best_tile(128, 768, 8, VectorUnits(vector_bits=256)) == (6, 2)
    assert best_tile(1, 4096, 16, wide).vectors == 4
