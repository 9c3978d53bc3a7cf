"""Measurement in a pool: as on one machine, but on all devices with a label at once.

A batch belongs to one worker at a time. If the worker dies, the batch is given to another one, up
to `TRIES` times. All outcomes of a batch come from one worker, so there are no duplicates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tcopt.compiler.fingerprint import fingerprint
from tcopt.support.errors import BackendError, InputError
from tcopt.support.processes.messages import pack, unpack
from tcopt.tuner.candidates import Candidate
from tcopt.tuner.measure.builders import (
    Builder,
    Built,
    LocalBuilders,
    reference_from,
    reference_request,
    request_of,
)
from tcopt.tuner.measure.least_times import amounts_of
from tcopt.tuner.measure.measurer import BatchMeasurer, Known, MeasureSettings
from tcopt.tuner.measure.outcomes import LOST, CandidateFailed, Outcome
from tcopt.tuner.measure.reference import Reference
from tcopt.tuner.measure.workload import Code, Workload
from tcopt.tuner.pool import remote
from tcopt.tuner.pool.security import Certificates, check_address, dask_distributed, is_here
from tcopt.tuner.pool.serve import BUILD, check_label, configure
from tcopt.tuner.tasks import Task

TRIES = 3
"""Number of workers that may die while they run a batch."""

_CONNECT_S = 30.0
_SPARE_S = 120.0
_EACH_S = 30.0
"""Time limit of a batch, and of each candidate in it, after which its worker counts as dead."""

_REFERENCE_S = 900.0


class _Tasks:
    """Run functions in the pool, and again if a worker dies."""

    def __init__(self, client: Any):
        self.client = client

    def run(
        self,
        function: Callable[..., bytes],
        calls: Sequence[tuple[Any, ...]],
        label: str,
        limits: Sequence[float],
        done: Callable[[int], None] | None = None,
    ) -> list[bytes | CandidateFailed]:
        """Run calls, each on one worker with a label; return their results, or the last failure.

        Args:
            limits: seconds for each call, not counting the wait for a worker.
            done: called with the number of each call that is done.
        """
        found: dict[int, bytes | CandidateFailed] = {}
        tries = dict.fromkeys(range(len(calls)), 0)
        waiting = {self._submit(function, calls[n], label): n for n in tries}
        patience = max(limits, default=0.0) * (1 + len(calls) // max(self.count(label), 1))
        while waiting:
            for future, result in self._next(list(waiting), patience):
                number = waiting.pop(future)
                tries[number] += 1
                again = isinstance(result, CandidateFailed) and tries[number] < TRIES
                if again and self.count(label):
                    waiting[self._submit(function, calls[number], label)] = number
                    continue
                found[number] = result
                if done is not None:
                    done(number)
        return [found[number] for number in range(len(calls))]

    def count(self, label: str) -> int:
        """Return the number of workers with a label."""
        return len(self.workers(label))

    def workers(self, label: str) -> list[str]:
        """Return the addresses of the workers with a label."""
        found: Mapping[str, Any] = self.client.scheduler_info(n_workers=-1)["workers"]
        return [a for a, facts in found.items() if label in (facts.get("resources") or {})]

    def _submit(self, function: Callable[..., bytes], call: tuple[Any, ...], label: str) -> Any:
        return self.client.submit(function, *call, resources={label: 1}, retries=0, pure=False)

    def _next(
        self, waiting: list[Any], patience: float
    ) -> list[tuple[Any, bytes | CandidateFailed]]:
        """Return futures that are done, with their results; after the time limit, all as failed."""
        package = dask_distributed()
        try:
            with self.client.as_current():
                package.wait(waiting, timeout=patience, return_when="FIRST_COMPLETED")
        except TimeoutError:
            self.client.cancel(waiting, force=True)
            text = f"no worker answered within {patience:.0f} s"
            return [(future, CandidateFailed(LOST, text)) for future in waiting]
        return [(future, _result(future)) for future in waiting if future.done()]


def _result(future: Any) -> bytes | CandidateFailed:
    if future.status == "finished":
        return future.result()
    if future.status == "cancelled":
        return CandidateFailed(LOST, "the scheduler lost the task")
    error = future.exception()
    text = next(iter(str(error).strip().splitlines()), "")
    return CandidateFailed(LOST, f"{type(error).__name__}: {text}")


class PoolBuilders:
    """Compile on the pool's workers with the label `build`."""

    def __init__(self, tasks: _Tasks):
        self._tasks = tasks

    def build(self, candidates: Sequence[Candidate], limit: float) -> list[Built]:
        """Return the code of each candidate, or its failure."""
        version = {"version": fingerprint()}
        calls = [(pack(request_of(each) | version), limit) for each in candidates]
        limits = [limit + _SPARE_S] * len(calls)
        return [_code(reply) for reply in self._tasks.run(remote.build, calls, BUILD, limits)]

    def reference(self, task: Task) -> Reference:
        """Return the reference results of a task."""
        request = reference_request(task)
        call = (pack(request | {"version": fingerprint()}),)
        (reply,) = self._tasks.run(remote.reference, [call], BUILD, [_REFERENCE_S])
        facts, parts = _opened(reply)
        return reference_from(facts, parts, request["arguments"])

    def stop(self) -> None:
        """Do nothing: workers are stopped where they run."""


def _code(reply: bytes | CandidateFailed) -> Built:
    try:
        _, parts = _opened(reply)
    except CandidateFailed as error:
        return error
    return Code.from_bytes(bytes(parts[0]))


def _opened(reply: bytes | CandidateFailed) -> tuple[dict[str, Any], list[memoryview]]:
    if isinstance(reply, CandidateFailed):
        raise reply
    facts, parts = unpack(reply)
    if "status" in facts:
        raise CandidateFailed(facts["status"], facts["message"])
    return facts, parts


class PoolMeasurer(BatchMeasurer):
    """Measure on the devices of a pool.

    Args:
        address: of the scheduler.
        label: of the workers to measure on.
        builders: by default the pool's own, or local processes if it has none.
    Raises:
        InputError: the address is malformed, no worker has the label, or workers with the label are
            different kinds of machine.
        BackendError: no scheduler answers there.
    """

    def __init__(
        self,
        address: str,
        label: str,
        settings: MeasureSettings | None = None,
        certificates: Certificates | None = None,
        builders: Builder | None = None,
    ):
        check_label(label)
        place, host = check_address(address)
        security = (certificates or Certificates()).or_own(make=is_here(host)).security("client")
        configure()
        self.label = label
        try:
            self._client: Any = dask_distributed().Client(
                place, security=security, timeout=_CONNECT_S, set_as_default=False
            )
        except (OSError, TimeoutError) as error:
            raise BackendError(
                f"no scheduler with this key answers at {place}: {error}",
                hint="start one: tcopt-pool scheduler; all machines need the same key file",
            ) from error
        self._tasks = _Tasks(self._client)
        self.machine: Mapping[str, Any] = self._same_machine()
        own = PoolBuilders(self._tasks) if self._tasks.count(BUILD) else LocalBuilders()
        super().__init__(settings or MeasureSettings(), builders or own)

    def close(self) -> None:
        """Leave the pool; its workers stay."""
        super().close()
        self._client.close()

    def workers(self) -> dict[str, dict[str, Any]]:
        """Return the facts of each worker with the label, by its address."""
        addresses = self._tasks.workers(self.label)
        return self._client.run(remote.facts, workers=addresses) if addresses else {}

    def _run(
        self,
        task: Task,
        known: Known,
        codes: Mapping[int, Code],
        others: Sequence[Code],
        tell: Callable[[int, Outcome], None],
    ) -> None:
        beside = [known.default, *others]
        batches = _shares(list(codes), self._tasks.count(self.label))
        messages = [
            self._message(task, known.workload, [*beside, *(codes[n] for n in batch)])
            for batch in batches
        ]
        limits = [_SPARE_S + _EACH_S * len(batch) for batch in batches]
        replies = self._tasks.run(remote.measure, [(m,) for m in messages], self.label, limits)
        for batch, reply in zip(batches, replies, strict=True):
            outcomes = _outcomes(reply, len(beside), [codes[n] for n in batch])
            for number, outcome in zip(batch, outcomes, strict=True):
                tell(number, outcome)

    def _message(self, task: Task, workload: Workload, codes: Sequence[Code]) -> bytes:
        settings = self.settings
        facts = {
            "kind": task.kind,
            "threads": settings.threads,
            "memory": settings.memory,
            "limits": asdict(settings.limits),
            "turns": asdict(settings.turns),
            "amounts": asdict(amounts_of(task)),
        }
        return pack(facts, [workload.to_bytes(), *(code.to_bytes() for code in codes)])

    def _same_machine(self) -> Mapping[str, Any]:
        """Return the facts of the label's machine, which must be the same for all workers."""
        found = self.workers()
        if not found:
            raise InputError(
                f"no worker of the pool has the label '{self.label}'",
                hint=f"tcopt-pool worker ADDRESS --label {self.label}",
            )
        machines = [each["machine"] for each in found.values()]
        for address, each in found.items():
            if each["machine"] != machines[0]:
                raise InputError(
                    f"label '{self.label}' is used by different machines, such as {address}",
                    hint="times are comparable only on equal machines: use separate labels",
                )
        return machines[0]


def _shares(numbers: Sequence[int], count: int) -> list[list[int]]:
    """Distribute the numbers of codes over workers, in nearly equal parts."""
    count = max(1, min(count, len(numbers)))
    return [list(numbers[start::count]) for start in range(count) if numbers[start::count]]


def _outcomes(reply: bytes | CandidateFailed, skipped: int, codes: Sequence[Code]) -> list[Outcome]:
    """Return the outcomes of a batch's own candidates, or the batch's failure for each."""
    if isinstance(reply, CandidateFailed):
        return [Outcome(reply.status, reply.message, code=code) for code in codes]
    given = unpack(reply)[0]["outcomes"][skipped:]
    return [remote.outcome_from(facts, code) for facts, code in zip(given, codes, strict=True)]
