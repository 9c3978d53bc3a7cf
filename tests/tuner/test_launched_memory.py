"""Kernels launched on devices during tuning: which run, how often, and time limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

from machines.opencl_device import needs_device
from tcopt.compiler.options import CompileOptions
from tcopt.runtime.device.host_memory import Call, HostMemoryDevice
from tcopt.runtime.device.interface import KernelSource
from tcopt.tuner.arguments import INPUT, OUTPUT, WEIGHT, Argument
from tcopt.tuner.candidates import Candidate
from tcopt.tuner.measure.launched_memory import LaunchedMemory
from tcopt.tuner.measure.measurer import LocalMeasurer, MeasureSettings
from tcopt.tuner.measure.outcomes import OK
from tcopt.tuner.measure.runner import RunLimits
from tcopt.tuner.measure.turns import TurnSettings
from tcopt.tuner.measure.workload import Code, Workload
from tcopt.tuner.tasks import tasks_of


class Counting(HostMemoryDevice):
    """Records which weights each launch is given."""

    name = "counting"

    def __init__(self) -> None:
        self.weights: list[int] = []

    def load(self, sources: Sequence[KernelSource]) -> Mapping[str, Call]:
        def run(launch: Any, arguments: Sequence[Any]) -> None:
            self.weights.append(arguments[1].__array_interface__["data"][0])

        return {name: run for source in sources for name in source.kernels}


COPIES = 4


@pytest.fixture
def device() -> Counting:
    return Counting()


@pytest.fixture
def kernel(device: Counting) -> Any:
    roles = (INPUT, WEIGHT, OUTPUT)
    arguments = tuple(Argument((16,), "float32", role) for role in roles)
    right = np.zeros(16, np.float32)
    workload = Workload("key", arguments, ((right,),), weight_bytes=COPIES * 64)
    launch = {"kernel": "k", "grid": [1, 1, 1], "block": [1, 1, 1], "arguments": [0, 1, 2]}
    return LaunchedMemory(device, workload).load(Code("s", b"", launches=(launch,)))


@pytest.mark.parametrize(
    ("calls", "launched", "weights"), [(1, 1, 1), (3, 3, 3), (4, 4, 4), (9, 8, 4), (40, 40, 4)]
)
def test_so_many_calls_are_timed_with_weights_in_turn(
    device: Counting, kernel: Any, calls: int, launched: int, weights: int
):
    """A few runs are not rounded up to a whole rotation of weights: a slow kernel would be taken
    for a hang."""
    kernel.time(calls, 1)
    assert len(device.weights) == launched
    assert len(set(device.weights)) == weights


@pytest.mark.nightly
@needs_device
def test_a_device_may_compile_when_it_launches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """PoCL compiles at the first launch unless the kernel is cached; that takes far longer than
    these runs."""
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path))
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
        f (float[37, 45] x, float[45, 53] w) => (float[37, 53] y) { y = MatMul (x, w) }""")
    (task,) = tasks_of(model, CompileOptions(target="opencl:pocl"))
    limits = RunLimits(least=0.02, factor=10.0)
    settings = MeasureSettings(limits=limits, turns=TurnSettings(fewest=2, most=2, noise=1e9))
    rule = "gpu-register-tile"
    wanted = [
        Candidate(task, rule, {"rows": rows, "lanes": 1, "written": 16}) for rows in (2, 3, 5)
    ]
    with LocalMeasurer(settings) as measurer:
        assert [each.status for each in measurer.measure(wanted)] == [OK] * len(wanted)
