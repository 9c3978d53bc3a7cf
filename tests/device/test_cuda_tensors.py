"""Tensors that other libraries have on a CUDA device, as feeds and as memory for results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import onnx.parser
import pytest

import tcopt
from machines.cuda_machine import CudaMachine, cuda_machine
from machines.cuda_models import HEAD, unused_model
from machines.cuda_tensors import CudaArray, CudaTensor
from tcopt.runtime.device.arrays import DeviceArray
from tcopt.runtime.device.cuda import cuda_device
from tcopt.runtime.foreign import ForeignPlace, foreign_tensor
from tcopt.support.errors import BackendError, InputError

Array = np.ndarray[Any, Any]
SUM = "(float[4, 6] x, float[4, 6] z) => (float[4, 6] s) { s = Add(x, z) }"
COPIES = ("cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2")


@pytest.fixture
def machine() -> Iterator[CudaMachine]:
    with cuda_machine() as found:
        yield found


def _model(text: str = SUM) -> tcopt.Model:
    return unused_model(text)


def _numbers(first: int = 0) -> Array:
    return np.arange(first, first + 24, dtype=np.float32).reshape(4, 6)


def test_tensors_are_read_and_results_left_where_they_are(machine: CudaMachine) -> None:
    """Nothing is copied; results are tensors of their own, whose memory goes with them."""
    model, x, z = _model(), CudaTensor(machine, _numbers()), CudaTensor(machine, _numbers(7))
    for _ in range(2):
        model.run({"x": x, "z": z})
    before = machine.live_bytes
    for name in COPIES:
        machine.failing[name] = 1
    (first,) = model.run({"x": x, "z": z}, on_device=True)
    x.array[...] += 1
    (second,) = model.run({"x": first, "z": x}, on_device=True)
    machine.failing.clear()
    assert isinstance(first, DeviceArray) and not first.overlaps(second)
    np.testing.assert_array_equal(np.asarray(first), 2 * _numbers() + 7)
    np.testing.assert_array_equal(second.read(), 3 * _numbers() + 8)
    del first, second
    model.run({"x": x, "z": z})
    assert machine.live_bytes == before


def test_host_and_device_may_be_mixed(machine: CudaMachine) -> None:
    model, x = _model(), CudaTensor(machine, _numbers())
    for factor in (1, 2):
        (s,) = model.run({"x": x, "z": factor * _numbers()})
        np.testing.assert_array_equal(s, (1 + factor) * _numbers())


def test_steps_are_kept_for_addresses_that_come_again(machine: CudaMachine) -> None:
    model, z = _model(), _numbers()
    tensors = [CudaTensor(machine, _numbers(n)) for n in range(3)]
    for x in tensors:
        model.run({"x": x, "z": z})
    machine.failing["cuStreamBeginCapture_v2"] = 1
    for number, x in enumerate(tensors):
        np.testing.assert_array_equal(model.run({"x": x, "z": z})[0], 2 * z + number)
    with pytest.raises(BackendError):
        model.run({"x": CudaTensor(machine, z), "z": z})


def test_work_is_ordered_with_other_streams(machine: CudaMachine) -> None:
    """Owners are given our stream, consumers give theirs, and callers may name one."""
    model, device = _model(), cuda_device()
    x, z = CudaTensor(machine, _numbers()), CudaArray(machine, _numbers())
    z.stream = 2
    (s,) = model.run({"x": x, "z": z}, on_device=True)
    assert x.streams == [device.stream] and machine.waits == [(2, device.stream)]
    machine.waits.clear()
    for stream, waits in ((None, 1), (1, 1), (2, 2), (-1, None), (device.stream, None)):
        s.__dlpack__(stream=stream)
        assert machine.waits == ([] if waits is None else [(device.stream, waits)])
        machine.waits.clear()
    assert s.__cuda_array_interface__["stream"] == device.stream
    for stream in (0, 2):
        model.run({"x": x, "z": _numbers()}, on_device=True, stream=stream)
        assert machine.waits == [(stream or None, device.stream), (device.stream, stream or None)]
        machine.waits.clear()
    with pytest.raises(InputError, match="stream"):
        model.run({"x": x, "z": z}, stream="default")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [CudaTensor, CudaArray])
def test_results_are_tensors_of_other_libraries(machine: CudaMachine, kind: type) -> None:
    (s,) = _model().run({"x": kind(machine, _numbers()), "z": _numbers()}, on_device=True)
    found = foreign_tensor(s)
    assert found.place == ForeignPlace(2, 0) == s.__dlpack_device__()
    assert found.address == s.address == s.__cuda_array_interface__["data"][0]
    assert (found.shape, found.dtype) == (s.shape, s.dtype)
    address = found.address
    del s
    assert machine.inside.__self__.memory[address].size == 96
    del found
    assert address not in machine.memory


def test_results_are_copied_where_a_consumer_asks_for_it(machine: CudaMachine) -> None:
    (s,) = _model().run({"x": _numbers(), "z": _numbers()}, on_device=True)
    np.testing.assert_array_equal(np.from_dlpack(s, device="cpu"), 2 * _numbers())
    copied = foreign_tensor(Copying(s))
    assert copied.address != s.address
    with pytest.raises(BufferError, match="CUDA device 0"):
        s.__dlpack__(dl_device=(2, 1))
    with pytest.raises(BufferError):
        s.__dlpack__(dl_device=(1, 0), copy=False)


class Copying:
    """Asks for a copy."""

    def __init__(self, tensor: DeviceArray):
        self.tensor = tensor

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor.__dlpack__(copy=True, **options)


LAYOUTS = {
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
    "strided": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "reversed": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
    "broadcast": lambda a: np.broadcast_to(a[1].copy(), a.shape),
    "a part": lambda a: np.pad(a, 1)[1:-1, 1:-1],
}
TYPES = ("float32", "int8", "float16", "float64", "complex128", "bool")


@pytest.mark.parametrize("kind", [CudaTensor, CudaArray])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_strided_tensors_are_copied_on_the_device(
    machine: CudaMachine, layout: str, kind: type
) -> None:
    array = LAYOUTS[layout](_numbers())
    model = _model()
    model.run({"x": _numbers(), "z": _numbers()})
    machine.failing["cuMemcpyDtoHAsync_v2"] = machine.failing["cuMemcpyHtoDAsync_v2"] = 1
    (s,) = model.run({"x": kind(machine, array), "z": kind(machine, array)}, on_device=True)
    machine.failing.clear()
    np.testing.assert_array_equal(s.read(), array + array)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("offset", [0, 3, 16])
def test_any_type_and_address_is_copied(machine: CudaMachine, dtype: str, offset: int) -> None:
    device = cuda_device()
    array = np.arange(30).reshape(5, 6).astype(dtype)
    for view in (array.T, array[:, 1:4], array[None, 2:, None, ::-2]):
        tensor = CudaTensor(machine, view, offset=offset)
        found = device.tensor(tensor)
        np.testing.assert_array_equal(found.read(), view)
    plain = device.tensor(CudaTensor(machine, array, offset=offset))
    assert plain.address % 64 == 0
    np.testing.assert_array_equal(plain.read(), array)


def test_tensors_without_elements(machine: CudaMachine) -> None:
    text = "(float[n, 3] x) => (float[n, 3] y) { y = Neg(x) }"
    model = tcopt.compile(onnx.parser.parse_model(f"{HEAD} f {text}"), "cuda:sm_86")
    (y,) = model.run({"x": CudaTensor(machine, np.empty((0, 3), np.float32))}, on_device=True)
    assert y.shape == (0, 3) and y.read().shape == (0, 3)
    (y,) = model.run({"x": CudaTensor(machine, _numbers().reshape(8, 3))})
    np.testing.assert_array_equal(y, -_numbers().reshape(8, 3))


def test_values_that_decide_shapes_are_read(machine: CudaMachine) -> None:
    text = "(float[4, 6] x, int64[2] n) => (float[a, b] y) { y = Reshape(x, n) }"
    model = tcopt.compile(onnx.parser.parse_model(f"{HEAD} f {text}"), "cuda:sm_86")
    for shape in ((3, 8), (2, 12)):
        n = CudaTensor(machine, np.array(shape))
        (y,) = model.run({"x": CudaTensor(machine, _numbers()), "n": n})
        np.testing.assert_array_equal(y, _numbers().reshape(shape))


def test_narrow_types(machine: CudaMachine) -> None:
    x = _numbers().astype(ml_dtypes.bfloat16)
    model = _model("(bfloat16[4, 6] x) => (bfloat16[4, 6] y) { y = Neg(x) }")
    (y,) = model.run({"x": CudaTensor(machine, x)}, on_device=True)
    found = foreign_tensor(y)
    assert found.dtype == x.dtype and not hasattr(y, "__cuda_array_interface__")
    np.testing.assert_array_equal(y.read(), (-_numbers()).astype(ml_dtypes.bfloat16))


def test_results_are_written_to_given_memory(machine: CudaMachine) -> None:
    model = _model()
    feeds = {"x": CudaTensor(machine, _numbers()), "z": CudaTensor(machine, _numbers(1))}
    expected = 2 * _numbers() + 1
    s = CudaTensor(machine, np.zeros((4, 6), np.float32))
    model.run(feeds)
    for name in COPIES:
        machine.failing[name] = 1
    (found,) = model.run(feeds, out={"s": s})
    machine.failing.clear()
    assert found is s
    np.testing.assert_array_equal(s.array, expected)
    # Memory that is read, too, is written when all is computed.
    model.run(feeds, out={"s": feeds["z"]})
    np.testing.assert_array_equal(feeds["z"].array, expected)
    host, wide = np.zeros((4, 6), np.float32), np.zeros((4, 12), np.float32)
    model.run({"x": _numbers(), "z": _numbers(1)}, out={"s": host})
    model.run({"x": _numbers(), "z": _numbers(1)}, out={"s": wide[:, ::2]})
    np.testing.assert_array_equal(host, expected)
    np.testing.assert_array_equal(wide[:, ::2], expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offset": 4}, 'output "s".*contiguous'),
        ({"is_read_only": True}, 'output "s".*read-only'),
        ({"array": _numbers()[:2]}, r'output "s" is float32\[4x6\].*\[2x6\]'),
        ({"array": np.zeros((6, 4), np.float32).T}, 'output "s".*contiguous'),
        ({"array": np.zeros((4, 6), np.int32)}, r'output "s" is float32\[4x6\].*int32'),
    ],
)
def test_memory_that_does_not_fit_is_named(
    machine: CudaMachine, change: dict[str, Any], message: str
) -> None:
    s = CudaTensor(machine, **{"array": _numbers(), **change})
    with pytest.raises(InputError, match=message):
        _model().run({"x": _numbers(), "z": _numbers()}, out={"s": s})


def test_a_session_takes_tensors_of_its_device(machine: CudaMachine) -> None:
    session = _model().session()
    session.inputs["x"].write(CudaTensor(machine, _numbers()))
    session.inputs["z"].write(CudaTensor(machine, LAYOUTS["transposed"](_numbers(1))))
    session.start()
    np.testing.assert_array_equal(session.outputs["s"].read(), 2 * _numbers() + 1)


def test_tensors_of_other_devices_are_named(machine: CudaMachine) -> None:
    machine.devices = 2
    far, near = CudaTensor(machine, _numbers(), device=1), CudaTensor(machine, _numbers())
    with pytest.raises(InputError, match=r'input "z".*CUDA device 1.*CUDA device 0') as caught:
        _model().run({"x": near, "z": far})
    assert "model.device = 1" in (caught.value.hint or "")
    with pytest.raises(InputError, match=r'input "z".*CUDA device 1.*CUDA device 0'):
        _model().run({"x": near, "z": CudaArray(machine, _numbers(), device=1)})
    on_cpu = tcopt.compile(onnx.parser.parse_model(f"{HEAD} f {SUM}"))
    for tensor in (near, CudaArray(machine, _numbers()), cuda_device().tensor(near)):
        with pytest.raises(InputError, match=r'input "x".*CUDA device.*runs on the host'):
            on_cpu.run({"x": tensor, "z": _numbers()})
