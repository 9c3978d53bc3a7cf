"""`tcopt.compile`: load a program from the cache, or compile it.

Modules that are only needed to compile are imported lazily.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tcopt.compiler.content import Source
from tcopt.compiler.kernel_cache import KernelCache
from tcopt.compiler.pipeline import pipeline
from tcopt.compiler.program_cache import ProgramCache, ProgramEntry, StoredProgram
from tcopt.compiler.report import Progress, Report
from tcopt.compiler.source import ModelSource
from tcopt.compiler.tuned import Lock, Tuned, find_lock, with_lock
from tcopt.frontends.onnx.model.errors import MissingShapesError, MissingValuesError
from tcopt.frontends.onnx.model.limits import DEFAULT_LIMITS, Limits
from tcopt.runtime.defaults import Defaults
from tcopt.runtime.model import (
    PROGRAMS_KEPT,
    AnyProgram,
    Model,
    Specialization,
)
from tcopt.runtime.run_options import DeviceName
from tcopt.runtime.signature import Feed, flat_arrays, shape_of
from tcopt.runtime.specs import TensorSpec
from tcopt.runtime.staged import StagedProgram
from tcopt.support.accuracy import DEFAULT, PRECISE
from tcopt.support.counts import check_count
from tcopt.support.data.strings import is_text
from tcopt.support.errors import ResourceError
from tcopt.support.memo import clear_memos
from tcopt.support.pipelines.phases import Phase, pipeline_text, with_passes
from tcopt.support.placement import collect_placement_warnings, warn_of_placement
from tcopt.support.processes.collector import quiet_collector
from tcopt.support.registries.target_registry import find_target
from tcopt.support.remarks import collect_remarks

if TYPE_CHECKING:
    from onnx import ModelProto

    from tcopt.frontends.onnx.model.stage import Stage

Array = NDArray[Any]
Shapes = Mapping[str, Any]
"""Shapes by input name: for a sequence a list of shapes, for an absent optional None."""
Values = Mapping[str, Array]


def compile(
    source: Source,
    target: str = "cpu",
    *,
    device: DeviceName | None = None,
    accuracy: str = DEFAULT,
    precision: str = PRECISE,
    shapes: Shapes | None = None,
    values: Mapping[str, Array] | None = None,
    dims: Mapping[str, int] | None = None,
    programs_kept: int = PROGRAMS_KEPT,
    progress: Progress | None = None,
    cache: bool = True,
    workers: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    follow_links: bool = False,
    plugins: Iterable[str | Path] = (),
    passes: Mapping[str, str] | None = None,
    tuned: Tuned = True,
    locked: bool = False,
) -> Model:
    """Compile an ONNX model to native code.

    A model with open dimensions, or whose shapes depend on input values, is compiled at its first
    run for the shapes and values seen. Each new combination is compiled once and reused. The same
    holds for runs that override the default value of an input.

    Args:
        source: path of a file, its bytes, or a decoded model.
        target, accuracy, precision: see `tcopt.compiler.pipeline`.
        device: the device to run on, see `Model.device`. A target such as `cuda` is then the
            machine that this device is.
        shapes: shapes of inputs with open dimensions, to compile ahead of time: a list of shapes
            for a sequence, None for an absent optional. An input with a default value (an
            initializer) becomes an ordinary input if its shape is given.
        values: values of inputs that determine shapes, to specialise on ahead of time.
        dims: extents of open dimensions by their names in the model.
        programs_kept: maximum number of combinations kept in memory, see `Model.programs_kept`.
        progress: called before each step and at the end.
        cache: whether to use the disk cache of programs and kernels; see `compiler.program_cache`
            and `compiler.kernel_cache`.
        workers: number of processes that compile kernels in addition to this one. By default one
            for each other core, or the value of the environment variable `TCOPT_WORKERS`; none for
            a model that is small or whose kernels are all cached.
        limits: limits on the resources of a model, see `tcopt.frontends.onnx.model.limits`.
        follow_links: whether symbolic links of the model's external data may point outside its
            folder, as in local copies of model hubs. Their targets are read.
        plugins: files and modules that register targets, operators, passes and so on, see
            docs/plugins.md; they stay registered.
        passes: additional passes, as text, by position: `before:NAME`, `after:NAME` or
            `instead-of:NAME` of a pass or a phase of the pipeline.
        tuned: whether to use the schedules of the lock file next to the model, if there is one
            (`model.tuned.mlir` for `model.onnx`); or the path of a lock file.
        locked: whether every kernel must have an entry in the lock file, and every entry must
            apply.
    Raises:
        TcoptError: the model is malformed or not supported, or a pass failed.
    """
    if plugins:
        from tcopt.support.registries.plugins import load_plugins

        load_plugins(plugins)
    if device is not None:
        target = _target_on(target, device)
    given_shapes, given_values, given_dims = shapes or {}, values or {}, dict(dims or {})
    rounding = accuracy, precision
    compiler = _Compiler(
        ModelSource(source),
        target,
        rounding,
        progress,
        cache,
        workers,
        limits,
        given_dims,
        follow_links=follow_links,
        passes=passes or {},
        lock=find_lock(source, tuned, locked=locked),
    )
    if compiler.has_decoded_defaults():
        compiler.keep_source()
    compiler.programs_kept = check_count("programs kept", programs_kept)
    model = _model(compiler, given_shapes, given_values)
    model.device = device
    return model


def _target_on(target: str, device: DeviceName) -> str:
    """Return a target with the machine that a device is, if it names none."""
    kind, machine = find_target(target)
    machine = machine or kind.machine_of(device)
    return f"{kind.name}:{machine}" if machine else target


def _model(compiler: _Compiler, given_shapes: Shapes, given_values: Values) -> Model:
    """Return the model of a source: compiled, or lazy if its shapes are not known."""
    entry = compiler.entry(given_shapes, given_values)
    specializer = _Specializer(compiler.program, given_shapes, given_values)
    declared = None if entry is None else entry.open_inputs()
    if declared is not None:
        compiler.keep_source()
        model = Model.lazy(specializer, *declared)
    else:
        try:
            model = Model.of(compiler.program(given_shapes, given_values, entry))
        except (MissingShapesError, MissingValuesError) as missing:
            if isinstance(missing, MissingValuesError) and not missing.inputs:
                raise
            declared = compiler.declared(given_shapes, given_values)
            compiler.keep_source()
            if entry is not None:
                entry.keep_open(*declared)
            model = Model.lazy(specializer, *declared)
    model.name, model.target = compiler.name, compiler.target
    timed = compiler.timed_program
    model.instrumented = _Specializer(timed, given_shapes, given_values)
    model.programs_kept = compiler.programs_kept
    model.defaults = _Defaults(compiler, given_shapes, given_values)
    for spec in model.inputs:
        if spec.name in {**given_shapes, **given_values}:
            for name, _ in spec.symbols(spec.shape):
                model.fixed_by.setdefault(name, f'by the shape given for input "{spec.name}"')
    model.fixed_by.update((name, "by the dims given") for name in compiler.dims)
    return model


class _Compiler:
    """Provides programs of one model for given shapes and values, cached or newly compiled.

    Attributes:
        target: see `compile`.
        dims: extents of open dimensions by their names.
        programs_kept: maximum number of programs kept by each later stage of a staged model.
    """

    programs_kept = PROGRAMS_KEPT

    def __init__(
        self,
        source: ModelSource,
        target: str,
        rounding: tuple[str, str],
        progress: Progress | None,
        cache: bool,
        workers: int | None,
        limits: Limits,
        dims: Mapping[str, int],
        *,
        follow_links: bool,
        passes: Mapping[str, str],
        lock: Lock | None,
    ):
        self._follow_links = follow_links
        self._limits = limits
        self.dims = dims
        self.target = target
        self._source = source
        added = {place: Phase(place, text).passes for place, text in passes.items()}
        self._phases = with_lock(with_passes(pipeline(target, *rounding), added), lock)
        self._kind, machine = find_target(target)
        self._progress = progress
        self._cache = cache
        self._workers = workers
        self._programs: ProgramCache | None = None
        self._decoded: ModelProto | None = None
        facts = self._kind.cache_facts(machine) if cache else None
        if facts is not None:
            text = pipeline_text(self._phases)
            digest = None if lock is None else lock.digest
            settings = (facts, text, limits, sorted(dims.items()), follow_links, digest)
            self._programs = ProgramCache.of_user(source.value, settings)

    @property
    def name(self) -> str:
        """Name of the model's file without its suffix; empty for a model in memory."""
        return self._source.name

    def keep_source(self) -> None:
        """Make later compiles use the source as it is now."""
        self._source.keep()
        if self._programs is not None:
            self._programs.source = self._source.value

    def declared(
        self, shapes: Shapes | None = None, values: Values | None = None
    ) -> tuple[list[TensorSpec], list[TensorSpec]]:
        """Return the declared inputs and outputs of the model, decoding it if necessary."""
        from tcopt.compiler.driver import declared_specs

        model, self._decoded = self._decoded or self._source.value, None
        return declared_specs(model, shapes, values, self.dims)

    def has_decoded_defaults(self) -> bool:
        """Whether the source is a decoded model with default values of inputs."""
        model = self._source.value
        if isinstance(model, bytes | str | Path):
            return False
        from tcopt.frontends.onnx.model.defaults import default_names

        return bool(default_names(model))

    def defaults(self) -> list[TensorSpec]:
        """Return the inputs with a default value."""
        from tcopt.compiler.driver import declared_defaults

        self._source.check()
        return declared_defaults(self._source.value)

    def entry(
        self, shapes: Shapes, values: Values, stage: Stage | None = None
    ) -> ProgramEntry | None:
        """Return the cache entry of a compile; None without a cache."""
        self._source.check()
        if self._programs is None:
            return None
        entry = self._programs.entry(shapes, values, stage)
        self._source.hashed(self._programs.content)
        return entry

    def program(
        self,
        shapes: Shapes,
        values: Values,
        entry: ProgramEntry | None = None,
        stage: Stage | None = None,
    ) -> AnyProgram:
        """Return the program for given shapes and values.

        Args:
            entry: its cache entry, if already looked up.
            stage: the part of the model to compile; by default the whole model.
        """
        start = time.perf_counter()
        entry = entry or self.entry(shapes, values, stage)
        report = Report(self._progress)
        if entry is None:
            compiled, _ = self._compile(shapes, values, self._phases, report, stage=stage)
            return self._staged(compiled, shapes, values, stage)
        found = entry.program()
        if found is not None:
            self._source.read(entry.files)
            for message in found.warnings:
                warn_of_placement(message)
            found.program.compile_times.update(report.found(time.perf_counter() - start))
            return self._staged(found, shapes, values, stage)
        missing = entry.missing_values()
        if missing is not None:
            raise MissingValuesError(missing[0], missing[1], where=missing[2])
        try:
            compiled, files = self._compile(shapes, values, self._phases, report, stage=stage)
        except MissingValuesError as error:
            if error.inputs:
                entry.keep_missing_values(error.message, error.inputs, error.where)
            raise
        entry.keep_program(compiled, files)
        return self._staged(compiled, shapes, values, stage)

    def timed_program(
        self, shapes: Shapes, values: Values, stage: Stage | None = None
    ) -> AnyProgram:
        """Return the program instrumented with kernel times and remarks; never cached."""
        from tcopt.compiler.facts import with_remarks

        with collect_remarks() as remarks:
            phases = self._kind.timed_pipeline(self._phases)
            report = Report(self._progress)
            compiled, _ = self._compile(shapes, values, phases, report, timed=True, stage=stage)
        with_remarks(compiled.program, remarks)
        return self._staged(compiled, shapes, values, stage, timed=True)

    def _compile(
        self,
        shapes: Shapes,
        values: Values,
        phases: Sequence[Phase],
        report: Report,
        *,
        timed: bool = False,
        stage: Stage | None = None,
    ) -> tuple[StoredProgram, set[Path]]:
        """Compile a program; also return the files that were read in addition to the model's."""
        with quiet_collector(), _enough_memory(), _own_memos():
            from tcopt.compiler import driver

            limits, dims = self._limits, self.dims
            self._decoded = None
            self._source.check()
            imported = driver.Imported(
                self._source.value,
                shapes,
                values,
                limits,
                stage,
                dims,
                follow_links=self._follow_links,
            )
            kept = KernelCache.of_user() if self._cache else None
            try:
                with collect_placement_warnings() as warned:
                    program = driver.compile_model(
                        imported, phases, kept, self._workers, report, timed=timed
                    )
            except (MissingShapesError, MissingValuesError):
                # The caller asks for the declarations of this model next.
                self._decoded = imported.model
                raise
            imported.describe(program)
            self._source.read(imported.files)
            self._source.check(was_open=True)
            if imported.rest is None:
                return StoredProgram(program, warnings=warned), imported.files
            self._decoded = imported.model
            outputs = self.declared()[1]
            if stage is not None:
                outputs = [spec for spec in outputs if spec.name in stage.outputs]
            return StoredProgram(program, imported.rest, outputs, warned), imported.files

    def _staged(
        self,
        compiled: StoredProgram,
        shapes: Shapes,
        values: Values,
        stage: Stage | None,
        *,
        timed: bool = False,
    ) -> AnyProgram:
        """Return the program of a stage, followed by later stages that are compiled at run time.

        Args:
            stage: the part of the model that was compiled; None for the whole model.
            timed: whether later programs are instrumented, too.
        """
        first, rest = compiled.program, compiled.rest
        if rest is None:
            return first
        self.keep_source()
        later, following = None, rest.stage
        if following is not None:

            def compile_rest(shapes: Shapes, values: Values) -> AnyProgram:
                if timed:
                    return self.timed_program(shapes, values, following)
                return self.program(shapes, values, None, following)

            passed = set[str]() if stage is None else {item.name for item in stage.inputs}
            own = [spec for spec in first.inputs if spec.name not in passed]
            inputs = [TensorSpec(i.name, (None,) * i.rank, i.dtype) for i in following.inputs]
            missing = [spec for spec in compiled.outputs if spec.name in following.outputs]
            counts = {} if first.signature is None else first.signature.input_counts
            lists = {name: shapes[name] for name in counts if name in shapes}
            # Later stages know the values of results of earlier ones.
            names = {*counts, *(spec.name for spec in own)}
            given = {name: value for name, value in values.items() if name in names}
            specializer = _Specializer(compile_rest, lists, given, following.measured)
            later = Model.lazy(specializer, [*own, *inputs], missing)
            later.programs_kept, later.target = self.programs_kept, self.target
        return StagedProgram(first, rest.bounded, later, compiled.outputs)


@contextmanager
def _enough_memory() -> Iterator[None]:
    try:
        yield
    except MemoryError as error:
        raise ResourceError(
            f"out of memory while compiling the model: {error}",
            hint="check the sizes of its tensors, or free memory by closing other programs",
        ) from error


@contextmanager
def _own_memos() -> Iterator[None]:
    """Clear memoised results of the compiler after a model is compiled."""
    try:
        yield
    finally:
        clear_memos()


class _Specializer(Specialization):
    """Compiles for the shapes, and if needed the values, of the inputs of a run."""

    def __init__(
        self,
        specialize: Callable[[Shapes, Values], AnyProgram],
        shapes: Shapes,
        values: Values,
        by_value: Iterable[str] = (),
    ):
        self._specialize = specialize
        self._shapes = shapes
        self._values = values
        self._by_value: set[str] = {*values, *by_value}

    @property
    def needs_values(self) -> bool:
        return bool(self._by_value)

    def key(self, feeds: Mapping[str, Feed]) -> tuple[object, ...]:
        by_value = [
            (name, tuple(array.flat) if is_text(array.dtype) else array.tobytes())
            for name, array in _values(feeds, self._by_value).items()
        ]
        shapes = [(name, shape_of(value)) for name, value in sorted(feeds.items())]
        return (*shapes, *sorted(by_value))

    def compile(self, feeds: Mapping[str, Feed]) -> AnyProgram:
        shapes = {**{name: shape_of(value) for name, value in feeds.items()}, **self._shapes}
        while True:
            values = {**self._values, **_values(feeds, self._by_value)}
            try:
                return self._specialize(shapes, values)
            except MissingValuesError as missing:
                fresh = set(_values(feeds, missing.inputs)) - self._by_value
                if not fresh:
                    raise
                self._by_value |= fresh


class _Defaults(Defaults):
    """Inputs with a default value, which the model treats as constants unless they are fed."""

    def __init__(self, compiler: _Compiler, shapes: Shapes, values: Values):
        super().__init__()
        self._compiler = compiler
        self._shapes = shapes
        self._values = values

    def declared(self) -> Sequence[TensorSpec]:
        return self._compiler.defaults()

    def compile(self, shapes: Mapping[str, tuple[int, ...]]) -> Model:
        return _model(self._compiler, {**self._shapes, **shapes}, self._values)


def _values(feeds: Mapping[str, Feed], names: Collection[str]) -> dict[str, Array]:
    """Return the arrays of some tensors; those on a device are copied to the host."""
    tensors = (pair for name, value in feeds.items() for pair in flat_arrays(name, value))
    return {name: np.asarray(tensor) for name, tensor in tensors if name in names}
