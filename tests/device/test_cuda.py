"""The CUDA runtime on a driver without a device, whose kernels the PTX interpreter executes; and on
a device, where there is one.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from functools import cache
from tempfile import NamedTemporaryFile

import ml_dtypes
import numpy as np
import onnx.parser
import pytest

import tcopt
from machines.cuda_machine import CudaMachine, cuda_machine
from models import convolutional, transformers
from models.checks import assert_close, run_reference
from models.light_models import random_inputs
from tcopt.runtime import load
from tcopt.runtime.device import cuda, cuda_driver
from tcopt.runtime.device.interface import KernelSource
from tcopt.runtime.device.program import DeviceProgram
from tcopt.runtime.device.steps import Launch
from tcopt.support.errors import (
    BackendError,
    DeviceLostError,
    ResourceError,
    UnsupportedError,
)

TOLERANCE = 1e-5  # As a part of the output's range; both sides compute in float32.
WITH_WEIGHTS = """<ir_version: 10, opset_import: ["" : 21]>
product (float[2, 3] x) => (float[2, 4] y)
  <float[3, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> { m = MatMul(x, w)  y = Softmax(m) }"""


@pytest.fixture
def machine() -> Iterator[CudaMachine]:
    with cuda_machine() as found:
        yield found


LOADED = r"(ld\.global[^\[]*\[%rd\d+)[^\]]*\]"


def _numbers() -> np.ndarray:
    return np.arange(6, dtype=np.float32).reshape(2, 3)


def _expected(x: np.ndarray) -> np.ndarray:
    m = x @ np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    e = np.exp(m - m.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _program(model: tcopt.Model) -> DeviceProgram:
    assert isinstance(model.program, DeviceProgram)
    return model.program


@cache
def _compiled() -> tcopt.Model:
    return tcopt.compile(onnx.parser.parse_model(WITH_WEIGHTS), "cuda:sm_86")


def _model() -> tcopt.Model:
    """A model that no device has seen."""
    with NamedTemporaryFile(suffix=".tcm") as file:
        _compiled().save(file.name)
        return load(file.name)


def test_sessions_replay_a_graph(machine: CudaMachine) -> None:
    model = tcopt.compile(onnx.parser.parse_model(WITH_WEIGHTS), "cuda")
    program = _program(model)
    # The newest known architecture that is not newer than the device.
    assert program.target.facts["arch"] == "sm_86"
    session = model.session()
    assert not machine.launches
    for factor in (1, 2):
        x = factor * _numbers() / 10
        session.inputs["x"].write(x)
        session.start()
        np.testing.assert_allclose(session.outputs["y"].read(), _expected(x), rtol=1e-6)
    steps = [step for step in program.steps if isinstance(step, Launch)]
    assert machine.launches == 2 * [(step.kernel, step.grid, step.block) for step in steps]
    assert machine.graphs == 2 and machine.depth == 0


def test_launches_follow_each_other_where_there_are_no_graphs(machine: CudaMachine) -> None:
    machine.failing["cuStreamBeginCapture_v2"] = 801
    (y,) = _model().run({"x": _numbers() / 10})
    np.testing.assert_allclose(y, _expected(_numbers() / 10), rtol=1e-6)
    assert machine.launches and not machine.graphs


def test_tensors_go_from_session_to_session(machine: CudaMachine) -> None:
    model = _model()
    first, second = model.session(), model.session()
    first.inputs["x"].write(_numbers())
    second.inputs["x"].copy_from(first.inputs["x"])
    np.testing.assert_array_equal(second.inputs["x"].read(), _numbers())
    assert int(second.inputs["x"].buffer) != int(first.inputs["x"].buffer)


def test_memory_is_freed(machine: CudaMachine) -> None:
    model = _model()
    session = model.session()
    assert machine.memory
    del session, model
    assert not machine.memory


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.int4, ml_dtypes.float8_e4m3fn])
def test_arrays_of_all_types_are_copied(machine: CudaMachine, dtype: type) -> None:
    device = cuda.cuda_device()
    array = np.arange(-3, 4).astype(dtype)
    buffer, found = device.allocate(array.nbytes), np.empty_like(array)
    device.write(array, buffer)
    device.read(buffer, found)
    assert found.tobytes() == array.tobytes()


def test_events_time_launches_and_runs(machine: CudaMachine) -> None:
    model = tcopt.compile(onnx.parser.parse_model(WITH_WEIGHTS), "cuda")
    profile = model.profile({"x": _numbers()}, 3)
    assert [entry.us for entry in profile.calls()] == [250.0] * len(profile.kernels)
    session = model.session()
    before = machine.graphs
    # Graphs of four runs, so that the host's launches do not limit short kernels.
    assert session.seconds(5) == pytest.approx(0.25e-3 / 8)
    assert machine.graphs == before + 2


def test_refused_code_is_reported_with_the_log(machine: CudaMachine) -> None:
    with pytest.raises(BackendError, match=r"softmax.*CUDA_ERROR_INVALID_PTX.*\.target"):
        cuda.cuda_device().load([KernelSource("no kernels", ("softmax",))])


@pytest.mark.parametrize(
    ("function", "named"),
    [
        ("cuLaunchKernel", "MatMul"),
        ("cuMemcpyHtoDAsync_v2", "bytes to Stand-in"),
        ("cuMemcpyDtoHAsync_v2", "bytes from Stand-in"),
        ("cuMemAllocAsync", "allocating"),
        ("cuMemHostAlloc", "bytes to Stand-in"),
        ("cuStreamEndCapture", "graph"),
        ("cuGraphInstantiateWithFlags", "graph"),
        ("cuGraphLaunch", "graph"),
        ("cuEventSynchronize", "Stand-in"),
        ("cuModuleGetFunction", "kernel"),
    ],
)
def test_errors_name_what_failed(machine: CudaMachine, function: str, named: str) -> None:
    model = _model()
    machine.failing[function] = 1
    with pytest.raises(BackendError, match=f"{named}.*invalid argument .CUDA_ERROR_INVALID_VALUE"):
        model.run({"x": _numbers()})
    machine.failing.clear()
    (y,) = _model().run({"x": _numbers() / 10})
    np.testing.assert_allclose(y, _expected(_numbers() / 10), rtol=1e-6)
    assert machine.depth == 0


def test_no_memory_is_reported(machine: CudaMachine) -> None:
    machine.most = 100
    with pytest.raises(ResourceError, match="CUDA_ERROR_OUT_OF_MEMORY"):
        _model().session()


def _faulty_model() -> tcopt.Model:
    """A model whose kernels read beyond their buffers."""
    model = _model()
    program = _program(model)
    program.sources[:] = [
        KernelSource(re.sub(LOADED, r"\1+1048576]", source.text), source.kernels)
        for source in program.sources
    ]
    return model


def test_faults_of_kernels_are_reported(machine: CudaMachine) -> None:
    """A fault ends the context: all models of the process are told why."""
    sound, session = _model(), _model().session()
    with pytest.raises(DeviceLostError, match="CUDA_ERROR_ILLEGAL_ADDRESS") as first:
        _faulty_model().run({"x": _numbers()})
    assert first.value.hint is not None and machine.faults
    for use in (lambda: sound.run({"x": _numbers()}), session.start, sound.session):
        with pytest.raises(DeviceLostError) as caught:
            use()
        assert caught.value.message == first.value.message
    assert machine.depth == 0


def test_a_run_with_a_timeout_names_the_kernel_that_fails(machine: CudaMachine) -> None:
    with pytest.raises(DeviceLostError, match=r"MatMul.*CUDA_ERROR_ILLEGAL_ADDRESS"):
        _faulty_model().run({"x": _numbers()}, timeout=60)


def test_no_device_is_reported(machine: CudaMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.failing["cuInit"] = 100
    with pytest.raises(UnsupportedError, match="CUDA_ERROR_NO_DEVICE"):
        cuda.cuda_device()
    machine.failing.clear()
    monkeypatch.setenv(cuda.DEVICE_ENVIRONMENT, "3")
    with pytest.raises(UnsupportedError, match="no CUDA device 3"):
        cuda.cuda_device()


def test_old_drivers_are_named(machine: CudaMachine) -> None:
    machine.cuGraphLaunch = None  # type: ignore[assignment]
    with pytest.raises(UnsupportedError, match="no cuGraphLaunch"):
        cuda.cuda_device()


def test_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_driver, "open_library", lambda: ctypes.CDLL("nowhere.so.1"))
    cuda_driver.cuda_driver.cache_clear()
    cuda.cuda_device.cache_clear()
    with pytest.raises(UnsupportedError, match=r"NVIDIA's driver: nowhere\.so\.1"):
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
