"""Accelerator kernels: tasks for the accelerator's target, times by its simulator, replay."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import tcopt
from models.quantised_models import quantised
from tcopt.compiler.options import CompileOptions
from tcopt.runtime.program import Program
from tcopt.support.errors import InputError, UnsupportedError
from tcopt.support.registries.plugins import load_plugins, unload
from tcopt.support.registries.target_registry import target_named
from tcopt.tools import tcopt_tune
from tcopt.tuner.arms import arms_of
from tcopt.tuner.candidates import Candidate
from tcopt.tuner.lock import LockWriter, TunedKernel, writer_for
from tcopt.tuner.measure.building import build
from tcopt.tuner.measure.measurer import MeasureSettings, workload_of
from tcopt.tuner.measure.outcomes import OK, WRONG, CandidateFailed, Outcome
from tcopt.tuner.measure.reference import reference_of
from tcopt.tuner.measure.simulated import PlacedMeasurer, SimulatedMeasurer, with_simulated_times
from tcopt.tuner.measure.simulation import call_of_code, code_of_call, simulate
from tcopt.tuner.past import Past
from tcopt.tuner.records.store import Store
from tcopt.tuner.tasks import Task, tasks_of
from tcopt.tuner.whole_models import accelerated
from tcopt.tuner.whole_models.accelerated import cycles_of, judge_with_accelerator

EXAMPLE = Path(__file__).parents[2] / "examples" / "tile_accelerator.py"
SOURCE = quantised((16, 32), 9, kernel=3, stride=1)
SETTINGS = MeasureSettings(threads=1, builders=2)


@pytest.fixture(scope="module")
def plugin() -> Iterator[None]:
    load_plugins([EXAMPLE])
    yield
    unload(EXAMPLE)


@pytest.fixture(scope="module")
def measurer() -> Iterator[SimulatedMeasurer]:
    with SimulatedMeasurer(SETTINGS) as made:
        yield made


def placed(target: str, source: onnx.ModelProto = SOURCE) -> Task:
    """Return the first task that is not the host's."""
    return next(
        task for task in tasks_of(source, CompileOptions(target=target)) if task.kind != "cpu"
    )


def other_choice(task: Task) -> Candidate:
    """Return a choice with one slot less for an operand than the default."""
    (arm,) = arms_of(task)
    choice = arm.space.default()
    name = next(name for name in choice if "slots" in name and choice[name] > 1)
    choice[name] -= 1
    assert arm.space.is_valid(choice)
    return Candidate(task, arm.rule, choice)


def test_a_model_has_tasks_of_the_host_and_of_the_accelerator():
    tasks = tasks_of(SOURCE, CompileOptions(target="vdla"))
    kinds = {task.kind for task in tasks}
    assert kinds == {"cpu", "vdla"}
    task = placed("vdla")
    assert task.target.startswith("#target.vdla<") and "#target.vdla" not in task.te_text
    assert [rule.rule for rule in arms_of(task)] == ["vdla-contraction"]
    assert "place-sram" in dict(task.phases)["kernel"]
    other = placed("vdla:vta", quantised((16, 16), 9, shifts=True))
    assert other.kind == "vdla" and other.target_key != task.target_key
    host = {task.target_key for task in tasks if task.kind == "cpu"}
    assert host == {task.target_key for task in tasks_of(SOURCE, CompileOptions(target="cpu"))}


@pytest.mark.nightly
def test_times_are_exact_and_results_checked(measurer: SimulatedMeasurer):
    task = placed("vdla")
    candidates = [Candidate(task), other_choice(task)]
    told: list[Outcome] = []
    first = measurer.measure(candidates, done=lambda _, outcome: told.append(outcome))
    again = measurer.measure(candidates)
    assert [each.status for each in first] == [OK, OK] and len(told) == 2
    assert [each.ns for each in first] == [each.ns for each in again]
    default, other = first
    assert default.ratio == 1.0 and other.ratio == other.low == other.high != 1.0
    assert other.default_ns == default.ns
    (task,) = with_simulated_times([task], measurer)
    assert task.ns == default.ns[0] and task.weight == task.calls * task.ns


def test_a_program_that_computes_something_else_is_wrong():
    task = placed("vdla")
    code = build(task.text, task.phases)
    workload = workload_of(task, reference_of(task.text, task.arguments))
    assert simulate(code.data, workload, task.target) > 0
    function, settings = call_of_code(code.data)
    words = bytearray.fromhex(settings["micro_ops"])
    words[0] ^= 1  # Another register.
    spoiled = code_of_call((function, {**settings, "micro_ops": words.hex()}))
    with pytest.raises(CandidateFailed) as found:
        simulate(spoiled, workload, task.target)
    assert found.value.status == WRONG
    off = tuple((each[0] + 1,) for each in workload.expected)
    with pytest.raises(CandidateFailed, match="elements are wrong"):
        simulate(code.data, replace(workload, expected=off), task.target)


def test_hardware_is_not_started_for_what_is_simulated():
    def hardware():
        raise AssertionError("there is none")

    with pytest.raises(AssertionError, match="there is none"):
        PlacedMeasurer(SETTINGS, hardware).measure(
            [Candidate(tasks_of(SOURCE, CompileOptions(target="cpu"))[0])]
        )
    with pytest.raises(UnsupportedError, match="machines of target cpu have no simulator"):
        target_named("cpu").simulate(target_named("cpu").attribute(), ("f", {}), [])


@pytest.mark.nightly(every=2)
@pytest.mark.parametrize("target", ["vdla", "tile:tokens"])
def test_a_lock_file_is_obeyed(
    target: str, measurer: SimulatedMeasurer, plugin: None, tmp_path: Path
):
    """The model then takes the measured number of cycles, with correct results."""
    task = placed(target)
    candidate = other_choice(task)
    (outcome,) = measurer.measure([candidate])
    assert outcome.status == OK and outcome.code is not None
    writer, path = LockWriter(), tmp_path / "model.tuned.mlir"
    writer.add_kernel(TunedKernel(task, outcome.code.sequence))
    writer.write(path)
    options = {"cache": False, "workers": 0}
    untuned = tcopt.compile(SOURCE, target, tuned=False, **options)
    tuned = tcopt.compile(SOURCE, target, tuned=path, **options)
    cycles: list[int] = []
    for model in (untuned, tuned):
        assert isinstance(model.program, Program)
        cycles.append(cycles_of(model.program))
    assert cycles == [outcome.default_ns[0] / 10, outcome.ns[0] / 10]
    feeds = {"x": np.random.default_rng(1).normal(size=(1, 16, 9, 9)).astype(np.float32)}
    np.testing.assert_array_equal(tuned.run(feeds)[0], untuned.run(feeds)[0])
    verdict = judge_with_accelerator(untuned, tuned, feeds, 100, 2, same_host=True)
    back = judge_with_accelerator(tuned, untuned, feeds, 100, 2, same_host=True)
    assert verdict.low == verdict.high == verdict.speed == pytest.approx(cycles[0] / cycles[1])
    assert not verdict.accepted and back.accepted and "exact" in back.interval
    # Entries of other targets stay when one is tuned again.
    assert not writer_for(path, "model", {task.target_key}).targets
    assert set(writer_for(path, "model", {"another"}).targets) == {task.target_key}
    with pytest.raises(InputError, match="the lock file has no entry for"):
        tcopt.compile(SOURCE, target, tuned=path, locked=True, **options)


def test_times_of_the_host_are_added_to_cycles(monkeypatch: pytest.MonkeyPatch):
    model = tcopt.compile(SOURCE, "vdla", tuned=False, cache=False, workers=0)
    feeds = {"x": np.random.default_rng(1).normal(size=(1, 16, 9, 9)).astype(np.float32)}
    alone = judge_with_accelerator(model, model, feeds, 100, 3, same_host=True)
    with_host = judge_with_accelerator(model, model, feeds, 100, 3, same_host=False)
    assert with_host.rounds == 3 and with_host.low <= with_host.speed <= with_host.high
    assert with_host.before_ms > alone.before_ms and with_host.after_ms > alone.after_ms
    # Each side is compared with its own: the host of the second model takes a third of the time.
    times = itertools.cycle([3.0, 1.0, 1.0, 3.0])
    monkeypatch.setattr(accelerated, "_host_ms", lambda *_: next(times))
    judged = judge_with_accelerator(model, model, feeds, 100, 4, same_host=False)
    cycles = alone.before_ms
    assert judged.low == judged.high == pytest.approx((3 + cycles) / (1 + cycles))
    assert (judged.before_ms, judged.after_ms) == pytest.approx((3 + cycles, 1 + cycles))


@pytest.mark.nightly
def test_records_name_the_machine_that_is_simulated(tmp_path: Path):
    """Records are the same on every computer, for any number of threads."""
    task, host = placed("vdla"), tasks_of(SOURCE, CompileOptions(target="cpu"))[0]
    with Past(Store(tmp_path / "a.db"), 1) as one, Past(Store(tmp_path / "b.db"), 8) as two:
        assert one.machine_of(task) == two.machine_of(task) != one.machine_of(host)
        assert one.setting_of(task).options == two.setting_of(task).options == ""
        assert one.setting_of(task).machine["target"] == task.target


@pytest.mark.nightly
def test_the_tool_tunes_and_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A model whose remaining operators run on the host; records belong to the measured machine."""
    path, db = tmp_path / "model.onnx", str(tmp_path / "records.db")
    onnx.save(SOURCE, path)
    given = [str(path), "--target", "vdla", "--db", db]
    assert tcopt_tune.main([*given, "--trials", "6", "--threads", "1", "--explain"]) == 0
    said = capsys.readouterr().out
    assert "6 trials in" in said
    assert tcopt_tune.main(["show", *given]) == 0
    assert "vdla-contraction" in capsys.readouterr().out
    with Store(db) as store:
        trials = [each for each in store.trials() if each.rule == "vdla-contraction"]
        assert trials and all(each.low == each.high > 0 for each in trials if each.status == OK)
        assert len({each.machine for each in trials}) == 1
        others = {each.machine for each in store.trials()} - {trials[0].machine}
        assert len(others) <= 1
