"""`tcopt.tune`: search for schedules of a model that make it faster, and keep them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tcopt.compiler.fingerprint import fingerprint
from tcopt.compiler.options import CompileOptions
from tcopt.compiler.tuned import lock_beside
from tcopt.frontends.onnx.model.options import Source
from tcopt.runtime import Model
from tcopt.runtime.random_inputs import input_values
from tcopt.support.errors import InputError
from tcopt.tuner.arms import arms_of
from tcopt.tuner.forecast import Prior
from tcopt.tuner.lock import TunedKernel, TunedOperator
from tcopt.tuner.measure.least_times import amounts_of, least_ns
from tcopt.tuner.measure.measurer import Measurer
from tcopt.tuner.measure.simulated import is_simulated, with_simulated_times
from tcopt.tuner.past import Past
from tcopt.tuner.records.store import StoreError
from tcopt.tuner.scheduler import Progress
from tcopt.tuner.session import Callback, Session, SessionSettings
from tcopt.tuner.settings import PoolPlace, TuneSettings, make_measurer
from tcopt.tuner.task_search import SearchTrial, Strategy, TaskSearch
from tcopt.tuner.tasks import Task, with_times
from tcopt.tuner.whole_models.acceptance import ROUNDS, Verdict
from tcopt.tuner.whole_models.graph_search import GraphSearch, heavy_operators
from tcopt.tuner.whole_models.keeping import VariantKeeper
from tcopt.tuner.whole_models.variants import Variants

Array = NDArray[Any]

LEAST_SHARE = 0.005
"""Kernels with a smaller part of a run are not tuned."""

RESERVED = 0.1
"""Part of the time reserved for measuring the best schedules again, and comparing models."""

MOST_RESERVED_S = 60.0


@dataclass(frozen=True)
class Tuning:
    """The result of tuning.

    Attributes:
        path: the lock file, if one was written.
        verdict: comparison of the tuned model; None if no faster schedule was found.
        kernels: results of the kernels in the lock file, largest gain first.
        ended: why the search ended.
        trials, seconds: number of trials, and total time.
        left_out: number of improved kernels that are not in the lock file.
    """

    path: Path | None
    verdict: Verdict | None
    kernels: tuple[TunedKernel, ...]
    ended: str
    trials: int
    seconds: float
    left_out: int = 0

    @property
    def accepted(self) -> bool:
        """Whether the model is faster than before, so that its lock file was written."""
        return self.path is not None


def tune(
    source: Source,
    target: str = "cpu",
    *,
    seconds: float = 600.0,
    trials: int | None = None,
    db: str | None = None,
    pool: PoolPlace | None = None,
    output: str | Path | None = None,
    callback: Callback | None = None,
    threads: int | None = None,
    seed: int = 0,
    strategy: str = Strategy.MODEL.value,
    rounds: int = ROUNDS,
    graph: float | None = None,
    settings: SessionSettings | None = None,
    measurer: Measurer | None = None,
    progress: Callable[[str], object] | None = None,
    feeds: Mapping[str, Array] | None = None,
    **options: Any,
) -> Tuning:
    """Search for faster schedules of a model's kernels, and keep them if the model is faster.

    Measurements are recorded at once, and reused when this or a similar model is tuned again. At
    the end the tuned and the untuned model are timed interleaved, and the lock file is written only
    if the tuned one is significantly faster and its outputs are equal within tolerance.
    `tcopt.compile` reads the file if it is next to the model.

    Kernels on an accelerator with a simulator are measured and compared by its exact cycle counts.

    Args:
        source: an ONNX file, its bytes, or a decoded model.
        target: what to compile for.
        seconds: how long to search.
        trials: maximum number of schedules to measure.
        db: the URL of the records, by default the user's file.
        pool: a pool of machines that measure kernels; by default this machine does. Models are
            still compared on this machine, which should be of the same kind.
        output: the lock file; by default `model.tuned.mlir` next to `model.onnx`.
        callback: called with a `tcopt.tuner.session.SessionState` after each round; a true result
            ends the search.
        threads: number of threads of kernels, by default all.
        seed: of the search.
        strategy: how schedules are ranked: by a learned `model`, or for comparison by `estimate` or
            `random`.
        rounds: number of interleaved rounds of the comparison at the end.
        graph: the part of the time for choices about operators of the graph; by default a fifth, or
            none if the number of schedules is limited, another machine measures, or the target is
            an accelerator.
        measurer: replaces the default measurer.
        progress: called with progress messages.
        feeds: values of some inputs; others are random. They are used to compare models; kernels
            are measured on generated values.
        options: more keyword arguments of `tcopt.compile`: shapes, dims, accuracy ...
    Raises:
        TcoptError: the model cannot be compiled, or there is nothing to tune.
    """
    known: dict[str, Any] = {"threads": threads, "progress": progress, "feeds": feeds}
    given = TuneSettings(
        seconds=seconds,
        trials=trials,
        db=db,
        pool=pool,
        output=output,
        callback=callback,
        seed=seed,
        strategy=strategy,
        rounds=rounds,
        graph=graph,
        session=settings,
        measurer=measurer,
        **{name: value for name, value in known.items() if value is not None},
    )
    return tune_with(source, CompileOptions.of(source, target, tuned=False, **options), given)


def tune_with(source: Source, options: CompileOptions, settings: TuneSettings) -> Tuning:
    """Tune a model with the given options and settings; see `tune`."""
    path = _lock_path(source, settings.output)
    return _Tuner(Variants(source, options, settings.threads), settings, path).run()


def _lock_path(source: Source, output: str | Path | None) -> Path:
    if output is not None:
        return Path(output)
    if isinstance(source, (str, Path)):
        return lock_beside(source)
    raise InputError(
        "the path of the lock file is missing for a model without a file", hint="use output="
    )


class _Tuner:
    """State of one run of `tune`."""

    def __init__(self, variants: Variants, settings: TuneSettings, path: Path):
        self._variants, self._settings, self._path = variants, settings, path
        self._report = settings.progress
        self._threads = settings.threads
        self._start = time.perf_counter()
        self._operators: Sequence[TunedOperator] = ()
        self._interrupted, self._graph_s = False, 0.0

    def run(self) -> Tuning:
        """Search, compare the models, and write the lock file."""
        settings = self._settings
        untuned = self._variants.untuned()
        feeds = input_values(untuned, settings.feeds, settings.seed)
        keeper = VariantKeeper(self._variants, untuned, feeds, settings.rounds, self._path)
        start = time.perf_counter()
        self._operators = self._search_graph(keeper)
        self._graph_s = time.perf_counter() - start
        base = self._variants.with_operators(self._operators) if self._operators else untuned
        measurer = settings.measurer or make_measurer(self._threads, settings.pool)
        try:
            tasks, rest_ns = self._tasks(base, feeds, measurer)
            machine = getattr(measurer, "machine", None)
            past = Past.open(settings.db, self._threads, self._run_name, machine)
            try:
                session = self._session(tasks, rest_ns, past, measurer)
                if self._interrupted:
                    session.ended = "interrupted"
                else:
                    session.run(self._search_seconds, settings.trials, settings.callback)
                found = session.confirm()
            finally:
                self._close(past)
        finally:
            if settings.measurer is None:
                measurer.close()
        kept = keeper.keep([_kernel(session, *each) for each in found], self._operators)
        seconds = time.perf_counter() - self._start
        return Tuning(
            kept.path,
            kept.verdict,
            kept.kernels,
            session.ended,
            session.trials,
            seconds,
            kept.left_out,
        )

    def _search_graph(self, keeper: VariantKeeper) -> list[TunedOperator]:
        """Search choices about operators that make the model faster."""
        share = self._settings.graph_share(self._variants.options.target)
        if share <= 0:
            return []
        operators, variants = self._variants.operators(), self._variants
        timed = with_times(variants.tasks(), keeper.untuned.profile(keeper.feeds))
        search = GraphSearch(
            lambda chosen: frozenset(task.key for task in variants.tasks(chosen)),
            keeper.judge_operators,
            self._report,
        )
        chosen = search.run(heavy_operators(operators, timed), share * self._settings.seconds)
        self._interrupted = search.interrupted
        if search.trials:
            self._report(f"{len(search.trials)} choices about the graph tried, {len(chosen)} kept")
        return chosen

    def _close(self, past: Past) -> None:
        """Write pending records; if that fails, the tuning result is still used."""
        try:
            past.store.close()
        except StoreError as error:
            self._report(str(error))

    @property
    def _run_name(self) -> str:
        """Unique name of the session, which begins with its strategy."""
        return f"{self._settings.strategy}-{uuid.uuid4().hex[:24]}"

    @property
    def _search_seconds(self) -> float:
        """Remaining time for kernels in seconds."""
        seconds = self._settings.seconds
        left = seconds - min(RESERVED * seconds, MOST_RESERVED_S) - self._graph_s
        return max(left, 0.0)

    def _tasks(
        self, model: Model, feeds: Mapping[str, Array], measurer: Measurer
    ) -> tuple[list[Task], float]:
        """Return the kernels worth tuning, the longest first, and the time of the others."""
        found = self._variants.tasks(self._operators)
        timed = with_times(found, model.profile(feeds))
        timed = with_simulated_times(timed, measurer)
        total = sum(task.weight for task in timed) or 1.0
        chosen = [task for task in timed if task.weight >= LEAST_SHARE * total]
        if not chosen:
            raise InputError("the model has no kernel that could be tuned")
        weight = sum(task.weight for task in chosen)
        self._report(
            f"{len(timed)} kernels, {len(chosen)} worth tuning "
            f"({100 * weight / total:.0f} % of {total / 1e6:.3g} ms)"
        )
        return chosen, total - weight

    def _session(
        self, tasks: Sequence[Task], rest_ns: float, past: Past, measurer: Measurer
    ) -> Session:
        searches: list[tuple[Task, TaskSearch]] = []
        known = 0
        for task in tasks:
            arms = arms_of(task)
            if sum(arm.space.size for arm in arms) < 2:
                rest_ns += task.weight
                continue
            search = TaskSearch(
                task.key,
                arms,
                Progress(task.weight, 0, self._floor(task)),
                Strategy(self._settings.strategy),
                past.machine_of(task),
                self._settings.seed,
                winners=past.winners(task),
            )
            earlier = past.trials(task)
            for trials, seconds in earlier:
                search.add(trials, seconds)
            known += sum(len(trials) for trials, _ in earlier)
            searches.append((task, search))
        if not searches:
            raise InputError("no rule has any choice for the kernels of this model")
        if known:
            self._report(f"found {known} records of these kernels")
        return Session(
            searches,
            measurer,
            rest_ns=rest_ns,
            keeper=past,
            others=past.groups([task for task, _ in searches]),
            settings=self._with_prior(past.prior(tasks)),
        )

    def _with_prior(self, prior: Prior) -> SessionSettings:
        """Return the session settings, with a prior from records unless one is given."""
        given = self._settings.session or SessionSettings(seed=self._settings.seed)
        return replace(given, prior=prior) if given.prior == Prior() else given

    def _floor(self, task: Task) -> float:
        """Return the lower bound of a kernel's time ratio by machine limits; 0 if unknown."""
        if self._settings.pool is not None or not task.ns or is_simulated(task):
            return 0.0
        return min(least_ns(amounts_of(task), self._threads) / task.ns, 1.0)


def _kernel(session: Session, task: Task, trial: SearchTrial) -> TunedKernel:
    """Return the tuning result of a task."""
    search = next(search for each, search in session.tasks if each is task)
    default = search.default
    return TunedKernel(
        task,
        trial.sequence,
        "" if default is None else default.sequence,
        trial.ns,
        trial.ns / trial.ratio,
        1 / trial.high,
        1 / trial.low,
        fingerprint(),
    )
