"""A campaign with every kind of failure: each is recorded, and the best candidate wins."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from searches.planted_kernels import PlantedBuilder, planted_task
from tcopt.tuner.candidates import Candidate
from tcopt.tuner.measure.measurer import LocalMeasurer, MeasureSettings
from tcopt.tuner.measure.outcomes import (
    COMPILE_TIMEOUT,
    CRASH,
    OK,
    RUN_TIMEOUT,
    WRONG,
    Outcome,
)
from tcopt.tuner.measure.runner import RunLimits
from tcopt.tuner.measure.turns import TurnSettings
from tcopt.tuner.records.store import Store
from tcopt.tuner.records.trials import Setting, trial_of

SETTINGS = MeasureSettings(
    threads=1,
    memory=1 << 30,
    limits=RunLimits(least=0.5),
    turns=TurnSettings(fewest=3, most=3, noise=9.0),
)
BATCHES = (
    ("slow", "crash", "wrong"),
    # While these are measured, another process locks the database.
    ("hang", "very slow", "greedy"),
    # While these are measured, the disk is full.
    ("killed", "good", "takes for ever"),
)
STATUSES = {
    "slow": OK,
    "very slow": OK,
    "good": OK,
    "crash": CRASH,
    "greedy": CRASH,
    "killed": CRASH,
    "wrong": WRONG,
    "hang": RUN_TIMEOUT,
    "takes for ever": COMPILE_TIMEOUT,
}


def pages(store: Store, limit: int) -> None:
    """Limit the database's pages, like a disk with that much space."""
    with store._engine.connect() as connection:  # pyright: ignore
        connection.exec_driver_sql(f"PRAGMA max_page_count={limit}")


def test_a_campaign_ends_with_typed_records_and_the_best_schedule(tmp_path: Path):
    # Records are long, so that none fits on a full disk.
    task, setting = planted_task(), Setting({"cpu": "planted"}, "version", "x" * 50_000)
    path = tmp_path / "records.db"
    other = sqlite3.connect(path, isolation_level=None)
    written: list[bool] = []
    with Store(path, busy_s=0.05) as store, LocalMeasurer(SETTINGS, PlantedBuilder()) as measurer:

        def keep(candidate: Candidate, outcome: Outcome) -> None:
            trial = trial_of(candidate, outcome, setting, float(len(written)))
            written.append(store.add(task, [trial], setting))

        for number, names in enumerate(BATCHES):
            if number == 1:
                other.execute("BEGIN IMMEDIATE")
            elif number == 2:
                other.execute("COMMIT")
                pages(store, 1)
            measurer.measure([Candidate(task, name, {}) for name in names], done=keep)
        assert store.pending
        pages(store, 1 << 20)
    other.close()
    assert written[:3] == [True] * 3 and not any(written[3:6])
    with Store(path) as store:
        kept = store.trials()
        assert {trial.rule: trial.status for trial in kept} == STATUSES
        assert len(kept) == len(STATUSES) == store.count()
        assert all(trial.error for trial in kept if trial.status != OK)
        (best,) = store.best(task.key, task.target_key)
        assert best.rule == "good" and best.sequence == "good"
        assert best.ratio < 0.7


def test_the_kill_of_a_process_tells_what_it_may_have_been():
    with LocalMeasurer(SETTINGS, PlantedBuilder()) as measurer:
        (outcome,) = measurer.measure([Candidate(planted_task(), "killed", {})])
    assert outcome.status == CRASH
    assert "SIGKILL" in outcome.error and "too little memory" in outcome.error
