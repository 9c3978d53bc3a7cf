"""Opaque operators: their loops match numpy, in any order of iterations declared parallel."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.te_check import value
from running.examples import examples
from tcopt.dialects import graph, loop
from tcopt.dialects.graph.core.types import numpy_dtype, shape_of, type_of
from tcopt.dialects.loop.computed_indices import is_computed
from tcopt.dialects.te.scalar import storage_type
from tcopt.support.ir.verify import verify
from tcopt.tools.execution.loop_executor import run_func

RNG = np.random.default_rng(11)


def f32(*shape):
    return RNG.uniform(-2, 2, shape).astype(np.float32)


def run(make, *arrays, atol=1e-5, **attributes):
    """Check the op that `make` builds; return the numpy results."""
    values = [value(array) for array in arrays]
    op = make(values) if make is graph.ConcatRowsOp else make(*values, **attributes)
    op.verify()
    expected = op.evaluate(*arrays)
    function = op.define("f")
    verify(function)
    for order in (0, 3):
        results = [
            np.zeros(shape_of(r), numpy_dtype(storage_type(type_of(r).element_type)))
            for r in op.results
        ]
        signless = [a.view(a.dtype.str.replace("u", "i")) for a in arrays]
        run_func(function, [*signless, *results], order=order)
        for result, wanted in zip(results, expected, strict=True):
            assert wanted.shape == result.shape
            np.testing.assert_allclose(result.view(wanted.dtype), wanted, rtol=1e-5, atol=atol)
    return expected


@pytest.mark.parametrize("k", [0, 1, 7, 40, 50])
@pytest.mark.parametrize("smallest", [False, True])
def test_top_k(k, smallest):
    # Few distinct values: equal ones keep their order.
    run(graph.TopKOp, RNG.integers(0, 12, (3, 50)).astype(np.float32), k=k, smallest=smallest)
    run(graph.TopKOp, RNG.integers(0, 255, (2, 50)).astype(np.uint8), k=k, smallest=smallest)


@pytest.mark.nightly(every=6)
@pytest.mark.parametrize("k", [1, 16, 17, 140, 151, 300])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, np.int8, np.uint8, np.int64])
def test_top_k_of_many(k, dtype):
    """Top-k by ranks, insertion, radix and merge sorting, on all types and with duplicates."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        x = (RNG.normal(0, 1, (2, 300)) * 10.0 ** RNG.integers(-4, 5, (2, 300))).astype(dtype)
        x[:, ::7] = RNG.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1], 43)
    else:
        limits = np.iinfo(kind)
        x = RNG.integers(limits.min, limits.max, (2, 300), dtype, endpoint=True)
        x[:, ::5] = RNG.choice([limits.min, limits.max, 0, 1], 60)
    for smallest in (False, True):
        run(graph.TopKOp, x, k=k, smallest=smallest)


@given(st.lists(st.integers(-5, 5), min_size=33, max_size=70))
@settings(max_examples=examples(10), deadline=None)
def test_sorting_is_stable_for_any_row(row):
    x = np.array([row], np.int32)
    values, places = run(graph.TopKOp, x, k=len(row), smallest=True)
    np.testing.assert_array_equal(places[0], np.argsort(x[0], kind="stable"))
    np.testing.assert_array_equal(values[0], np.sort(x[0]))


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("axis", [0, 1])
def test_scatter_elements(reduction, axis):
    places = np.stack([RNG.permutation(4) for _ in range(3)]) - 2
    places = places if axis else RNG.integers(-5, 5, (3, 4))
    repeats = {"axis": axis, "reduction": reduction}
    if reduction == "none" and axis == 0:
        places = np.stack([RNG.permutation(5)[:3] for _ in range(4)], 1) - 5
    run(graph.ScatterElementsOp, f32(5, 4), places, f32(3, 4), **repeats)


def test_scatter_leaves_out_what_is_outside():
    x, places = f32(2, 3), np.array([[5], [-4]])
    (result,) = run(graph.ScatterElementsOp, x, places, f32(2, 1), axis=1)
    np.testing.assert_array_equal(result, x)


@pytest.mark.parametrize("reduction", ["none", "add", "max"])
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_scatter_nd(reduction, depth):
    shape = (4, 3, 2)
    if reduction == "none":
        flat = RNG.permutation(int(np.prod(shape[:depth])))[:4]
        places = np.stack(np.unravel_index(flat, shape[:depth]), -1) if depth else None
    else:
        places = np.stack([RNG.integers(-n, n, 6) for n in shape[:depth]], -1) if depth else None
    places = np.zeros((3, 0), np.int64) if places is None else places.astype(np.int64)
    updates = f32(len(places), *shape[depth:])
    run(graph.ScatterNdOp, f32(*shape), places, updates, reduction=reduction)


@pytest.mark.parametrize("op", [graph.CumsumOp, graph.CumprodOp])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumulative(op, exclusive, reverse):
    options = {"exclusive": exclusive, "reverse": reverse}
    run(op, f32(2, 5, 3), axis=-2, **options)
    run(op, f32(2, 3, 2, 32), axis=1, **options)
    run(op, f32(2, 3, 29), axis=1, **options)
    run(op, f32(5, 8).astype(np.float16), axis=0, atol=2e-2, **options)
    run(op, RNG.integers(-3, 4, (6,)), axis=0, **options)
    run(op, f32(2, 8).astype(np.float16), axis=1, atol=2e-2, **options)


def test_inverse():
    x = f32(4, 5, 5)
    x[2, 0, 0] = 0
    run(graph.InverseOp, x, atol=1e-4)


def test_determinant():
    x = f32(4, 5, 5)
    x[1, 2] = x[1, 0]
    x[2, 0, 0] = 0
    run(graph.DeterminantOp, x, atol=1e-4)
    run(graph.DeterminantOp, f32(3, 1, 1))


@pytest.mark.parametrize("column_major", [False, True])
def test_max_pool_indices(column_major):
    options = {"column_major": column_major, "strides": [2, 1], "pads": [1, 0, 1, 2]}
    x = RNG.integers(-9, 0, (2, 3, 7, 6)).astype(np.float32)
    run(graph.MaxPoolIndicesOp, x, kernel=[3, 2], ceil_mode=True, **options)
    run(graph.MaxPoolIndicesOp, f32(1, 2, 9), kernel=[2], dilations=[3])


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("samples", [0, 2])
@pytest.mark.parametrize("maximum", [False, True])
@pytest.mark.parametrize("half_pixel", [False, True])
def test_roi_align(samples, maximum, half_pixel):
    boxes = np.array([[0, 0, 9, 9], [3.2, 1.5, 4, 7], [-2, 5, 30, 8.5]], np.float32)
    options = {"samples": samples, "maximum": maximum, "half_pixel": half_pixel}
    batch = np.array([1, 0, 1])
    for channels in (2, 21):
        x = f32(2, 6, 7, channels)
        run(graph.RoiAlignOp, x, boxes, batch, size=[2, 3], scale=0.6, **options)


@pytest.mark.parametrize("columns", [[1], [3, 29, 5], [16, 1, 1, 50]])
def test_concat_rows(columns):
    for rows in (1, 4):
        run(graph.ConcatRowsOp, *[f32(rows, n) for n in columns])


@pytest.mark.parametrize("extent", [1, 5, 16, 61])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.4, 1.0])
def test_nonzero(extent, share):
    places, count = run(graph.NonzeroOp, RNG.uniform(size=extent) < share)
    assert not places[count[0] :].any()


def test_argsort_rows():
    # Few distinct values: many rows agree in their first columns, some in all.
    for columns in (1, 3):
        x = RNG.integers(0, 3, (40, columns)).astype(np.float32)
        (places,) = run(graph.ArgsortRowsOp, x)
        np.testing.assert_array_equal(places, sorted(range(40), key=lambda i: (*x[i], i)))


@pytest.mark.nightly(every=2)
@pytest.mark.parametrize("most", [0, 2, 9])
@pytest.mark.parametrize("centred", [False, True])
def test_non_max_suppression(most, centred):
    corner = RNG.uniform(0, 3, (2, 9, 2))
    boxes = np.concatenate([corner, corner + RNG.uniform(0, 2, (2, 9, 2))], 2).astype(np.float32)
    boxes[0, 3, 2:] = boxes[0, 3, :2]
    scores = RNG.uniform(size=(2, 3, 9)).astype(np.float32)
    scores[0, 1, 2:5] = 0.7
    scores[1, 0, 4] = np.nan
    bounds = [np.array([most]), np.array([0.2], np.float32), np.array([0.3], np.float32)]
    selected, count = run(
        graph.NonMaxSuppressionOp, boxes, scores, *bounds, limit=6, centred=centred
    )
    assert 0 <= count[0] <= 6 * min(most, 6)
    assert not selected[count[0] :].any()


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize(("boxes", "limit"), [(200, 200), (200, 7), (65, 65)])
def test_non_max_suppression_among_many(boxes, limit):
    """More elements than are compared, scanned or sorted at once."""
    corner = RNG.uniform(0, 60, (1, boxes, 2))
    sides = np.concatenate([corner, corner + RNG.uniform(0, 9, corner.shape)], 2)
    scores = RNG.integers(0, 90, (1, 2, boxes)).astype(np.float32)
    bounds = [np.array([boxes]), np.array([0.1], np.float32), np.array([9], np.float32)]
    found = run(graph.NonMaxSuppressionOp, sides.astype(np.float32), scores, *bounds, limit=limit)
    assert 0 < found[1][0] <= 2 * limit


@pytest.mark.parametrize("k", [3, 40])
@pytest.mark.parametrize("smallest", [False, True])
def test_top_k_puts_nan_above_all_numbers(k, smallest):
    x = RNG.uniform(-2, 2, (4, 40)).astype(np.float32)
    x[RNG.random(x.shape) < 0.3] = np.nan
    x[2] = np.nan
    x[3, :5] = [np.inf, -np.inf, np.nan, np.nan, 0]
    values, _ = run(graph.TopKOp, x, k=k, smallest=smallest)
    ordered = np.sort(x, axis=1)
    np.testing.assert_array_equal(values, (ordered if smallest else ordered[:, ::-1])[:, :k])


def test_rows_with_nan_are_behind_those_without():
    x = np.array([[np.nan, 1], [0, np.nan], [np.nan, 0], [0, 5], [-1, np.nan]], np.float32)
    (places,) = run(graph.ArgsortRowsOp, x)
    assert places.tolist() == [4, 3, 1, 2, 0]


@pytest.mark.nightly(every=4)
@pytest.mark.parametrize("maximum", [False, True])
@pytest.mark.parametrize("half_pixel", [False, True])
def test_roi_align_of_regions_far_larger_than_the_image(maximum, half_pixel):
    sides = [[-3, -2, 60, 9], [0, 0, 5000, 900], [-4e4, 2, 9e4, 3], [2, 3, 1, 0]]
    boxes = np.array([*sides, [np.nan] * 4, [np.inf] * 4, [-np.inf, 0, np.inf, 2]], np.float32)
    (result,) = run(
        graph.RoiAlignOp,
        f32(2, 6, 7, 2) + 3,
        boxes,
        np.array([0, 1, 0, 1, 0, 5, -9]),
        size=(2, 3),
        maximum=maximum,
        half_pixel=half_pixel,
        atol=1e-3,
    )
    assert np.isfinite(result).all() and result[0].any() and not result[4].any()


@pytest.mark.parametrize("columns", [1, 3, 16, 29])
def test_neighbours_are_vectors(columns):
    """Rows are moved by vectors at affine indices and a shorter remainder: a computed index would
    turn each vector into a gather."""
    data = f32(5, columns)
    scatter = graph.ScatterNdOp(*map(value, (data, np.array([[1]]), data[:1])))
    for op in (graph.CumsumOp(value(data), axis=0), scatter):
        loops = [each for each in op.define("f").walk() if isinstance(each, loop.ForOp)]
        vectors = [each for each in loops if each.loop_kind is loop.LoopKind.VECTORIZED]
        # Rows of one element are copied as one row.
        wanted = 4 if op is scatter and columns == 1 else {1: 0, 3: 0, 16: 16, 29: 28}[columns]
        assert sum({v.trip_count for v in vectors}) == wanted
        for each in vectors:
            for access in each.walk():
                if isinstance(access, loop.LoadOp | loop.StoreOp):
                    assert not any(is_computed(index) for index in access.indices)
