"""Records: stored in a database, sent as lines, merged without duplicates, and never lost."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import tempfile
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from machines.postgres_server import missing, postgres_server
from running.examples import examples
from searches.planted_kernels import PlantedBuilder, planted, planted_task
from tcopt.schedules.tuning.workloads import key_of
from tcopt.support.errors import InputError, ScheduleError
from tcopt.tuner.candidates import Candidate
from tcopt.tuner.measure.measurer import LocalMeasurer, MeasureSettings
from tcopt.tuner.measure.outcomes import CRASH, INVALID, OK, Outcome
from tcopt.tuner.measure.sequences import check_applies
from tcopt.tuner.records.exchange import export_records, import_records
from tcopt.tuner.records.machine import machine_facts
from tcopt.tuner.records.schema import MACHINE, META, SCHEDULE, TABLES, WORKLOAD
from tcopt.tuner.records.staleness import standing
from tcopt.tuner.records.store import Store, StoreError
from tcopt.tuner.records.trials import Setting, Trial, trial_of
from tcopt.tuner.records.verify import verify_records
from tcopt.tuner.tasks import Task

SETTING = Setting({"cpu": "planted"}, "version 1", "threads=2", "run")
STEPS = """sched.sequence @double_schedule for @double {
  %d = sched.get_block "double"
  %i = sched.get_loops %d
  %o, %n = sched.split %i by [?, 16]
  sched.vectorize %n
}"""


@pytest.fixture(scope="session")
def server() -> Generator[str]:
    if missing():
        pytest.skip(missing())
    with postgres_server() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "folder" / "records.db")
    url = str(request.getfixturevalue("server"))
    store = Store(url)
    TABLES.drop_all(store._engine)  # pyright: ignore
    store.close()
    return url


def the_task() -> Task:
    task = planted_task()
    return replace(task, te_text=task.text.strip(), key=key_of(task.text.strip()))


def outcome(ratio: float, status: str = OK) -> Outcome:
    if status != OK:
        return Outcome(status, "why it failed")
    return Outcome(OK, "", (100 * ratio, 101 * ratio), (100.0,), ratio * 0.99, ratio * 1.01)


def trial(name: str, ratio: float = 1.0, status: str = OK, setting: Setting = SETTING) -> Trial:
    steps = STEPS.replace("16", str(16 + len(name)))
    candidate = Candidate(the_task(), "planted", {"name": name, "size": 3}, steps)
    return trial_of(candidate, outcome(ratio, status), setting, 1000.0)


def test_what_is_kept_is_found_again(address: str):
    trials = [trial("a", 1.5), trial("bb", 0.5), trial("ccc", status=CRASH)]
    with Store(address) as store:
        assert store.add(the_task(), trials, SETTING)
        assert store.add(the_task(), trials, SETTING)
    with Store(address) as store:
        assert store.trials(status=OK) == [trials[1], trials[0]]
        assert store.trials(status=CRASH) == [trials[2]]
        assert store.best(the_task().key, the_task().target_key) == [trials[1]]
        assert store.count() == 3 and store.count(SCHEDULE) == 3
        assert store.count(WORKLOAD) == store.count(MACHINE) == 1
        assert store.workloads(anchor="double")[0]["te_text"] == the_task().te_text


def test_databases_merge_without_doubles(address: str, tmp_path: Path):
    with Store(address) as store, Store(tmp_path / "other.db") as other:
        store.add(the_task(), [trial("a"), trial("bb")], SETTING)
        other.add(the_task(), [trial("bb"), trial("ccc")], SETTING)
        assert store.merge(other) == 1
        assert store.merge(other) == 0
        assert other.merge(store) == 1
        assert store.trials() == other.trials() and store.count() == 3


def test_lines_are_exported_and_imported(address: str, tmp_path: Path):
    path = tmp_path / "records.jsonl"
    with Store(address) as store:
        store.add(the_task(), [trial("a"), trial("bb"), trial("c", status=INVALID)], SETTING)
        assert export_records(store, path) == 3
    with Store(tmp_path / "other.db") as other:
        found = import_records(other, path, applies=check_applies)
        assert (found.new, found.known, found.refused) == (3, 0, ())
        assert import_records(other, path).known == 3
        assert len(other.trials()) == 3 and other.best(the_task().key, the_task().target_key)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda line: line["trial"].update(median_ns=1.0), "was changed after it was written"),
        (lambda line: line["trial"].pop("status"), "not a record"),
        (lambda line: line.update(format=7), "format 7"),
        (lambda line: line["schedule"].update(text="other"), "does not match its hash"),
        (lambda line: line["workload"].update(te_text="other"), "does not match the trial's key"),
        (lambda line: line["machine"].update(more=1), "not a record"),
    ],
)
def test_lines_that_are_no_records_are_told_and_left_out(
    tmp_path: Path, change: object, message: str
):
    path = tmp_path / "records.jsonl"
    with Store(tmp_path / "a.db") as store:
        store.add(the_task(), [trial("a"), trial("bb")], SETTING)
        export_records(store, path)
    good, line = path.read_text().splitlines()
    facts = json.loads(line)
    change(facts)  # pyright: ignore
    path.write_text(f"{good}\n{json.dumps(facts)}\n")
    with Store(tmp_path / "b.db") as store:
        found = import_records(store, path)
        assert found.new == 1 and message in found.refused[0]
        assert f"{path}:2" in found.refused[0]
        path.write_text("no JSON\n")
        with pytest.raises(InputError, match="the file has no valid record"):
            import_records(store, path)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Two lines of records."""
    folder = tmp_path_factory.mktemp("exported")
    with Store(folder / "a.db") as store:
        store.add(the_task(), [trial("a"), trial("bb")], SETTING)
        export_records(store, folder / "records.jsonl")
    first, second = (folder / "records.jsonl").read_text().splitlines()
    return first, second


def places(value: object, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Yield the paths of all members of a line."""
    found = [path] if path else []
    if isinstance(value, dict):
        found += [each for name in value for each in places(value[name], (*path, name))]
    return found


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=50),
    st.sampled_from([2**31, 2**63, 10**400, "\ud800", "\0", "x" * 1000, [[[]]], {"a": {"b": 1}}]),
    st.lists(st.integers(), max_size=2), st.dictionaries(st.text(max_size=2), st.text(max_size=2)),
)  # fmt: skip


@given(data=st.data())
@settings(max_examples=examples(20))
def test_a_line_of_other_values_is_one_refused_entry(
    exported: tuple[str, str], data: st.DataObject
):
    good, other = exported
    line = json.loads(other)
    *outer, name = data.draw(st.sampled_from(places(line)))
    inner = line
    for each in outer:
        inner = inner[each]
    inner[name] = data.draw(VALUES)
    if data.draw(st.booleans()) and isinstance(line["trial"], dict):
        # An attacker who writes a record can write its hash as well.
        content = json.dumps({**line["trial"], "id": ""}, sort_keys=True)
        line["trial"]["id"] = hashlib.blake2b(content.encode(), digest_size=16).hexdigest()
    check_import(good, json.dumps(line).encode())


@given(data=st.data())
@settings(max_examples=examples(20))
def test_damaged_bytes_are_one_refused_line(exported: tuple[str, str], data: st.DataObject):
    good, other = exported
    text = other.encode()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 20)))
    inserted = data.draw(
        st.one_of(st.binary(max_size=4), st.sampled_from([b"[" * 100_000, b"9" * 5000]))
    )
    check_import(good, text[:start] + inserted.replace(b"\n", b"") + text[end:])


def check_import(good: str, line: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "records.jsonl")
        path.write_bytes(good.encode() + b"\n" + line + b"\n")
        with Store(Path(folder, "b.db")) as store:
            found = import_records(store, path, applies=lambda workload, schedule: None)
            assert found.new + found.known + len(found.refused) == 2 and found.new >= 1
            assert len(store.trials()) == found.new


def test_a_schedule_that_does_not_apply_is_not_imported(tmp_path: Path):
    path = tmp_path / "records.jsonl"
    with Store(tmp_path / "a.db") as store:
        store.add(the_task(), [trial("a")], SETTING)
        export_records(store, path)
    facts = json.loads(path.read_text())
    steps = STEPS.replace('"double"', '"other"')
    facts["schedule"] |= {"text": steps, "hash": key_of(steps)}
    facts["trial"] |= {"schedule": key_of(steps), "id": ""}
    facts["trial"]["id"] = Trial.of(facts["trial"], steps).with_id().id
    path.write_text(json.dumps(facts))
    with (
        Store(tmp_path / "b.db") as store,
        pytest.raises(InputError, match='does not apply: there is no block "other"'),
    ):
        import_records(store, path, applies=check_applies)
    with pytest.raises(ScheduleError):
        check_applies(the_task().te_text, steps)


def test_what_cannot_be_written_is_kept_and_written_later(tmp_path: Path):
    path = tmp_path / "records.db"
    with Store(path, busy_s=0.05) as store:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        assert not store.add(the_task(), [trial("a")], SETTING)
        assert store.pending and not store.trials()
        with pytest.raises(StoreError, match="locked"):
            store.flush()
        other.execute("COMMIT")
        assert store.add(the_task(), [trial("bb")], SETTING)
        assert not store.pending and len(store.trials()) == 2


def test_what_a_full_disk_does_not_take_goes_to_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    store = Store(tmp_path / "records.db")
    with store._engine.connect() as connection:  # pyright: ignore
        # Like a full disk; the engine keeps the connection.
        connection.exec_driver_sql("PRAGMA max_page_count=1")
    error = "x" * 200_000
    assert not store.add(the_task(), [replace(trial("a"), error=error).with_id()], SETTING)
    with pytest.raises(StoreError, match=r"disk is full.*tcopt-trials.*import") as caught:
        store.close()
    (path,) = tmp_path.glob("tcopt-trials-*.jsonl")
    assert str(path) in str(caught.value)
    with Store(tmp_path / "other.db") as other:
        assert import_records(other, path).new == 1
        assert other.trials()[0].error == error


def test_a_change_of_the_compiler_makes_records_stale_until_the_best_are_measured_again(
    tmp_path: Path,
):
    task, later = the_task(), replace(SETTING, code_version="version 2")
    with Store(tmp_path / "records.db") as store:
        names = ["a", "bb", "ccc", "dddd", "eeeee"]
        store.add(task, [trial(n, 1 + i / 10) for i, n in enumerate(names)], SETTING)
        now = standing(store, task.key, task.target_key, "version 2")
        assert not now.fresh and len(now.stale) == 5 and now.usable == ()
        assert [t.choice["name"] for t in now.again] == ["a", "bb", "ccc"]
        for count, name in enumerate(names[:3]):
            assert len(standing(store, task.key, task.target_key, "version 2").again) == 3 - count
            store.add(task, [trial(name, 1.0, setting=later)], later)
        now = standing(store, task.key, task.target_key, "version 2")
        assert not now.again and len(now.fresh) == 3 and len(now.stale) == 2
        assert len(now.usable) == 5 and store.count() == 8


def test_records_are_measured_on_another_machine(tmp_path: Path):
    task, here = the_task(), replace(SETTING, machine=machine_facts(), run="verify")

    class Replays(PlantedBuilder):
        """The candidate that a sequence of 17 denotes crashes here."""

        def _one(self, candidate: Candidate):
            return planted("crash" if "17" in candidate.sequence else "good")

    settings = MeasureSettings(threads=1)
    with Store(tmp_path / "r.db") as store, LocalMeasurer(settings, Replays()) as measurer:
        store.add(task, [trial("a", 0.5), trial("bb", 0.8), trial("ccc", 2.0)], SETTING)
        found = verify_records(store, [task], measurer, lambda _: here, count=2)
        assert [v.trial.choice["name"] for v in found] == ["a", "bb"]
        assert [v.outcome.status for v in found] == [CRASH, OK]
        own = store.trials(machine=here.machine_key)
        assert len(own) == 3 and store.count() == 6  # The default is among them.


def test_addresses_that_are_none_are_told(tmp_path: Path):
    with pytest.raises(InputError, match="not an address of a database"):
        Store("nothing://here")
    with pytest.raises(InputError, match="cannot open the records"):
        Store("postgresql://nobody:secret@/none?host=/nowhere")
    with pytest.raises(InputError) as caught:
        Store("postgresql://nobody:secret@/none?host=/nowhere")
    assert "secret" not in str(caught.value)
    (tmp_path / "file").write_text("no database, but a text of some length" * 100)
    with pytest.raises(InputError, match="not a database"):
        Store(tmp_path / "file")
    with pytest.raises(InputError, match="cannot make the folder"):
        Store(tmp_path / "file" / "records.db")


def test_records_of_a_later_version_are_left_alone(tmp_path: Path):
    store = Store(tmp_path / "records.db")
    with store._engine.begin() as connection:  # pyright: ignore
        connection.execute(META.update().values(version=99))
    store.close()
    with pytest.raises(InputError, match="version 99"):
        Store(tmp_path / "records.db")
