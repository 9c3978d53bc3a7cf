"""Builder processes: any behaviour of a third-party rule ends as a typed outcome."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

from tcopt.compiler.options import CompileOptions
from tcopt.support.registries.plugins import plugins_loaded
from tcopt.tuner.candidates import Candidate
from tcopt.tuner.measure.builders import LocalBuilders
from tcopt.tuner.measure.measurer import LocalMeasurer, MeasureSettings
from tcopt.tuner.measure.outcomes import (
    COMPILE_ERROR,
    COMPILE_TIMEOUT,
    INVALID,
    OK,
    CandidateFailed,
    Outcome,
)
from tcopt.tuner.measure.turns import TurnSettings
from tcopt.tuner.measure.workload import Code
from tcopt.tuner.tasks import Task, tasks_of

PLUGIN = '''
"""A rule that can do everything wrong."""
import os
import time

from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.spaces.space import Knob, Space
from tcopt.support.errors import ScheduleError


class Faults(Space):
    def __init__(self):
        super().__init__([Knob("fault", tuple(range(7)))])

    def valid(self, k):
        return k.fault != 6

    def estimate(self, k):
        return k.fault

    def nest(self, k):
        return []

    def operands(self):
        return []


@schedule_rule(target="cpu", priority=-1000)
class Planted:
    name = "planted"

    def space(self, sch, facts):
        return Faults()

    def apply(self, sch, facts, space, choice):
        fault = choice["fault"]
        if fault == 1:
            raise RuntimeError("a mistake of the rule")
        if fault == 2:
            time.sleep(1000)
        if fault == 3:
            os._exit(3)
        if fault == 4:
            raise ScheduleError("a step is refused")
        if fault == 5:
            bytearray(1 << 46)
        return None
'''


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Generator[Task]:
    folder = tmp_path_factory.mktemp("plugin")
    path = Path(folder) / "planted_rule.py"
    path.write_text(PLUGIN)
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
    g (float[32, 32] x) => (float[32, 32] y) { y = Sigmoid(x) }""")
    with plugins_loaded([str(path)]):
        (found,) = tasks_of(model, CompileOptions())
        yield found


@pytest.mark.nightly
def test_a_rule_that_fails_is_a_typed_outcome(task: Task):
    builders = LocalBuilders(1)
    try:
        builders.build([Candidate(task)], 60.0)  # The process exists.
        numbers = [0, 1, 2, 3, 4, 5, 6, 7, 0]
        candidates = [Candidate(task, "planted", {"fault": n}) for n in numbers]
        made = builders.build(candidates, 2.0)
    finally:
        builders.stop()
    assert isinstance(made[0], Code) and isinstance(made[-1], Code)
    statuses = [each.status for each in made if isinstance(each, CandidateFailed)]
    assert statuses == [
        COMPILE_ERROR, COMPILE_TIMEOUT, COMPILE_ERROR, INVALID, COMPILE_ERROR, INVALID, INVALID,
    ]  # fmt: skip
    texts = [each.message for each in made if isinstance(each, CandidateFailed)]
    for text, wanted in zip(
        texts,
        ["a mistake of the rule", "did not end within 2 s", "exit status 3", "a step is refused",
         "out of memory", "is illegal", "may be one of"],
        strict=True,
    ):  # fmt: skip
        assert wanted in text, text


def product() -> onnx.ModelProto:
    """A task with weights, which rotate."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
    g (float[16, 24] x) => (float[16, 40] y) { y = MatMul(x, w) }""")
    value = np.random.default_rng(0).standard_normal((24, 40)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(value, "w"))
    return model


@pytest.mark.nightly
@pytest.mark.parametrize(("target", "rule"), [("cpu", "cpu-fallback"), ("opencl", "gpu-fallback")])
def test_a_product_is_measured_under_two_rules(target: str, rule: str):
    if target == "opencl":
        pytest.importorskip("pyopencl")
        from tcopt.runtime.device.opencl import opencl_device
        from tcopt.support.errors import UnsupportedError

        try:
            opencl_device()
        except UnsupportedError as error:
            pytest.skip(error.message)
    (task,) = (t for t in tasks_of(product(), CompileOptions(target=target)) if "matmul" in t.name)
    turns = TurnSettings(fewest=2, most=2, noise=9.0, hopeless=1e9)
    told: list[Outcome] = []
    with LocalMeasurer(MeasureSettings(threads=2, builders=1, turns=turns)) as measurer:
        outcomes = measurer.measure(
            [Candidate(task), Candidate(task, rule, {})], done=lambda _, o: told.append(o)
        )
    assert [o.status for o in outcomes] == [OK, OK], [o.error for o in outcomes]
    assert outcomes == told and outcomes[0].ratio == pytest.approx(1.0)
    assert all(o.median_ns > 0 and o.code is not None for o in outcomes)
    assert outcomes[1].code and outcomes[1].code.rule == rule
