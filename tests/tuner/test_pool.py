"""A pool on this machine: a scheduler and three workers, some of which are killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from searches.planted_kernels import PlantedBuilder, planted_task
from tcopt.support.errors import BackendError, InputError
from tcopt.support.files.private_files import private_path
from tcopt.tuner.candidates import Candidate
from tcopt.tuner.measure.measurer import MeasureSettings
from tcopt.tuner.measure.outcomes import CRASH, LOST, OK, RUN_TIMEOUT, WRONG
from tcopt.tuner.measure.runner import RunLimits
from tcopt.tuner.measure.turns import TurnSettings
from tcopt.tuner.pool.measurer import PoolMeasurer
from tcopt.tuner.pool.security import KEY_NAME, Certificates, check_address
from tcopt.tuner.pool.serve import CONFIGURATION
from tcopt.tuner.records.store import Store
from tcopt.tuner.records.trials import Setting, trial_of

TWO, ONE = "cpu:two", "cpu:one"
SETTINGS = MeasureSettings(
    threads=1,
    limits=RunLimits(least=0.6),
    turns=TurnSettings(fewest=2, most=3, noise=9.0),
)


class Pool:
    """The processes of a pool, with the user's key file.

    They run in a folder with modules that shadow Python's, and their temporary folder contains a
    world-writable one for Dask.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.trace = folder / "imported from a folder of others"
        scratch = folder / "dask-scratch-space"
        scratch.mkdir()
        scratch.chmod(0o777)
        for name in ("multiprocessing", "signal", "secrets", "numpy", "xdsl"):
            for place in (folder, scratch):
                Path(place, f"{name}.py").write_text(f"open({str(self.trace)!r}, 'w')")
        self.processes: list[subprocess.Popen[str]] = []
        (self.address,) = self._ready([self._start("scheduler", "--port", "0")])
        # The first one has a nanny, which restarts it.
        workers = [self._start("worker", self.address, "--label", "build")]
        self._ready([*workers, *(self.start_worker(label) for label in (TWO, TWO, ONE))])

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def start_worker(self, label: str) -> subprocess.Popen[str]:
        return self._start(
            "worker", self.address, "--label", label, "--threads", "1", "--no-restart"
        )

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tcopt.tools.tcopt_pool", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=self.folder,
            env={**os.environ, "TMPDIR": str(self.folder)},
        )
        self.processes.append(process)
        return process

    @staticmethod
    def _ready(processes: list[subprocess.Popen[str]]) -> list[str]:
        found: list[str] = []
        for process in processes:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("ready at tls://"), line
            found.append(line.removeprefix("ready at ").strip())
        return found

    def stop(self) -> None:
        for process in self.processes:
            # The nanny ends its worker.
            process.terminate()
        for process in self.processes:
            process.wait()


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Generator[Pool]:
    pool = Pool(tmp_path_factory.mktemp("pool"))
    yield pool
    pool.stop()


def measurer_for(pool: Pool, label: str) -> PoolMeasurer:
    return PoolMeasurer(pool.address, label, SETTINGS, builders=PlantedBuilder())


def kill_when_busy(measurer: PoolMeasurer, count: int) -> threading.Thread:
    """Kill the given number of workers of the label, each while it measures."""

    def kill() -> None:
        end, client = time.monotonic() + 20, measurer._client  # pyright: ignore
        while time.monotonic() < end:
            working = client.call_stack()
            if len(working) >= count:
                break
            time.sleep(0.05)
        time.sleep(0.3)
        # Looked up now, because the number of an ended worker may belong to another process.
        for facts in list(measurer.workers().values())[:count]:
            os.kill(facts["pid"], signal.SIGKILL)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    return thread


def test_a_label_that_nobody_has_is_told_at_once(pool: Pool):
    with pytest.raises(InputError, match="no worker of the pool has the label 'cuda:sm_90'"):
        measurer_for(pool, "cuda:sm_90")


def listening(process: int) -> list[str]:
    """Return addresses at which a process and its children listen, from /proc/net/tcp."""
    own: set[str] = set()
    for link in _links(process):
        # The process closes files meanwhile.
        with contextlib.suppress(FileNotFoundError):
            own.add(os.readlink(link))
    found: list[str] = []
    for table in ("tcp", "tcp6"):
        rows = [line.split() for line in Path("/proc/net", table).read_text().splitlines()[1:]]
        found += [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in own]
    return found


def _links(process: int) -> Generator[Path]:
    for tasks in Path(f"/proc/{process}/task").glob("*/children"):
        for child in tasks.read_text().split():
            yield from _links(int(child))
    yield from Path(f"/proc/{process}/fd").iterdir()


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="/proc/net/tcp is Linux's")
def test_processes_listen_on_loopback_only_and_have_no_http_server(pool: Pool):
    scheduler, nanny, *workers = [listening(process.pid) for process in pool.processes[:5]]
    assert scheduler == [f"0100007F:{pool.port:04X}"]
    # The nanny and its worker.
    assert [len(nanny), *map(len, workers)] == [2, 1, 1, 1]
    assert {address.partition(":")[0] for each in (nanny, *workers) for address in each} == {
        "0100007F"
    }


def test_nothing_is_imported_from_folders_of_others(pool: Pool):
    assert not pool.trace.exists()


def test_the_key_is_the_user_s_and_a_copy_of_it_lets_in(pool: Pool, tmp_path, monkeypatch):
    key = private_path(KEY_NAME)
    assert key is not None and key.stat().st_mode & 0o777 == 0o600
    copy = tmp_path / "tcopt" / KEY_NAME
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    # Another key, created like the one of a scheduler on this machine.
    with pytest.raises(BackendError, match="no scheduler with this key"):
        measurer_for(pool, TWO)
    assert copy.read_bytes() != key.read_bytes()
    shutil.copy(key, copy)
    measurer_for(pool, ONE).close()
    copy.chmod(0o644)
    with pytest.raises(InputError, match="mode 600"):
        measurer_for(pool, ONE)


def _in_the_clear(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), 20) as stream:
        stream.sendall(b"\0" * 64)
        return bool(stream.recv(1))


def _without_certificate(port: int) -> bool:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port), 20) as stream,
        context.wrap_socket(stream) as channel,
    ):
        return bool(channel.recv(1))


@pytest.mark.parametrize("attempt", [_in_the_clear, _without_certificate])
def test_a_process_without_the_key_is_not_answered(pool: Pool, attempt: Callable[[int], bool]):
    for port in {int(address.partition(":")[2], 16) for p in pool.processes[:5]
                 for address in listening(p.pid)}:  # fmt: skip
        try:
            assert not attempt(port)
        except OSError:
            continue


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_cannot_read_the_key(pool: Pool):
    key = private_path(KEY_NAME)
    assert key is not None
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            key.read_bytes()
        except PermissionError:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_another_machine_needs_a_copy_of_the_key(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    # A documentation address (RFC 5737), which no machine has.
    with pytest.raises(InputError, match="there is no key"):
        PoolMeasurer("192.0.2.1:8786", TWO)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1", "http://127.0.0.1:80", "[::1", ""])
def test_malformed_addresses_are_refused(address: str):
    with pytest.raises(InputError, match="not the address of a scheduler"):
        check_address(address)


def test_some_certificates_without_the_others_are_refused(tmp_path):
    with pytest.raises(InputError, match="TLS needs three files"):
        Certificates("a").or_own(make=False)
    with pytest.raises(InputError, match="no file 'a'"):
        Certificates("a", "b", "c").or_own(make=False)
    text = tmp_path / "text.pem"
    text.write_text("text")
    with pytest.raises(InputError, match="not a certificate"):
        Certificates(str(text), str(text), str(text)).security("worker")


def test_a_pool_tries_nothing_again_by_itself():
    assert CONFIGURATION["distributed.scheduler.allowed-failures"] == 0
    assert CONFIGURATION["distributed.scheduler.no-workers-timeout"]


@pytest.mark.nightly
def test_no_record_is_lost_or_doubled_where_workers_die(pool: Pool, tmp_path: Path):
    task, setting = planted_task(), Setting({"pool": 1}, "version", run="pool")
    names = ["hang", "good", "hang", "slow", "crash", "wrong", "good", "very slow"]
    wanted = {
        "hang": RUN_TIMEOUT, "good": OK, "slow": OK, "crash": CRASH, "wrong": WRONG,
        "very slow": OK,
    }  # fmt: skip
    seen: list[str] = []
    with Store(tmp_path / "records.db") as store, measurer_for(pool, TWO) as measurer:
        assert len(measurer.workers()) == 2
        killer = kill_when_busy(measurer, 1)

        def keep(candidate: Candidate, outcome: object) -> None:
            trial = trial_of(candidate, outcome, setting, len(seen))  # pyright: ignore
            assert store.add(task, [trial], setting)
            seen.append(candidate.rule)

        candidates = [Candidate(task, rule=n, choice={"n": i}) for i, n in enumerate(names)]
        outcomes = measurer.measure(candidates, done=keep)
        killer.join()
        assert len(measurer.workers()) == 1
        assert [o.status for o in outcomes] == [wanted[n] for n in names]
        assert sorted(seen) == sorted(names)
        kept = store.trials()
        assert len(kept) == len(names)
        assert sorted(t.choice["n"] for t in kept) == list(range(len(names)))
        assert min(kept, key=lambda trial: trial.ratio).rule == "good"


@pytest.mark.nightly
def test_where_all_workers_die_every_candidate_ends_as_lost(pool: Pool):
    task = planted_task()
    with measurer_for(pool, ONE) as measurer:
        killer = kill_when_busy(measurer, 1)
        outcomes = measurer.measure([Candidate(task, rule="hang"), Candidate(task, rule="good")])
        killer.join()
        assert [o.status for o in outcomes] == [LOST, LOST]
        assert "KilledWorker" in outcomes[0].error
    # Another worker takes over; earlier measurements are kept.
    pool._ready([pool.start_worker(ONE)])  # pyright: ignore
    with measurer_for(pool, ONE) as measurer:
        assert measurer.measure([Candidate(task, rule="good")])[0].status == OK
