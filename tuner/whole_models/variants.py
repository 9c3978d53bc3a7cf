"""A model compiled with different choices about its operators and kernels."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tcopt.compiler.entry import compile_with
from tcopt.compiler.options import CompileOptions
from tcopt.compiler.tuned import SUFFIX, find_lock
from tcopt.frontends.onnx.model.options import Source
from tcopt.runtime import Model
from tcopt.tuner.lock import LockWriter, TunedOperator
from tcopt.tuner.operators import Operator, operators_of
from tcopt.tuner.tasks import Task, tasks_of


class Variants:
    """Compile one model with different choices.

    Args:
        options: options of the untuned model.
        threads: number of threads of kernels.
    """

    def __init__(self, source: Source, options: CompileOptions, threads: int):
        self.source, self.options, self.threads = source, options, threads

    def untuned(self) -> Model:
        """Return the model compiled without tuning choices."""
        return self._compile(self.options)

    def with_lock(self, writer: LockWriter) -> Model:
        """Return the model with the choices of a lock file."""
        with self._locked(writer) as options:
            return self._compile(options)

    def with_operators(self, chosen: Sequence[TunedOperator]) -> Model:
        """Return the model with choices about operators, and default schedules."""
        return self.with_lock(_of_operators(chosen))

    def operators(self) -> list[Operator]:
        """Return the operators for which graph passes have choices."""
        return operators_of(self.source, self.options)

    def tasks(self, chosen: Sequence[TunedOperator] = ()) -> list[Task]:
        """Return the kernels of the model with choices about operators."""
        if not chosen:
            return tasks_of(self.source, self.options)
        with self._locked(_of_operators(chosen)) as options:
            return tasks_of(self.source, options)

    def _compile(self, options: CompileOptions) -> Model:
        model = compile_with(self.source, options)
        model.threads = self.threads
        return model

    @contextmanager
    def _locked(self, writer: LockWriter) -> Generator[CompileOptions]:
        """Provide the options with a lock file, which exists in the context."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / f"model{SUFFIX}"
            writer.write(path)
            yield replace(self.options, lock=find_lock(self.source, path))


def _of_operators(chosen: Sequence[TunedOperator]) -> LockWriter:
    writer = LockWriter()
    for each in chosen:
        writer.add_operator(each)
    return writer
