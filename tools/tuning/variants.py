"""A model compiled with different choices about its operators and kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tcopt
from tcopt.compiler.content import Source
from tcopt.compiler.pipeline import pipeline
from tcopt.compiler.tuned import SUFFIX, find_lock, with_lock
from tcopt.runtime import Model
from tcopt.tuner.lock import LockWriter, TunedOperator
from tcopt.tuner.operators import Operator, operators_of
from tcopt.tuner.tasks import Task, tasks_of

_KERNELS_DEPEND_ON = ("shapes", "values", "dims", "accuracy", "precision")
_PIPELINES_DEPEND_ON = ("accuracy", "precision")


class Variants:
    """Compile one model with different choices.

    Args:
        options: more keyword arguments of `tcopt.compile`.
        threads: number of threads of kernels.
    """

    def __init__(self, source: Source, target: str, options: Mapping[str, Any], threads: int):
        self.source, self.target, self.options = source, target, dict(options)
        self.threads = threads

    def untuned(self) -> Model:
        """Return the model compiled without tuning choices."""
        return self._compile(tuned=False)

    def with_lock(self, writer: LockWriter) -> Model:
        """Return the model with the choices of a lock file."""
        with TemporaryDirectory() as folder:
            return self._compile(tuned=_written(writer, folder))

    def with_operators(self, chosen: Sequence[TunedOperator]) -> Model:
        """Return the model with choices about operators, and default schedules."""
        return self.with_lock(_of_operators(chosen))

    def operators(self) -> list[Operator]:
        """Return the operators for which graph passes have choices."""
        return operators_of(self.source, self.target, **_known(self.options))

    def tasks(self, chosen: Sequence[TunedOperator] = ()) -> list[Task]:
        """Return the kernels of the model with choices about operators."""
        if not chosen:
            return tasks_for(self.source, self.target, self.options)
        given = {n: self.options[n] for n in _PIPELINES_DEPEND_ON if self.options.get(n)}
        with TemporaryDirectory() as folder:
            lock = find_lock(self.source, _written(_of_operators(chosen), folder))
            phases = with_lock(pipeline(self.target, **given), lock)
            return tasks_of(self.source, self.target, phases=phases, **_known(self.options))

    def _compile(self, tuned: bool | Path) -> Model:
        model = tcopt.compile(self.source, self.target, tuned=tuned, **self.options)
        model.threads = self.threads
        return model


def _of_operators(chosen: Sequence[TunedOperator]) -> LockWriter:
    writer = LockWriter()
    for each in chosen:
        writer.add_operator(each)
    return writer


def _written(writer: LockWriter, folder: str) -> Path:
    path = Path(folder) / f"model{SUFFIX}"
    writer.write(path)
    return path


def tasks_for(source: Source, target: str, options: Mapping[str, Any]) -> list[Task]:
    """Return the kernels of a model, compiled with the given options of `tcopt.compile`."""
    return tasks_of(source, target, **_known(options))


def _known(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `tcopt.compile` that affect kernels."""
    return {n: options[n] for n in _KERNELS_DEPEND_ON if n in options}
