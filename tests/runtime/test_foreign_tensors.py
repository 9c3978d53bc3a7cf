"""Tensors of other libraries as feeds, and memory of the caller for results, on a CPU."""

from __future__ import annotations

import sys
from array import array
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import onnx.parser
import pytest

import tcopt
from tcopt.runtime.foreign import HOST, consume, export, foreign_tensor
from tcopt.runtime.specs import select_feeds
from tcopt.support.data.named_dtypes import named_dtype
from tcopt.support.errors import InputError

Array = np.ndarray[Any, Any]
HEAD = '<ir_version: 10, opset_import: ["" : 21]>'


class Tensor:
    """A tensor of a library that knows numpy only by DLPack."""

    def __init__(self, array: Array, device: tuple[int, int] = (1, 0), *, is_old: bool = False):
        self.array, self.device, self.is_old = array, device, is_old

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **options: Any) -> Any:
        if self.is_old and options:
            raise TypeError("unexpected keyword argument")
        return self.array.__dlpack__(**options)


class Narrow(Tensor):
    """A tensor of a type that numpy itself does not know."""

    def __dlpack__(self, **options: Any) -> Any:
        a = self.array
        return export(HOST, a.ctypes.data, a.shape, a.dtype, a, options["max_version"])


@cache
def model(text: str) -> tcopt.Model:
    return tcopt.compile(onnx.parser.parse_model(f"{HEAD} f {text}"))


def double() -> tcopt.Model:
    return model("(float[2, 3] x) => (float[2, 3] y) { y = Add(x, x) }")


def two() -> tcopt.Model:
    """Both results are read from the input, in another order."""
    return model("(float[4] x, float[4] z) => (float[4] s, float[4] d) { s=Add(x, z) d=Sub(x, z) }")


def numbers() -> Array:
    return np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("is_old", [False, True])
def test_feeds_are_read_where_they_are(is_old: bool) -> None:
    x = numbers()
    tensor = Tensor(x, is_old=is_old)
    (taken,) = select_feeds(double().inputs, {"x": tensor})
    assert isinstance(taken, np.ndarray) and np.shares_memory(taken, x)
    np.testing.assert_array_equal(double().run({"x": tensor})[0], 2 * x)
    x += 1
    np.testing.assert_array_equal(double().run({"x": tensor})[0], 2 * x)


@pytest.mark.parametrize(
    "array",
    [
        numbers().T.copy().T,
        np.repeat(numbers(), 2, axis=1)[:, ::2],
        numbers()[::-1].copy()[::-1],
        np.broadcast_to(numbers()[0], (2, 3)),
    ],
    ids=["transposed", "strided", "reversed", "read-only"],
)
def test_feeds_may_have_any_layout(array: Array) -> None:
    np.testing.assert_array_equal(double().run({"x": Tensor(array)})[0], 2 * array)


@pytest.mark.parametrize(
    "dtype",
    [
        "bfloat16",
        "float8_e4m3fn",
        "float8_e5m2fnuz",
        "float4_e2m1fn",
        "int4",
        "uint2",
        "bool",
        "uint16",
        "float64",
        "complex64",
    ],
)
def test_types_stay_what_they_are(dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(named_dtype(dtype))
    found = foreign_tensor(Narrow(array)).array()
    assert found.dtype == array.dtype and found.tobytes() == array.tobytes()
    assert np.shares_memory(found.view(np.uint8), array.view(np.uint8))


def test_feeds_of_narrow_types_are_taken() -> None:
    x, doubled = (each.astype(ml_dtypes.bfloat16) for each in (numbers(), 2 * numbers()))
    (y,) = model("(bfloat16[2, 3] x) => (bfloat16[2, 3] y) { y = Add(x, x) }").run({"x": Narrow(x)})
    np.testing.assert_array_equal(y, doubled)


def test_sequences_may_hold_foreign_tensors() -> None:
    joined = model(
        "(seq(float[2, 3]) x) => (float[a, 3] y) { y = ConcatFromSequence <axis = 0> (x) }"
    )
    (y,) = joined.run({"x": [Tensor(numbers()), numbers()]})
    np.testing.assert_array_equal(y, np.concatenate([numbers(), numbers()]))


@pytest.mark.parametrize("device", [(2, 1), (8, 0), (4, 0), (99, 3)])
def test_feeds_of_another_device_are_named(device: tuple[int, int]) -> None:
    with pytest.raises(InputError, match=r'input "x".*memory of.*runs on the host') as caught:
        double().run({"x": Tensor(numbers(), device)})
    assert caught.value.hint is not None


class Refusing(Tensor):
    """Gives nothing away, or an array only."""

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("it needs gradients")


class Convertible(Refusing):
    """Is an array in another way."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        return self.array


def test_owners_may_refuse() -> None:
    np.testing.assert_array_equal(double().run({"x": Convertible(numbers())})[0], 2 * numbers())
    with pytest.raises(InputError, match=r'input "x".*Refusing'):
        double().run({"x": Refusing(numbers())})


def test_owners_are_told_when_a_tensor_is_not_used_any_more() -> None:
    array = numbers()
    count = sys.getrefcount(array)
    tensor = foreign_tensor(Narrow(array))
    shared = tensor.array()
    del tensor
    assert sys.getrefcount(array) > count
    view = shared[1:]
    del shared
    assert view.sum() == array[1:].sum() and sys.getrefcount(array) > count
    del view
    assert sys.getrefcount(array) == count
    # A capsule that nobody takes gives it back itself; one is taken once.
    capsule = Narrow(array).__dlpack__(max_version=None)
    assert sys.getrefcount(array) > count
    del capsule
    assert sys.getrefcount(array) == count
    capsule = Narrow(array).__dlpack__(max_version=(1, 0))
    consume(capsule)
    with pytest.raises(BufferError, match="consumed"):
        consume(capsule)


def test_results_are_written_to_given_memory() -> None:
    x, z = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    s, d = np.empty(4, np.float32), Tensor(np.empty(4, np.float32))
    found = two().run({"x": x, "z": z}, out={"s": s, "d": d})
    assert found[0] is s and found[1] is d
    np.testing.assert_array_equal(s, x + z)
    np.testing.assert_array_equal(d.array, x - z)
    (only,) = two().run({"x": z, "z": z}, ["d"], out={"d": d})
    assert only is d and not d.array.any()
    np.testing.assert_array_equal(s, x + z)
    found = two().run({"x": z, "z": x}, out=[None, d])
    assert found[1] is d and found[0] is not s
    np.testing.assert_array_equal(d.array, z - x)


def test_buffers_are_feeds_and_memory_of_results() -> None:
    x, z, y = (array("f", values) for values in ([1, 2, 3, 4], [4, 3, 2, 1], [0] * 4))
    result, _ = two().run({"x": x, "z": memoryview(z)}, out={"s": y})
    assert result is y and y.tolist() == [5] * 4
    with pytest.raises(InputError, match=r'output "s".*read-only'):
        two().run({"x": x, "z": z}, out={"s": memoryview(y).toreadonly()})


def test_given_memory_may_be_that_of_feeds_or_have_gaps() -> None:
    """Results are then copied when all of them are computed."""
    x, z = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    expected = x + z, x - z
    both = np.empty(8, np.float32)
    both[:4], both[4:] = x, z
    two().run({"x": both[:4], "z": both[4:]}, out={"s": both[4:], "d": both[:4]})
    np.testing.assert_array_equal(both.reshape(2, 4)[::-1], expected)
    wide = np.zeros((4, 2), np.float32)
    two().run({"x": x, "z": z}, out={"s": wide[:, 0], "d": wide[::-1, 1]})
    np.testing.assert_array_equal(wide[:, 0], expected[0])
    np.testing.assert_array_equal(wide[::-1, 1], expected[1])


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ({"t": np.empty(4, np.float32)}, 'no output "t"'),
        ({"s": np.empty(5, np.float32)}, r'output "s" is float32\[4\].*float32\[5\]'),
        ({"s": np.empty(4)}, r'output "s" is float32\[4\].*float64\[4\]'),
        ({"s": np.broadcast_to(np.float32(0), 4)}, 'output "s".*read-only'),
        ({"s": [0.0] * 4}, 'output "s" cannot be list'),
        ({"s": Tensor(np.empty(4, np.float32), (2, 0))}, 'output "s".*CUDA device 0'),
        ({"s": Refusing(np.empty(4, np.float32))}, 'output "s" cannot be written'),
        ([np.empty(4, np.float32)], "out has 1 tensors, the model 2 outputs"),
        (np.empty((2, 4), np.float32), "by the names of outputs.*ndarray"),
    ],
)
def test_memory_that_does_not_fit_is_named(out: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        two().run({"x": np.zeros(4, np.float32), "z": np.zeros(4, np.float32)}, out=out)


def test_results_of_any_model_are_written_to_given_memory() -> None:
    """Also of those that are compiled when they run, in one stage or several."""
    x = np.array([3, 0, 5, 0], np.float32)
    y = np.empty(4, np.float32)
    model("(float[n] x) => (float[n] y) { y = Neg(x) }").run({"x": x}, out={"y": y})
    np.testing.assert_array_equal(y, -x)
    places = np.empty((1, 2), np.int64)
    found = model("(float[4] x) => (int64[1, n] y) { y = NonZero(x) }")
    assert found.run({"x": x}, out={"y": places})[0] is places
    assert places.tolist() == [[0, 2]]
    with pytest.raises(InputError, match='output "y"'):
        found.run({"x": x}, out={"y": np.empty((1, 3), np.int64)})


def test_options_of_devices_on_a_cpu() -> None:
    (y,) = double().run({"x": numbers()}, on_device=True)
    np.testing.assert_array_equal(y, 2 * numbers())
    with pytest.raises(InputError, match="no stream"):
        double().run({"x": numbers()}, stream=1)
    with pytest.raises(InputError, match="no devices"):
        double().device = 1
    assert double().device is None
