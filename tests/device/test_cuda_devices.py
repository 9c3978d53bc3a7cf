"""Several CUDA devices in a process, and the memory that models take there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx.parser
import pytest

import tcopt
from machines.cuda_machine import CudaMachine, cuda_machine
from machines.cuda_models import HEAD, unused_model
from tcopt.runtime.device import cuda_memory
from tcopt.runtime.device.cuda import DEVICE_ENVIRONMENT, cuda_device
from tcopt.support.errors import BackendError, InputError, UnsupportedError

Array = np.ndarray[Any, Any]
PRODUCT = """(float[4, 6] x) => (float[4, 2] y)
  <float[6, 2] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> { y = MatMul(x, w) }"""
X = np.arange(24, dtype=np.float32).reshape(4, 6)
Y = X @ np.arange(1, 13, dtype=np.float32).reshape(6, 2)


@pytest.fixture
def machine() -> Iterator[CudaMachine]:
    with cuda_machine() as found:
        found.devices = 2
        yield found


def _model(text: str = PRODUCT) -> tcopt.Model:
    return unused_model(text)


def _bytes_on(machine: CudaMachine, device: int) -> int:
    owned = (array for start, array in machine.memory.items() if machine.owners[start] == device)
    return sum(map(len, owned))


def test_a_model_runs_on_the_device_that_it_names(machine: CudaMachine) -> None:
    model = _model()
    model.device = 1
    np.testing.assert_allclose(model.run({"x": X})[0], Y)
    used = _bytes_on(machine, 1)
    assert used and not _bytes_on(machine, 0)
    assert model.session().device is cuda_device(1) and cuda_device() is cuda_device(0)
    for device in (0, 1, "0", None):
        model.device = device
        np.testing.assert_allclose(model.run({"x": X})[0], Y)
    # Device 0 has one copy of the weights, whatever it is called.
    assert _bytes_on(machine, 0) - used == 2 * (X.nbytes + Y.nbytes + 1)
    del model
    assert not machine.memory and not machine.modules


def test_models_of_several_devices_take_turns(machine: CudaMachine) -> None:
    first, second = _model(), _model()
    second.device = 1
    for factor in (1, 2):
        for model in (first, second):
            np.testing.assert_allclose(model.run({"x": factor * X})[0], factor * Y)
    (near,) = first.run({"x": X}, on_device=True)
    (far,) = second.run({"x": X}, on_device=True)
    assert near.__dlpack_device__() == (2, 0) and far.__dlpack_device__() == (2, 1)
    twice = _model("(float[4, 2] y) => (float[4, 2] z) { z = Add(y, y) }")
    twice.device = 1
    np.testing.assert_allclose(twice.run({"y": far})[0], 2 * Y)
    with pytest.raises(InputError, match=r'input "y".*CUDA device 0.*CUDA device 1'):
        twice.run({"y": near})
    assert machine.depth == 0


def test_all_programs_of_a_model_run_on_its_device(machine: CudaMachine) -> None:
    """Those for other shapes, of later stages, with defaults that are overridden, and profiles."""
    text = "(float[n, 2] x, float[2] w = {1, 2}) => (float[n, 2] y) { y = Add(x, w) }"
    model = tcopt.compile(onnx.parser.parse_model(f"{HEAD} f {text}"), "cuda:sm_86")
    staged = tcopt.compile(
        onnx.parser.parse_model(f"{HEAD} f (float[4] x) => (int64[1, n] y) {{ y = NonZero(x) }}"),
        "cuda:sm_86",
    )
    model.device = staged.device = 1
    for rows in (1, 3):
        x = np.ones((rows, 2), np.float32)
        np.testing.assert_array_equal(model.run({"x": x})[0], x + np.array([1, 2], np.float32))
        (y,) = model.run({"x": x, "w": np.zeros(2, np.float32)})
        np.testing.assert_array_equal(y, x)
    assert staged.run({"x": np.array([0, 2, 0, 1], np.float32)})[0].tolist() == [[1, 3]]
    model.profile({"x": x}, 1)
    assert machine.memory and not _bytes_on(machine, 0)


def test_missing_devices_are_reported(
    machine: CudaMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = _model()
    for device in (2, "GeForce", -1):
        with pytest.raises(UnsupportedError, match="no CUDA device"):
            model.device = device
    assert model.device is None
    monkeypatch.setenv(DEVICE_ENVIRONMENT, "1")
    model.run({"x": X})
    assert not _bytes_on(machine, 0)


def test_a_model_is_compiled_for_the_device_that_it_names(machine: CudaMachine) -> None:
    model = tcopt.compile(onnx.parser.parse_model(f"{HEAD} f {PRODUCT}"), "cuda", device=1)
    assert model.device == 1 and model.target == "cuda:sm_86"
    np.testing.assert_allclose(model.run({"x": X})[0], Y)
    assert not _bytes_on(machine, 0)
    with pytest.raises(UnsupportedError, match="no CUDA device 2"):
        tcopt.compile(onnx.parser.parse_model(f"{HEAD} f {PRODUCT}"), "cuda", device=2)
    with pytest.raises(InputError, match="no devices"):
        tcopt.compile(onnx.parser.parse_model(f"{HEAD} f {PRODUCT}"), device=1)


@pytest.mark.parametrize("has_pool", [True, False])
def test_models_that_go_give_their_memory_back(machine: CudaMachine, has_pool: bool) -> None:
    machine.has_pool = has_pool
    counts: list[tuple[int, int]] = []
    for _ in range(3):
        model = _model()
        np.testing.assert_allclose(model.run({"x": X})[0], Y)
        (y,) = model.run({"x": X}, on_device=True)
        model.session().start()
        del model, y
        counts.append((machine.live_bytes, len(machine.modules)))
    assert counts == [(len(machine.host_memory) * cuda_memory.CHUNK, 0)] * 3


def test_a_session_keeps_the_kernels_of_a_model_that_is_gone(machine: CudaMachine) -> None:
    session = _model().session()
    session.inputs["x"].write(X)
    session.start()
    np.testing.assert_allclose(session.outputs["y"].read(), Y)
    assert machine.modules
    del session
    assert not machine.modules


@pytest.mark.parametrize("chunk", [16, 40, 96, 1000])
def test_copies_pass_through_page_locked_memory(
    machine: CudaMachine, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two buffers in turn, which all copies use."""
    monkeypatch.setattr(cuda_memory, "CHUNK", chunk)
    device = cuda_device()
    first, second = device.allocate(X.nbytes), device.allocate(Y.nbytes)
    device.write(X, first)
    device.write(Y, second)
    for buffer, array in ((first, X), (second, Y), (first, X)):
        found = np.zeros_like(array)
        device.read(buffer, found)
        np.testing.assert_array_equal(found, array)
    assert [len(each) for each in machine.host_memory.values()] == [chunk] * 2


def test_a_copy_that_fails_leaves_nothing_under_way(
    machine: CudaMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_memory, "CHUNK", 16)
    device = cuda_device()
    buffer, found = device.allocate(X.nbytes), np.zeros_like(X)
    device.write(X, buffer)
    machine.failing["cuEventSynchronize"] = 1
    with pytest.raises(BackendError):
        device.read(buffer, found)
    machine.failing.clear()
    device.write(X + 1, buffer)
    assert not found.any()
    device.read(buffer, found)
    np.testing.assert_array_equal(found, X + 1)
