"""A pool on this machine: a scheduler and three workers of two labels, some of which are killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from searches.planted_kernels import PlantedBuilder, planted_task
from tcopt.support.errors import InputError, TcoptError
from tcopt.tuner.candidates import Candidate
from tcopt.tuner.measure.measurer import MeasureSettings
from tcopt.tuner.measure.outcomes import CRASH, LOST, OK, RUN_TIMEOUT, WRONG
from tcopt.tuner.measure.runner import Limits
from tcopt.tuner.measure.turns import TurnSettings
from tcopt.tuner.pool.measurer import PoolMeasurer
from tcopt.tuner.pool.security import Certificates, check_address, check_host
from tcopt.tuner.pool.serve import CONFIGURATION
from tcopt.tuner.records.store import Store
from tcopt.tuner.records.trials import Setting, trial_of

TWO, ONE = "cpu:two", "cpu:one"
SETTINGS = MeasureSettings(
    threads=1,
    limits=Limits(least=0.6),
    turns=TurnSettings(fewest=2, most=3, noise=9.0),
)


class Pool:
    """The processes of a pool."""

    def __init__(self, folder: Path, certificates: Certificates):
        self.certificates = certificates
        self.processes: list[subprocess.Popen[str]] = []
        (self.address,) = self._ready([self._start("scheduler", "--port", "0")])
        self._ready([self.start_worker(label) for label in (TWO, TWO, ONE)])

    def start_worker(self, label: str) -> subprocess.Popen[str]:
        return self._start(
            "worker", self.address, "--label", label, "--threads", "1", "--no-restart"
        )

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        c, tls = self.certificates, list[str]()
        if c:
            tls = ["--tls-ca", c.authority, "--tls-cert", c.certificate, "--tls-key", c.key]
        command = [sys.executable, "-m", "tcopt.tools.tcopt_pool", *arguments, *tls]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.processes.append(process)
        return process

    @staticmethod
    def _ready(processes: list[subprocess.Popen[str]]) -> list[str]:
        found: list[str] = []
        for process in processes:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("ready at "), line
            found.append(line.removeprefix("ready at ").strip())
        return found

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


def make_certificates(folder: Path) -> Certificates:
    """Of an authority of its own; none where there is no openssl."""
    if shutil.which("openssl") is None:
        return Certificates()
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    command += ["-subj", "/CN=pool", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return Certificates(str(certificate), str(certificate), str(key))


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Generator[Pool]:
    folder = tmp_path_factory.mktemp("pool")
    pool = Pool(folder, make_certificates(folder))
    yield pool
    pool.stop()


def measurer_for(pool: Pool, label: str) -> PoolMeasurer:
    return PoolMeasurer(pool.address, label, SETTINGS, pool.certificates, PlantedBuilder())


def kill_when_busy(measurer: PoolMeasurer, count: int) -> threading.Thread:
    """End so many workers of the label, each while it measures."""

    def kill() -> None:
        end, client = time.monotonic() + 20, measurer._client  # pyright: ignore
        while time.monotonic() < end:
            working = client.call_stack()
            if len(working) >= count:
                break
            time.sleep(0.05)
        time.sleep(0.3)
        # Asked for now: a worker that has ended since may have left its number to another process.
        for facts in list(measurer.workers().values())[:count]:
            os.kill(facts["pid"], signal.SIGKILL)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    return thread


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


def test_where_all_workers_die_every_candidate_ends_as_lost(pool: Pool):
    task = planted_task()
    with measurer_for(pool, ONE) as measurer:
        killer = kill_when_busy(measurer, 1)
        outcomes = measurer.measure([Candidate(task, rule="hang"), Candidate(task, rule="good")])
        killer.join()
        assert [o.status for o in outcomes] == [LOST, LOST]
        assert "KilledWorker" in outcomes[0].error
    # Another takes its place; what was measured before stays as it was.
    pool._ready([pool.start_worker(ONE)])  # pyright: ignore
    with measurer_for(pool, ONE) as measurer:
        assert measurer.measure([Candidate(task, rule="good")])[0].status == OK


def test_a_label_that_nobody_has_is_told_at_once(pool: Pool):
    with pytest.raises(InputError, match="no worker of the pool has the label 'cuda:sm_90'"):
        measurer_for(pool, "cuda:sm_90")


def test_who_has_no_certificate_is_not_let_in(pool: Pool):
    if not pool.certificates:
        pytest.skip("there is no openssl to make certificates with")
    with pytest.raises(InputError, match="needs certificates"):
        PoolMeasurer(pool.address, TWO)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.7", "pool.example", "::"])
def test_beyond_this_machine_there_have_to_be_certificates(host: str):
    with pytest.raises(InputError, match="whoever reaches a pool can run code"):
        check_host(host, Certificates())
    check_host(host, Certificates("a", "b", "c"))


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1", "http://127.0.0.1:80", "[::1", ""])
def test_addresses_that_are_none_are_told(address: str):
    with pytest.raises(InputError, match="not an address of a scheduler"):
        check_address(address, Certificates())


def test_half_of_the_certificates_are_none():
    with pytest.raises(TcoptError, match="TLS needs three files"):
        check_address("localhost:1", Certificates("a"))
    with pytest.raises(InputError, match="no file 'a'"):
        check_address("localhost:1", Certificates("a", "b", "c"))


def test_a_pool_tries_nothing_again_by_itself():
    assert CONFIGURATION["distributed.scheduler.allowed-failures"] == 0
    assert CONFIGURATION["distributed.scheduler.no-workers-timeout"]
