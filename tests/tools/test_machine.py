"""`tcopt-machine`, and targets that are given by their text."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace

import pytest

from tcopt.backends.llvm.machine.host import host_target
from tcopt.compiler.options import CompileOptions
from tcopt.dialects.target import CpuTargetAttr
from tcopt.support.errors import InputError
from tcopt.support.registries.target_registry import find_target
from tcopt.targets.cpu import MACHINES
from tcopt.tools import tcopt_machine
from tcopt.tools.benchmarking import machine_kernels
from tcopt.tools.benchmarking.machine_measure import MachineMeasure, Measured

HASWELL = str(CpuTargetAttr.of(MACHINES["haswell"]))


def test_the_printed_target_can_be_compiled_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    small = replace(host_target(), l3=4 * host_target().l2)
    monkeypatch.setattr(tcopt_machine, "host_target", lambda: small)
    assert tcopt_machine.main(["--seconds", "1e-9", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    kind, machine = find_target(printed["target"])
    found = kind.attribute(machine)
    assert isinstance(found, CpuTargetAttr) and found.values().facts() == printed["facts"]
    assert found.values().l3 == small.l3 and found.values().features == small.features
    assert set(printed["measured"]) == {each.name for each in fields(Measured)}
    assert CompileOptions.of(None, printed["target"]).kind.name == "cpu"


def test_measured_rates_become_facts():
    rates = Measured(1.93, 3.7, 2.1, 4.6, 22.5, 13.1, 2.8, 1573.8, 2466.3)
    target = rates.target(MACHINES["haswell"])
    assert (target.fma_units, target.fma_latency, target.loads, target.issue) == (2, 4, 2, 5)
    assert (target.l2_rate, target.l3_rate, target.memory_rate) == (22, 13, 2)
    assert (target.start, target.megahertz, target.l2) == (1574, 2466, MACHINES["haswell"].l2)
    # Absent resources: a single core has no parallel regions.
    bare = replace(rates, fma_units=0.1, l3_rate=0.0, start=0.0).target(MACHINES["haswell"])
    assert (bare.fma_units, bare.l3_rate, bare.start) == (1, 2, MACHINES["haswell"].start)
    assert asdict(bare)["registers"] == 16


@pytest.mark.parametrize(
    "text",
    [
        machine_kernels.dependent_integers(64),
        machine_kernels.multiply_adds(16, 3, 4, integers=2),
        machine_kernels.reads(1024, 2, 4),
        machine_kernels.parallel_regions(2, 2),
    ],
    ids=["chain", "fma", "reads", "regions"],
)
def test_kernels_take_time(text: str):
    assert MachineMeasure(host_target(), 1e-9)._cycles(text) > 0  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("text", [HASWELL, f"cpu:{HASWELL}"])
def test_a_target_is_given_by_its_text(text: str):
    kind, machine = find_target(text)
    assert kind.name == "cpu" and str(kind.attribute(machine)) == HASWELL
    assert kind.cache_facts(machine) != kind.cache_facts("haswell") or machine != HASWELL


@pytest.mark.parametrize(
    "text",
    [
        HASWELL[:-1],
        f"{HASWELL} cpu",
        HASWELL.replace("= 256", "= 250"),
        HASWELL.replace("cores", "kores"),
        "#target.tpu<a = 1>",
        f"opencl:{HASWELL}",
        "#",
    ],
)
def test_texts_that_are_no_target_are_input_errors(text: str):
    with pytest.raises(InputError) as error:
        find_target(text)[0].attribute(text)
    assert error.value.code == "bad-input"


def test_seconds_are_checked(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        tcopt_machine.main(["--seconds", "0"])
    assert "--seconds" in capsys.readouterr().err
