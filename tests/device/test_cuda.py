"""The CUDA runtime: what it asks of pycuda, for which something stands in; and on a device, where
there is one, that results are right.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import onnx.parser
import pytest

import tcopt
from models import convolutional, transformers
from models.checks import assert_close, run_reference
from models.light_models import random_inputs
from tcopt.runtime.device import cuda
from tcopt.runtime.device.interface import KernelSource
from tcopt.runtime.device.program import DeviceProgram
from tcopt.runtime.device.steps import Launch
from tcopt.support.errors import BackendError, UnsupportedError

TOLERANCE = 1e-5  # As a part of the output's range; both sides compute in float32.
WITH_WEIGHTS = """<ir_version: 10, opset_import: ["" : 21]>
product (float[2, 3] x) => (float[2, 4] y)
  <float[3, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> { m = MatMul(x, w)  y = Softmax(m) }"""


class CudaError(Exception):
    """pycuda's error of the driver."""


class Memory:
    """Some of a device's memory, which is this process's."""

    def __init__(self, size: int):
        assert size > 0
        self.bytes = np.zeros(size, np.uint8)

    def __int__(self) -> int:
        return self.bytes.ctypes.data


class Event:
    """Notes a clock that goes on by a quarter of a millisecond."""

    clock = 0.0

    def record(self, stream: object) -> None:
        Event.clock += 0.25
        self.time = Event.clock

    def synchronize(self) -> None: ...

    def time_till(self, other: Event) -> float:
        return other.time - self.time


class Function:
    """A kernel that does nothing, but notes what it is given."""

    launches: list[tuple[Any, ...]] = []

    def __init__(self, name: str):
        self.name = name

    def prepare(self, types: str) -> None:
        self.types = types

    def prepared_async_call(self, grid: Any, block: Any, stream: object, *places: int) -> None:
        assert self.types == "P" * len(places)
        self.launches.append((self.name, grid, block, places))


def _module(code: bytes) -> SimpleNamespace:
    if b".entry" not in code or not code.endswith(b"\0"):
        raise CudaError("cuModuleLoadDataEx failed")

    def function(name: str) -> Function:
        assert f".entry {name}(".encode() in code
        return Function(name)

    return SimpleNamespace(get_function=function)


def _device(number: int) -> SimpleNamespace:
    context = SimpleNamespace(push=lambda: None, pop=lambda: None)
    return SimpleNamespace(
        name=lambda: "Stand-in",
        compute_capability=lambda: (8, 7),
        retain_primary_context=lambda: context,
    )


def _bytes_at(address: int, size: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_uint8 * size).from_address(address), np.uint8)


def _to_device(target: int, array: np.ndarray, stream: object) -> None:
    _bytes_at(target, array.nbytes)[:] = array.reshape(-1).view(np.uint8)


def _to_host(array: np.ndarray, source: int, stream: object) -> None:
    array.reshape(-1).view(np.uint8)[:] = _bytes_at(source, array.nbytes)


def _on_device(target: int, source: int, size: int, stream: object) -> None:
    _bytes_at(target, size)[:] = _bytes_at(source, size)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """What stands in for pycuda.driver."""
    _device.count = lambda: 1  # type: ignore[attr-defined]
    stand_in = SimpleNamespace(
        Device=_device,
        Error=CudaError,
        Event=Event,
        Stream=lambda: SimpleNamespace(handle=0, synchronize=lambda: None),
        init=lambda: None,
        mem_alloc=Memory,
        memcpy_dtod_async=_on_device,
        memcpy_dtoh_async=_to_host,
        memcpy_htod_async=_to_device,
        module_from_buffer=_module,
    )
    package = ModuleType("pycuda")
    package.driver = stand_in  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pycuda", package)
    monkeypatch.setitem(sys.modules, "pycuda.driver", stand_in)  # type: ignore[arg-type]
    monkeypatch.setattr(Function, "launches", [])
    monkeypatch.setattr(cuda.Graph, "capture", lambda stream, work: None)
    for cached in (cuda.cuda_device, cuda.local_capability):
        cached.cache_clear()
    yield stand_in
    for cached in (cuda.cuda_device, cuda.local_capability):
        cached.cache_clear()


def _program(model: tcopt.Model) -> DeviceProgram:
    assert isinstance(model.program, DeviceProgram)
    return model.program


def test_launches_are_on_the_buffers_of_a_session(driver: SimpleNamespace) -> None:
    model = tcopt.compile(onnx.parser.parse_model(WITH_WEIGHTS), "cuda")
    program = _program(model)
    # The nearest device with a name that is no newer.
    assert program.target.arch.data == "sm_86"
    session = model.session()
    session.inputs["x"].write(np.arange(6, dtype=np.float32).reshape(2, 3))
    session.start()
    steps = [step for step in program.steps if isinstance(step, Launch)]
    assert [launch[0] for launch in Function.launches] == [step.kernel for step in steps]
    assert [launch[1:3] for launch in Function.launches] == [(s.grid, s.block) for s in steps]
    first = dict(zip(steps[0].arguments, Function.launches[0][3], strict=True))
    weights = next(place for place in first if place.buffer == 2)
    assert first[next(place for place in first if place.buffer == 0)] == int(
        session.inputs["x"].buffer
    )
    held = _bytes_at(first[weights], 48).view(np.float32)
    np.testing.assert_array_equal(held, np.arange(1, 13, dtype=np.float32))


def test_tensors_go_from_session_to_session(driver: SimpleNamespace) -> None:
    model = tcopt.compile(onnx.parser.parse_model(WITH_WEIGHTS), "cuda:sm_75")
    first, second = model.session(), model.session()
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    first.inputs["x"].write(x)
    second.inputs["x"].copy_from(first.inputs["x"])
    np.testing.assert_array_equal(second.inputs["x"].read(), x)
    assert second.inputs["x"].buffer is not first.inputs["x"].buffer


def test_events_time_launches_and_runs(driver: SimpleNamespace) -> None:
    model = tcopt.compile(onnx.parser.parse_model(WITH_WEIGHTS), "cuda")
    profile = model.profile({"x": np.zeros((2, 3), np.float32)}, 3)
    assert [entry.us for entry in profile.calls()] == [250.0] * len(profile.kernels)
    assert model.session().seconds(5) == pytest.approx(0.25e-3 / 5)


def test_refused_code_is_said(driver: SimpleNamespace) -> None:
    with pytest.raises(BackendError, match="Stand-in does not take the kernels"):
        cuda.cuda_device().load([KernelSource("no kernels", ())])


def test_no_device_is_said(driver: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise CudaError("cuInit failed: no CUDA-capable device is detected")

    driver.init = fail
    with pytest.raises(UnsupportedError, match="no CUDA device: cuInit failed"):
        cuda.cuda_device()
    driver.init = lambda: None
    monkeypatch.setenv(cuda.DEVICE_ENVIRONMENT, "3")
    with pytest.raises(UnsupportedError, match="no CUDA device 3"):
        cuda.cuda_device()


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pycuda", None)
    cuda.cuda_device.cache_clear()
    with pytest.raises(UnsupportedError, match="needs the package pycuda"):
        cuda.cuda_device()


def _reason() -> str:
    """Why nothing can run here; empty where it can."""
    try:
        cuda.cuda_device()
    except UnsupportedError as error:
        return str(error)
    return ""


REASON = _reason()
NETWORKS = {
    "residual_net": lambda: convolutional.residual_net(12, 5),
    "vit_block": lambda: transformers.vit_block(24, 8, 30, 3),
    "bert_block": lambda: transformers.bert_block(11, 40, 5),
}


@pytest.mark.skipif(bool(REASON), reason=REASON)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str) -> None:
    model = NETWORKS[name]()
    feeds = random_inputs(model, 0)
    compiled = tcopt.compile(model, "cuda")
    for _ in range(2):
        for ours, theirs in zip(compiled.run(feeds), run_reference(model, feeds), strict=True):
            assert_close(ours, np.asarray(theirs), TOLERANCE)
