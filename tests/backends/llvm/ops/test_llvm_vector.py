"""Compiled lane permutations and reductions, against numpy."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from programs.kernel_modules import parse_kernel
from tcopt.backends.llvm.jit import compile_module


def move(body: str, source: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Compile a function that loads `%v`, runs the body and stores `%r` of the given shape."""
    from_type = "x".join(map(str, source.shape)) + "xf32"
    to_type = "x".join(map(str, shape)) + "xf32"
    text = f"""
    func.func @k(%a: memref<{source.size}xf32>, %b: memref<{prod(shape)}xf32>) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %flat = vector.load %a[%c0] : memref<{source.size}xf32>, vector<{source.size}xf32>
      %v = vector.shape_cast %flat : vector<{source.size}xf32> to vector<{from_type}>
      {body}
      %out = vector.shape_cast %r : vector<{to_type}> to vector<{prod(shape)}xf32>
      vector.store %out, %b[%c0] : memref<{prod(shape)}xf32>, vector<{prod(shape)}xf32>
      func.return
    }}
    """
    result = np.zeros(shape, np.float32)
    compile_module(parse_kernel(text)).function("k")(source.reshape(-1), result.reshape(-1))
    return result


_CASES = [
    (
        "vector.transpose %v, [1, 0] : vector<3x4xf32> to vector<4x3xf32>",
        (3, 4),
        (4, 3),
        lambda v: v.T,
    ),
    (
        "vector.transpose %v, [2, 0, 1] : vector<2x3x4xf32> to vector<4x2x3xf32>",
        (2, 3, 4),
        (4, 2, 3),
        lambda v: v.transpose(2, 0, 1),
    ),
    (
        "vector.extract %v[1] : vector<4xf32> from vector<3x4xf32>",
        (3, 4),
        (4,),
        lambda v: v[1],
    ),
    (
        "vector.extract_strided_slice %v {offsets = [1, 2], sizes = [2, 2], strides = [1, 1]}"
        " : vector<3x4xf32> to vector<2x2xf32>",
        (3, 4),
        (2, 2),
        lambda v: v[1:3, 2:4],
    ),
    (
        "vector.shuffle %v, %v [0, 5, 3, 7, 1] : vector<4xf32>, vector<4xf32>",
        (4,),
        (5,),
        lambda v: np.concatenate([v, v])[[0, 5, 3, 7, 1]],
    ),
    (
        "vector.shuffle %v, %v [2, 1] : vector<2x3xf32>, vector<2x3xf32>",
        (2, 3),
        (2, 3),
        lambda v: np.concatenate([v, v])[[2, 1]],
    ),
    (
        "vector.broadcast %v : vector<4xf32> to vector<3x4xf32>",
        (4,),
        (3, 4),
        lambda v: np.broadcast_to(v, (3, 4)),
    ),
    (
        "vector.broadcast %v : vector<3x1xf32> to vector<3x4xf32>",
        (3, 1),
        (3, 4),
        lambda v: np.broadcast_to(v, (3, 4)),
    ),
    (
        "vector.fma %v, %v, %v : vector<3x4xf32>",
        (3, 4),
        (3, 4),
        lambda v: (v.astype(np.float64) ** 2 + v).astype(np.float32),
    ),
]


@pytest.mark.parametrize(("op", "source", "shape", "reference"), _CASES)
def test_movement(rng, op, source, shape, reference):
    values = rng.standard_normal(source).astype(np.float32)
    np.testing.assert_array_equal(move(f"%r = {op}", values, shape), reference(values))


def test_insertion_of_a_row_a_slice_and_an_element(rng):
    values = rng.standard_normal((3, 4)).astype(np.float32)
    result = move(
        """
        %row = vector.extract %v[0] : vector<4xf32> from vector<3x4xf32>
        %x = vector.insert %row, %v [2] : vector<4xf32> into vector<3x4xf32>
        %s = vector.extract_strided_slice %row {offsets = [0], sizes = [2], strides = [1]}
          : vector<4xf32> to vector<2xf32>
        %y = vector.insert_strided_slice %s, %x {offsets = [1, 2], strides = [1]}
          : vector<2xf32> into vector<3x4xf32>
        %e = vector.extract %v[0, 3] : f32 from vector<3x4xf32>
        %r = vector.insert %e, %y [1, 0] : f32 into vector<3x4xf32>
        """,
        values,
        (3, 4),
    )
    expected = values.copy()
    expected[2] = values[0]
    expected[1, 2:] = values[0, :2]
    expected[1, 0] = values[0, 3]
    np.testing.assert_array_equal(result, expected)


def test_extraction_at_a_computed_position(rng):
    values = rng.standard_normal(8).astype(np.float32)
    body = """
    %e = vector.extract %v[%c1] : f32 from vector<8xf32>
    %r = vector.broadcast %e : f32 to vector<8xf32>
    """
    np.testing.assert_array_equal(move(body, values, (8,)), np.full(8, values[1]))


def test_elements_and_steps():
    text = """
    func.func @k(%b: memref<4xi64>, %x: i64) {
      %c0 = arith.constant 0 : index
      %s = vector.step : vector<4xindex>
      %i = arith.index_cast %s : vector<4xindex> to vector<4xi64>
      %e = vector.from_elements %x, %x, %x, %x : vector<4xi64>
      %r = arith.addi %i, %e : vector<4xi64>
      vector.store %r, %b[%c0] : memref<4xi64>, vector<4xi64>
      func.return
    }
    """
    out = np.zeros(4, np.int64)
    compile_module(parse_kernel(text)).function("k")(out, 10)
    np.testing.assert_array_equal(out, [10, 11, 12, 13])


def reduce(kind: str, values: np.ndarray, type: str, acc: object = None, flags: str = "") -> object:
    """Run `vector.reduction` and return its result."""
    count = values.size
    extra = ", %acc" if acc is not None else ""
    text = f"""
    func.func @k(%a: memref<{count}x{type}>, %acc: {type}) -> {type} {{
      %c0 = arith.constant 0 : index
      %v = vector.load %a[%c0] : memref<{count}x{type}>, vector<{count}x{type}>
      %r = vector.reduction <{kind}>, %v{extra} {flags} : vector<{count}x{type}> into {type}
      func.return %r : {type}
    }}
    """
    return compile_module(parse_kernel(text)).function("k")(values, acc if acc is not None else 0)


@pytest.mark.parametrize("count", [1, 4, 7, 16])
@pytest.mark.parametrize(
    ("kind", "reference"),
    [("add", np.sum), ("mul", np.prod), ("maximumf", np.max), ("minimumf", np.min)],
)
@pytest.mark.parametrize("flags", ["", "fastmath<reassoc>"])
def test_float_reduction(rng, kind, reference, count, flags):
    values = rng.standard_normal(count).astype(np.float32)
    np.testing.assert_allclose(reduce(kind, values, "f32", None, flags), reference(values), 1e-5)
    with_start = reduce(kind, values, "f32", 2.0, flags)
    np.testing.assert_allclose(with_start, reference(np.append(values, np.float32(2))), 1e-5)


def test_float_sum_keeps_the_order_of_lanes():
    values = np.array([1e8, 1.0, -1e8, 1.0], np.float32)
    assert reduce("add", values, "f32") == 1.0


@pytest.mark.parametrize("kind", ["maximumf", "minimumf"])
def test_maximum_passes_nan_on(kind):
    values = np.array([1, np.nan, 3, 4, 5], np.float32)
    assert np.isnan(reduce(kind, values, "f32"))


def test_maxnum_drops_nan():
    values = np.array([1, np.nan, 3, np.nan, 2], np.float32)
    assert reduce("maxnumf", values, "f32") == 3.0


@pytest.mark.parametrize(
    ("kind", "reference"),
    [
        ("add", np.sum),
        ("mul", np.prod),
        ("maxsi", np.max),
        ("minsi", np.min),
        ("and", np.bitwise_and.reduce),
        ("xor", np.bitwise_xor.reduce),
    ],
)
def test_integer_reduction(rng, kind, reference):
    values = rng.integers(-9, 9, 16, dtype=np.int64)
    assert reduce(kind, values, "i64") == reference(values)
    assert reduce(kind, values, "i64", 5) == reference(np.append(values, 5))
