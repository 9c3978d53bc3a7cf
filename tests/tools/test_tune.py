"""`tcopt-tune` and `tcopt.tune`, from a model to its lock file and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

import tcopt
from models.tuner_models import save_product
from tcopt.compiler.options import CompileOptions
from tcopt.schedules.passes.schedule import find_schedule
from tcopt.schedules.rules.rule import facts_of, rules_for, target_kind
from tcopt.schedules.tuning.lock_file import read_lock
from tcopt.support.errors import InputError, ScheduleError
from tcopt.tools import tcopt_tune
from tcopt.tools.tuning.explain import explain_lock
from tcopt.tools.tuning.live import LiveTable, clock, headline, microseconds, table
from tcopt.tools.tuning.plots import Curve, places
from tcopt.tuner import entry
from tcopt.tuner.arms import lowered
from tcopt.tuner.candidates import Candidate
from tcopt.tuner.measure.measurer import Progress
from tcopt.tuner.measure.outcomes import CRASH, INVALID, OK, Outcome
from tcopt.tuner.measure.workload import Code
from tcopt.tuner.records.store import Store, StoreError
from tcopt.tuner.session import SessionState
from tcopt.tuner.tasks import tasks_of
from tcopt.tuner.whole_models import keeping
from tcopt.tuner.whole_models.acceptance import Verdict

TARGET = "cpu:haswell"


class ScheduleMeasurer:
    """Records the schedules of candidates and invents their times: fewer rows are faster.

    Nothing is compiled or run.
    """

    def __init__(self, gain: float = 0.1):
        self.gain = gain
        self.count = 0
        self.closed = False

    def measure(
        self,
        candidates: Sequence[Candidate],
        *,
        best: Candidate | None = None,
        done: Progress | None = None,
        timed: Mapping[str, Outcome] | None = None,
    ) -> list[Outcome]:
        task = candidates[0].task
        function, module = lowered(task.text, task.phases)
        target = module.attributes["tcopt.target"]
        rules, facts = rules_for(target_kind(target), templates=True), facts_of(target)
        found: list[Outcome] = []
        for candidate in candidates:
            try:
                schedule = find_schedule(
                    function, rules, facts, rule=candidate.rule, choice=candidate.choice
                )
                found.append(self._outcome(candidate, str(schedule.sequence)))
            except ScheduleError as error:
                found.append(Outcome(INVALID, error.message))
            if done is not None:
                done(candidate, found[-1])
        return found

    def _outcome(self, candidate: Candidate, sequence: str) -> Outcome:
        rows = (candidate.choice or {}).get("rows", 100)
        if rows == 5:
            return Outcome(CRASH, "signal 11")
        ratio = 1 + self.gain * (rows - 4) / 4
        code = Code("f", sequence.encode(), sequence=sequence)
        return Outcome(OK, "", (1e4 * ratio,), (1e4,), 0.99 * ratio, 1.01 * ratio, code=code)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save_product(tmp_path / "m.onnx")


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "records.db")


@pytest.fixture
def faster(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Results of consecutive model comparisons."""
    pytest.importorskip("lightgbm", reason="the model is LightGBM's")
    speeds: list[float] = []

    def judge(untuned: object, tuned: object, **more: object) -> Verdict:
        assert callable(untuned) and callable(tuned)
        for before, after in zip(untuned(), tuned(), strict=True):
            assert np.allclose(before, after, atol=1e-3)
        speed = speeds.pop(0)
        return Verdict(speed, speed - 0.01, speed + 0.01, 1.0, 1.0 / speed, 12)

    monkeypatch.setattr(keeping, "judge", judge)
    return speeds


def _tune(model: Path, db: str, gain: float = 0.1, trials: int = 32) -> entry.Tuning:
    measurer = ScheduleMeasurer(gain)
    return tcopt.tune(
        model, TARGET, seconds=600, trials=trials, db=db, threads=1, measurer=measurer
    )


def test_what_is_found_is_kept_and_obeyed(model: Path, db: str, faster: list[float]) -> None:
    faster[:] = [1.2]
    found = _tune(model, db)
    assert found.accepted and found.path == model.with_name("m.tuned.mlir")
    assert found.trials == 32 and found.ended == "trials"
    (kernel,) = found.kernels
    assert 1.0 < kernel.low <= kernel.gain <= kernel.high
    lock = read_lock(found.path)
    (entry_,) = lock.kernels.values()
    assert entry_.rule == "cpu-matmul"
    explained = explain_lock(lock, tasks_of(model, CompileOptions(target=TARGET)))
    assert (len(explained) == 1 and "rows 4 -> " in explained[0].choice) or explained[0].steps
    remarks = tcopt.compile(model, TARGET).explain()
    assert "a schedule by cpu-matmul" in str(remarks.as_json())


@pytest.mark.nightly
def test_the_same_command_goes_on(model: Path, db: str, faster: list[float]) -> None:
    faster[:] = [1.0, 1.0, 1.0, 1.0]
    first, second = ScheduleMeasurer(), ScheduleMeasurer()
    given = {"target": TARGET, "seconds": 600.0, "trials": 16, "db": db, "threads": 1}
    told: list[str] = []
    tcopt.tune(model, measurer=first, **given)
    found = tcopt.tune(model, measurer=second, progress=told.append, **given)
    assert any("records of these kernels" in line for line in told)
    assert not found.accepted
    faster[:] = [1.2]
    found = tcopt.tune(model, measurer=ScheduleMeasurer(), **(given | {"trials": 1}))
    assert found.path is not None
    # The default is known from the records.
    assert "rows 6 -> " in found.path.read_text()
    assert tcopt_tune.summary(found).startswith("1 trials in ")


@pytest.mark.nightly
def test_a_tuned_model_that_is_not_faster_is_not_written(
    model: Path, db: str, faster: list[float]
) -> None:
    faster[:] = [1.005, 1.0]
    found = _tune(model, db)
    assert not found.accepted and found.path is None
    assert not model.with_name("m.tuned.mlir").exists()
    assert "not kept" in tcopt_tune.summary(found)


@pytest.mark.nightly
def test_an_interrupted_search_is_compared_and_written(
    model: Path, db: str, faster: list[float]
) -> None:
    class Interrupted(ScheduleMeasurer):
        def _outcome(self, candidate: Candidate, sequence: str) -> Outcome:
            self.count += 1
            if self.count == 21:
                raise KeyboardInterrupt
            return super()._outcome(candidate, sequence)

    faster[:] = [1.2]
    found = tcopt.tune(model, TARGET, seconds=600, db=db, threads=1, measurer=Interrupted(), seed=1)
    assert found.ended == "interrupted" and found.trials == 20
    assert found.accepted
    with Store(db) as store:
        assert store.count() == 20


def test_an_interrupt_while_choices_about_the_graph_are_tried_ends_the_search(
    model: Path, db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> Verdict:
        raise KeyboardInterrupt

    monkeypatch.setattr(keeping.VariantKeeper, "judge_operators", interrupt)
    measurer = ScheduleMeasurer()
    given = {"seconds": 600, "db": db, "threads": 1, "measurer": measurer, "graph": 0.2}
    found = tcopt.tune(model, TARGET, **given)
    assert found.ended == "interrupted" and found.trials == measurer.count == 0


@pytest.mark.nightly
def test_records_that_cannot_be_written_take_nothing_with_them(
    model: Path, db: str, faster: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(store: Store) -> None:
        raise StoreError("cannot write 16 rows: the disk is full")

    monkeypatch.setattr(Store, "close", close)
    faster[:] = [1.2]
    told: list[str] = []
    found = tcopt.tune(
        model,
        TARGET,
        seconds=600,
        trials=32,
        db=db,
        threads=1,
        measurer=ScheduleMeasurer(),
        progress=told.append,
    )
    assert found.accepted and any("the disk is full" in line for line in told)


@pytest.mark.nightly
def test_where_no_kernel_is_faster_no_model_is_compared(
    model: Path, db: str, faster: list[float]
) -> None:
    found = _tune(model, db, gain=0.0)
    assert found.verdict is None and not found.accepted
    assert "no kernel is faster" in tcopt_tune.summary(found)


def test_kernels_that_gain_least_are_left_out_first() -> None:
    class Kernel:
        def __init__(self, gain: float):
            self.ns, self.default_ns = 100.0, 100.0 + gain
            self.task = type("Task", (), {"calls": 1})

    kernels = [Kernel(50), Kernel(40), Kernel(5), Kernel(1)]
    attempts = keeping.attempts(kernels)  # type: ignore[arg-type]
    assert [len(each) for each in attempts] == [4, 2]
    assert attempts[1] == kernels[:2]
    assert keeping.attempts([]) == []
    assert len(keeping.attempts(kernels[:1])) == 1  # type: ignore[arg-type]


@pytest.mark.nightly
def test_a_callback_sees_each_round_and_may_end_it(
    model: Path, db: str, faster: list[float]
) -> None:
    faster[:] = [1.0, 1.0]
    states: list[SessionState] = []

    def callback(state: SessionState) -> bool:
        states.append(state)
        return len(states) == 2

    found = tcopt.tune(
        model,
        TARGET,
        seconds=600,
        db=db,
        threads=1,
        measurer=ScheduleMeasurer(),
        callback=callback,
    )
    assert found.ended == "asked" and len(states) == 2
    assert states[-1].trials == found.trials == 16
    assert "16 trials" in headline(states[-1])
    from rich.console import Console

    console = Console(width=140, record=True, file=StringIO())
    console.print(table(states[-1]))
    assert states[-1].tasks[0].task.name[:30] in console.export_text()
    with LiveTable() as live:
        live(states[-1])


def test_a_model_in_memory_needs_a_place_for_its_lock_file(model: Path) -> None:
    with pytest.raises(InputError, match="the path of the lock file is missing"):
        tcopt.tune(model.read_bytes(), TARGET)


@pytest.fixture
def tuned(model: Path, db: str, faster: list[float]) -> tuple[str, str]:
    faster[:] = [1.2]
    assert _tune(model, db, trials=32).accepted
    return str(model), db


@pytest.mark.nightly
def test_show_plot_export_and_merge(
    tuned: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, db = tuned
    options = ["--target", TARGET, "--db", db]
    assert tcopt_tune.main(["show", model, *options, "--steps"]) == 0
    shown = capsys.readouterr().out
    assert "by cpu-matmul" in shown and "cpu-matmul" in shown and "+++ tuned" in shown
    lines, other = tmp_path / "r.jsonl", str(tmp_path / "other.db")
    assert tcopt_tune.main(["export", "--db", db, "-o", str(lines)]) == 0
    count = len(lines.read_text().splitlines())
    assert count >= 32
    assert tcopt_tune.main(["export", model, *options, "-o", str(lines)]) == 0
    for source, new in ((str(lines), count), (db, 0)):
        capsys.readouterr()
        assert tcopt_tune.main(["merge", "--db", other, source]) == 0
        assert f"{new} new trials" in capsys.readouterr().out
    pytest.importorskip("matplotlib", reason="pictures are Matplotlib's")
    folder = tmp_path / "pictures"
    assert tcopt_tune.main(["plot", model, *options, "-o", str(folder)]) == 0
    assert {p.name for p in folder.iterdir()} == {"curves.svg", "layers.svg", "guesses.svg"}
    assert "predictions" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["nosuch.onnx"],
        ["show", "nosuch.onnx"],
        ["plot", "nosuch.onnx"],
        ["verify", "nosuch.onnx"],
        ["merge", "nosuch.jsonl"],
        ["merge", "nosuch.db"],
    ],
)
def test_what_is_not_there_is_one_message(
    arguments: list[str], db: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tcopt_tune.main([*arguments, "--db", db]) == 1
    error = capsys.readouterr().err
    assert "there is no file" in error or "cannot read" in error
    assert "Traceback" not in error


def test_a_pool_needs_a_label(model: Path, db: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert tcopt_tune.main([str(model), "--db", db, "--pool", "localhost:1"]) == 1
    assert "select one with --label" in capsys.readouterr().err


def test_a_label_needs_a_pool(model: Path, db: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert tcopt_tune.main([str(model), "--db", db, "--label", "cpu:here"]) == 1
    assert "name the pool with --pool" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["5x", "0", "-1s", "", "1e9"])
def test_times_are_numbers_with_a_unit(value: str) -> None:
    with pytest.raises(SystemExit):
        tcopt_tune.main(["m.onnx", f"--time={value}"])
    assert tcopt_tune.duration("90s") == tcopt_tune.duration("1.5m") == 90.0


def test_small_texts() -> None:
    assert clock(125.4) == "2:05"
    assert (microseconds(1500), microseconds(2.5e6)) == ("1.5 us", "2.50 ms")
    assert Curve("model", (2.0, 0.5, 0.8), (0.0, 1.0, 2.0)).speeds == [1.0, 2.0, 2.0]
    assert places([3.0, 1.0], [0.5, 0.9]) == [(0.0, 0.0), (1.0, 1.0)]
    assert places([1.0], [0.5]) == []
