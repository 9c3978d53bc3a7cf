"""`tcopt.compile`: load a program from the cache, or compile it.

Modules that are only needed to compile are imported lazily.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tcopt.compiler.open_sizes import OpenSizes
from tcopt.compiler.options import CompileOptions
from tcopt.compiler.outcome import Compiled, OpenModel, Outcome
from tcopt.compiler.program_cache import ProgramCache, ProgramEntry
from tcopt.compiler.report import Progress, Report
from tcopt.compiler.source import ModelSource
from tcopt.compiler.specializer import Specializer
from tcopt.compiler.tuned import Tuned
from tcopt.compiler.value_rooms import ValueRooms
from tcopt.frontends.onnx.model.limits import DEFAULT_LIMITS, ModelLimits
from tcopt.frontends.onnx.model.options import Shapes, Source, Values
from tcopt.runtime.defaults import Defaults
from tcopt.runtime.kept_programs import PROGRAMS_KEPT
from tcopt.runtime.model import AnyProgram, Model
from tcopt.runtime.run_options import DeviceName
from tcopt.runtime.specs import TensorSpec
from tcopt.runtime.staged import StagedProgram
from tcopt.support.accuracy import DEFAULT, PRECISE
from tcopt.support.arithmetic.size_ranges import GivenSize
from tcopt.support.errors import ResourceError
from tcopt.support.memo import clear_memos
from tcopt.support.processes.collector import quiet_collector
from tcopt.support.remarks import warn_of_placement


def compile(
    source: Source,
    target: str = "cpu",
    *,
    device: DeviceName | None = None,
    accuracy: str = DEFAULT,
    precision: str = PRECISE,
    shapes: Shapes | None = None,
    values: Values | None = None,
    dims: Mapping[str, GivenSize] | None = None,
    donate: Mapping[str, str] | None = None,
    programs_kept: int = PROGRAMS_KEPT,
    progress: Progress | None = None,
    cache: bool = True,
    workers: int | None = None,
    limits: ModelLimits = DEFAULT_LIMITS,
    follow_links: bool = False,
    plugins: Iterable[str | Path] = (),
    passes: Mapping[str, str] | None = None,
    tuned: Tuned = True,
    locked: bool = False,
) -> Model:
    """Compile an ONNX model to native code.

    A model with open dimensions is compiled at its first run for the shapes of that run. When other
    shapes follow, it is compiled once more, for a range of each dimension that differs; larger
    sizes widen the ranges. A model that has no program for ranges is compiled once for each
    combination of shapes, and so is a model whose shapes depend on input values. The same holds for
    runs that override the default value of an input.

    Args:
        source: path of a file, its bytes, or a decoded model.
        target, accuracy, precision: see `tcopt.compiler.pipeline`.
        device: the device to run on, see `Model.device`. A target such as `cuda` is then the
            machine that this device is.
        shapes: shapes of inputs with open dimensions, to compile ahead of time: a list of shapes
            for a sequence, None for an absent optional. An input with a default value (an
            initializer) becomes an ordinary input if its shape is given.
        values: values of inputs that determine shapes, to specialise on ahead of time.
        dims: extents of open dimensions by their names in the model, or ranges such as
            `"1..512"` or `(1, 512)`. One program then serves all sizes in the range. If a model has
            no such program, that is an error, unless the range ends in `?`, as in `"1..512?"`: the
            model is then compiled for each size when it is first run. A dimension may also follow
            from others, as in `"past + length"`.
        donate: outputs that may be computed in the memory of an input, by the name of the input,
            as in `{"past": "present"}`: an update of a few elements then does not copy the others.
            See `Model.run` and docs/states.md.
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
    return compile_with(
        source,
        CompileOptions.of(
            source,
            target,
            device=device,
            accuracy=accuracy,
            precision=precision,
            shapes=shapes,
            values=values,
            dims=dims,
            donate=donate,
            programs_kept=programs_kept,
            progress=progress,
            cache=cache,
            workers=workers,
            limits=limits,
            follow_links=follow_links,
            plugins=plugins,
            passes=passes,
            tuned=tuned,
            locked=locked,
        ),
    )


def compile_with(source: Source, options: CompileOptions) -> Model:
    """Compile a model with the given options; see `compile`."""
    compiler = _Compiler(ModelSource(source), options)
    if compiler.has_decoded_defaults():
        compiler.keep_source()
    return _model(compiler, options)


def _model(compiler: _Compiler, options: CompileOptions) -> Model:
    """Return the model of a source: compiled, or lazy if its sizes are not known."""
    found = compiler.outcome(options)
    sizes, rooms = None, ValueRooms()
    if isinstance(found, OpenModel):
        compiler.keep_source()
        sizes = OpenSizes(found.inputs, options.dims)
        specializer = Specializer(compiler.outcome, options, sizes, rooms=rooms)
        model = Model.lazy(specializer, found.inputs, found.outputs)
    else:
        model = Model.of(found)
        if found.parts[0].checked_sizes:
            compiler.keep_source()
            model.fallback = Specializer(compiler.outcome, options, rooms=rooms)
    model.name, model.target = compiler.name, options.target
    model.instrumented = Specializer(
        compiler.outcome, replace(options, timed=True), sizes, rooms=rooms
    )
    model.programs_kept = options.programs_kept
    model.defaults = _Defaults(compiler, options)
    for spec in model.inputs:
        if spec.name in {**options.shapes, **options.values}:
            for name, _ in spec.symbols(spec.shape):
                model.fixed_by.setdefault(name, f'by the shape given for input "{spec.name}"')
    fixed = (name for name, size in options.dims.items() if isinstance(size, int))
    model.fixed_by.update((name, "by the dims given") for name in fixed)
    model.device = options.device
    return model


class _Compiler:
    """Provides programs of one model, cached or newly compiled.

    Args:
        options: of the first compile; others differ in shapes, values, the stage and `timed`.
    """

    def __init__(self, source: ModelSource, options: CompileOptions):
        self._source = source
        self._programs = ProgramCache.of_user(source.value, options)

    @property
    def name(self) -> str:
        """Name of the model's file without its suffix; empty for a model in memory."""
        return self._source.name

    def keep_source(self) -> None:
        """Make later compiles use the source as it is now."""
        self._source.keep()
        if self._programs is not None:
            self._programs.source = self._source.value

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

    def outcome(self, options: CompileOptions) -> AnyProgram | OpenModel:
        """Return the program for some options, or the declarations of a model with open sizes."""
        start = time.perf_counter()
        report = Report(options.progress)
        entry = self._entry(options)
        found = None if entry is None else entry.outcome()
        if isinstance(found, OpenModel) and found.rooms and options.samples:
            found = None
        if found is None:
            found = self._compile(options, report)
            if entry is not None:
                entry.keep(found)
        elif isinstance(found, Compiled):
            self._source.read(found.files)
            for message in found.warnings:
                warn_of_placement(message)
            found.program.compile_times.update(report.found(time.perf_counter() - start))
        return self._staged(found, options) if isinstance(found, Compiled) else found

    def _entry(self, options: CompileOptions) -> ProgramEntry | None:
        """Return the cache entry of a compile; None without a cache."""
        self._source.check()
        if self._programs is None:
            return None
        entry = self._programs.entry(options)
        self._source.hashed(self._programs.content)
        return entry

    def _compile(self, options: CompileOptions, report: Report) -> Outcome:
        with quiet_collector(), _enough_memory(), _own_memos():
            from tcopt.compiler.driver import compile_model

            self._source.check()
            found = compile_model(self._source.value, options, report)
            if isinstance(found, Compiled):
                self._source.read(found.files)
                self._source.check(was_open=True)
            return found

    def _staged(self, compiled: Compiled, options: CompileOptions) -> AnyProgram:
        """Return the program of a stage, followed by later stages that are compiled at run time.

        Args:
            options: those that the stage was compiled with.
        """
        first, rest = compiled.program, compiled.rest
        if rest is None:
            return first
        self.keep_source()
        later, following = None, rest.stage
        if following is not None:
            passed = () if options.stage is None else [item.name for item in options.stage.inputs]
            own = [spec for spec in first.inputs if spec.name not in passed]
            inputs = [TensorSpec(i.name, (None,) * i.rank, i.dtype) for i in following.inputs]
            missing = [spec for spec in compiled.outputs if spec.name in following.outputs]
            counts = {} if first.signature is None else first.signature.input_counts
            # Later stages know the values of results of earlier ones.
            names = {*counts, *(spec.name for spec in own)}
            known = replace(
                options,
                stage=following,
                shapes={name: options.shapes[name] for name in counts if name in options.shapes},
                values={name: value for name, value in options.values.items() if name in names},
            )
            sizes = OpenSizes([*own, *inputs], known.dims)
            specializer = Specializer(self.outcome, known, sizes, following.measured)
            later = Model.lazy(specializer, [*own, *inputs], missing)
            later.programs_kept, later.target = options.programs_kept, options.target
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


class _Defaults(Defaults):
    """Inputs with a default value, which the model treats as constants unless they are fed."""

    def __init__(self, compiler: _Compiler, options: CompileOptions):
        super().__init__()
        self._compiler = compiler
        self._options = options

    def declared(self) -> Sequence[TensorSpec]:
        return self._compiler.defaults()

    def compile(self, shapes: Mapping[str, tuple[int, ...]]) -> Model:
        known = self._options
        return _model(self._compiler, replace(known, shapes={**known.shapes, **shapes}))
