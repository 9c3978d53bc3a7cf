"""Commands of `tcopt-tune` that do not search: show results and records, and plot them."""

from __future__ import annotations

import argparse
from pathlib import Path

from tcopt.compiler.options import CompileOptions
from tcopt.compiler.tuned import lock_beside
from tcopt.schedules.tuning.lock_file import read_lock
from tcopt.support.errors import InputError
from tcopt.tools.command_line.inputs import read_arrays
from tcopt.tools.command_line.text_tables import render
from tcopt.tools.compiling import options_of
from tcopt.tools.tuning.explain import explain_lock
from tcopt.tools.tuning.histories import Recorded, agreement, curves, guesses, recorded
from tcopt.tools.tuning.live import microseconds
from tcopt.tools.tuning.plots import KernelTimes, draw_curves, draw_guesses, draw_layers
from tcopt.tuner.past import Past
from tcopt.tuner.pool.security import Certificates
from tcopt.tuner.records.exchange import export_records, import_records
from tcopt.tuner.records.store import Store
from tcopt.tuner.records.verify import Verified, verify_records
from tcopt.tuner.settings import PoolPlace, make_measurer
from tcopt.tuner.tasks import Task, tasks_of

_DATABASES = (".db", ".sqlite", ".sqlite3")


def pool_place(args: argparse.Namespace) -> PoolPlace | None:
    """Return the pool given by options, if any.

    Raises:
        InputError: the label or the pool is missing.
    """
    if args.pool is None:
        if args.label:
            raise InputError("--label selects devices of a pool", hint="name the pool with --pool")
        return None
    if not args.label:
        raise InputError("a pool has devices of several kinds", hint="select one with --label")
    return PoolPlace(args.pool, args.label, Certificates(args.tls_ca, args.tls_cert, args.tls_key))


def tasks_for(args: argparse.Namespace) -> list[Task]:
    """Return the kernels of a model, compiled with the options of a command line."""
    return tasks_of(args.model, model_options(args))


def model_options(args: argparse.Namespace) -> CompileOptions:
    """Return the options of a compile of a model to tune.

    Raises:
        InputError: the model does not exist.
    """
    if not Path(args.model).is_file():
        raise InputError(f"there is no file '{args.model}'")
    return options_of(args, feeds=read_arrays(args.input))


def show(args: argparse.Namespace) -> int:
    """Show the entries of a model's lock file, and the records of its kernels."""
    tasks = tasks_for(args)
    path = Path(args.lock) if args.lock else lock_beside(args.model)
    if path.is_file():
        print(f"{path}:")
        for kernel in explain_lock(read_lock(path), tasks):
            print(kernel.text(with_steps=args.steps))
    else:
        print(f"there is no lock file '{path}'")
    with Store(args.db) as store:
        print(_records_table(recorded(store, tasks)))
    return 0


def _records_table(kernels: list[Recorded]) -> str:
    from rich.table import Table

    if not kernels:
        return "nothing is recorded of its kernels for this target"
    table = Table(box=None, pad_edge=False)
    for title in ("kernel", "trials", "default", "best", "gain", "rule", "choice", "failed"):
        table.add_column(title, no_wrap=title not in ("choice", "failed"), overflow="fold")
    for kernel in kernels:
        best = kernel.best
        failed = ", ".join(f"{n} {status}" for status, n in sorted(kernel.failures.items()))
        cells = ["", "", "", "", ""]
        if best is not None and best.median_ns and best.default_ns:
            choice = " ".join(f"{name}={value}" for name, value in best.choice.items())
            cells = [
                microseconds(best.default_ns),
                microseconds(best.default_ns * best.ratio),
                f"{1 / best.ratio:.2f}x",
                best.rule,
                choice,
            ]
        table.add_row(kernel.task.name[:40], str(len(kernel.trials)), *cells, failed)
    return render(table)


def plot(args: argparse.Namespace) -> int:
    """Plot records of a model: `curves`, `layers` and `guesses`."""
    tasks = tasks_for(args)
    with Store(args.db) as store:
        kernels = recorded(store, tasks)
    if not kernels:
        raise InputError(
            "nothing is recorded of this model's kernels for this target",
            hint="tune the model, or name the records: --db",
        )
    folder = Path(args.output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder '{folder}': {error.strerror}") from error
    kernels.sort(key=lambda kernel: -len(kernel.trials))
    shown = {f"{k.task.name} ({k.task.key[:6]})": curves(k) for k in kernels[: args.kernels]}
    suffix = f".{args.format}"
    draw_curves({name: own for name, own in shown.items() if own}, folder / f"curves{suffix}")
    draw_layers(_layers(kernels), folder / f"layers{suffix}")
    judged = [guess for kernel in kernels[: args.kernels] for guess in guesses(kernel)]
    draw_guesses(judged, folder / f"guesses{suffix}")
    print(f"{folder}: curves{suffix}, layers{suffix}, guesses{suffix}")
    if judged:
        print(f"{len(judged)} predictions, ranks agree to {100 * agreement(judged):.0f} %")
        for guess in sorted(judged, key=lambda each: -each.error)[:5]:
            print(f"  predicted {guess.guessed:.2f}, measured {guess.found:.2f}: {guess.name}")
    return 0


def _layers(kernels: list[Recorded]) -> list[KernelTimes]:
    found: list[KernelTimes] = []
    for kernel in kernels:
        best = kernel.best
        if best is not None and best.default_ns:
            before = kernel.task.calls * best.default_ns / 1e3
            found.append(KernelTimes(kernel.task.name[:40], before, before * min(best.ratio, 1.0)))
    return sorted(found, key=lambda layer: -layer.before_us)


def export(args: argparse.Namespace) -> int:
    """Export records as lines of JSON: all, or those of a model's kernels."""
    with Store(args.db) as store:
        trials = None
        if args.model:
            keys = [task.key for task in tasks_for(args)]
            trials = store.trials(workloads=keys)
        count = export_records(store, args.output, trials)
    print(f"{args.output}: {count} trials")
    return 0


def merge(args: argparse.Namespace) -> int:
    """Add records from files or databases."""
    with Store(args.db) as store:
        for source in args.sources:
            if "://" in source or source.endswith(_DATABASES):
                if "://" not in source and not Path(source).is_file():
                    raise InputError(f"there is no file '{source}'")
                with Store(source) as other:
                    print(f"{source}: {store.merge(other)} new trials")
                continue
            found = import_records(store, source)
            print(f"{source}: {found.new} new trials, {found.known} known")
            for refused in found.refused:
                print(f"  refused: {refused}")
    return 0


def verify(args: argparse.Namespace) -> int:
    """Measure the best recorded schedules of a model on this machine."""
    from tcopt.support.processes.cores import default_threads

    tasks = tasks_for(args)
    threads = args.threads or default_threads()
    measurer = make_measurer(threads, pool_place(args))
    try:
        machine = getattr(measurer, "machine", None)
        with Past.open(args.db, threads, "verify", machine) as past:
            found = verify_records(
                past.store, tasks, measurer, past.setting_of, count=args.count, done=_report
            )
    finally:
        measurer.close()
    faster = sum(each.outcome.ratio < 1 for each in found)
    print(f"{len(found)} schedules measured, {faster} faster here than the default")
    return 0


def _report(each: Verified) -> None:
    outcome = each.outcome
    said = f"{1 / each.trial.ratio:.2f}x" if 0 < each.trial.ratio < float("inf") else "unknown"
    here = f"{1 / outcome.ratio:.2f}x" if outcome.ratio < float("inf") else outcome.status
    print(f"{each.task.name}: {here} here, {said} where it was recorded")
