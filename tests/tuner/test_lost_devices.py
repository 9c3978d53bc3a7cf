"""Candidates that break their device: each costs one trial and one process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NoReturn

import pytest

from tcopt.support.errors import BackendError, DeviceLostError, InputError, ResourceError
from tcopt.support.processes.child_process import ChildError
from tcopt.tuner.arguments import INPUT, OUTPUT, Argument
from tcopt.tuner.measure import runner as runner_module
from tcopt.tuner.measure.outcomes import CRASH, OK, CandidateFailed
from tcopt.tuner.measure.runner import RunLimits, Runner
from tcopt.tuner.measure.turns import Turns, TurnSettings
from tcopt.tuner.measure.values import SETS, make_values
from tcopt.tuner.measure.workload import Code, Workload

SIZE = 32
PTX = f"""
.version 7.8
.target sm_80
.address_size 64
.visible .entry double(.param .u64 double_param_0, .param .u64 double_param_1)
.reqntid {SIZE}, 1, 1
{{
    .reg .f32 %f<3>;
    .reg .b32 %r<2>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [double_param_0];
    ld.param.u64 %rd2, [double_param_1];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    ld.global.f32 %f1, [%rd4];
    add.rn.f32 %f2, %f1, %f1;
    st.global.f32 [%rd5], %f2;
    ret;
}}
"""
WORKLOAD = Workload(
    "double",
    (Argument((SIZE,), "float32", INPUT), Argument((SIZE,), "float32", OUTPUT)),
    tuple((2 * make_values((SIZE,), "float32", 0, kind),) for kind in range(SETS)),
)


def code(text: str, comment: str = "") -> Code:
    launch = {"kernel": "double", "grid": [1, 1, 1], "block": [SIZE, 1, 1], "arguments": [0, 1]}
    return Code("double", f"{text}// {comment}\n".encode(), launches=(launch,))


FAULTY = PTX.replace("[%rd4]", "[%rd4+1048576]")


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    monkeypatch.setattr(runner_module, "_CHILD", "machines.cuda_runner")
    found = Runner("cuda", 1, RunLimits(least=60.0))
    found.use(WORKLOAD)
    yield found
    found.stop()


def test_an_illegal_access_costs_one_trial(runner: Runner) -> None:
    """The context of its process is dead, and those after it run in another one."""
    codes = {0: code(PTX), 1: code(FAULTY), 2: code(PTX, "equal")}
    settings = TurnSettings(fewest=1, most=1, noise=1e9)
    found = Turns(runner, WORKLOAD, codes, 0, settings).run()
    assert [found[number].status for number in codes] == [OK, CRASH, OK]
    assert re.search(r"device-lost.*CUDA_ERROR_ILLEGAL_ADDRESS", found[1].error)
    assert runner.started == 2


class Replying:
    """A child whose replies are one error."""

    def __init__(self, error: str):
        self.error, self.stopped = error, 0

    def ask(self, *_: object, **__: object) -> NoReturn:
        raise ChildError(self.error, "of the device")

    def stop(self) -> None:
        self.stopped += 1


@pytest.mark.parametrize(
    ("error", "ends"),
    [
        (DeviceLostError.code, True),
        (BackendError.code, True),
        ("internal", True),
        (ResourceError.code, False),
        (InputError.code, False),
    ],
)
def test_errors_of_a_device_end_the_process(
    error: str, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = Replying(error)
    monkeypatch.setattr(runner_module, "ChildProcess", lambda *_, **__: child)
    runner = Runner("cuda")
    runner.use(WORKLOAD)
    runner.add(0, code(PTX))
    with pytest.raises(CandidateFailed, match=f"{error}: of the device") as caught:
        runner.check(0, None)
    assert caught.value.status == CRASH and child.stopped == ends
