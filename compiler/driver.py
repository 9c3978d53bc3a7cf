"""From a model to code: runs the pipeline's phases and hands the result to the runtime."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from onnx import ModelProto
from xdsl.dialects.builtin import ModuleOp

from tcopt.compiler.device import build_for_device
from tcopt.compiler.facts import with_remarks
from tcopt.compiler.host import declare_kernels, take_kernels
from tcopt.compiler.kernel_builder import KernelBuilder
from tcopt.compiler.kernel_cache import KernelCache
from tcopt.compiler.passes import run_passes
from tcopt.compiler.pipeline import Phase, is_device, pipeline, with_clocks
from tcopt.dialects.graph.weights import weights_of
from tcopt.frontends.onnx.errors import MissingShapesError, MissingValuesError
from tcopt.frontends.onnx.importer import import_model
from tcopt.frontends.onnx.inputs import declared_input
from tcopt.frontends.onnx.loading import load_model
from tcopt.runtime.build import build_program
from tcopt.runtime.device.program import DeviceProgram
from tcopt.runtime.model import AnyProgram, Model, Specialization, TensorSpec
from tcopt.runtime.program import Program
from tcopt.support.accuracy import DEFAULT, PRECISE
from tcopt.support.collector import quiet_collector
from tcopt.support.remarks import collect_remarks

Array = NDArray[Any]
Source = str | Path | bytes | ModelProto
Progress = Callable[[str, int, int], None]
"""Called with a step's name, how many steps are done, and how many there are."""

STEPS = ("import", "graph", "te", "kernels", "host")
"""What a compile goes through. Kernels take the pipeline's phases from `loop` to `code` one by
one in the step `kernels`, the host program in `host`."""


def compile(
    source: Source,
    target: str = "cpu",
    *,
    accuracy: str = DEFAULT,
    precision: str = PRECISE,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Array] | None = None,
    progress: Progress | None = None,
    cache: bool = True,
    workers: int | None = None,
) -> Model:
    """Compile an ONNX model to native code.

    A model whose inputs have open dimensions, or whose shapes depend on the values of
    inputs, is compiled at its first run for the shapes and values seen; each new
    combination is compiled once and kept.

    Args:
        source: a file, its bytes, or a decoded model.
        target, accuracy, precision: see `tcopt.compiler.pipeline`.
        shapes: shapes of inputs with open dimensions, to compile for ahead of time.
        values: inputs that decide shapes, to specialise on ahead of time.
        progress: called before each step and at the end.
        cache: whether kernels are looked up and kept on disk; see `compiler.kernel_cache`.
        workers: processes that compile kernels beside this one; by default one for each other
            core, and none for a model that is small or whose kernels are all kept.
    Raises:
        TcoptError: the model is malformed or not supported, or a pass failed.
    """
    phases = pipeline(target, accuracy, precision)

    def specialize(
        given_shapes: Mapping[str, Sequence[int]],
        given: Mapping[str, Array],
        passes: Sequence[Phase] = phases,
    ) -> Program:
        report = _Report(progress)
        kept = KernelCache.of_user() if cache else None
        with quiet_collector(), KernelBuilder(passes, kept, workers) as builder:
            with report.step("import"):
                module = import_model(source, shapes=given_shapes, values=given)
                builder.expect(module)
            return _build(module, passes, builder, report)

    def specialize_for_device(
        given_shapes: Mapping[str, Sequence[int]], given: Mapping[str, Array]
    ) -> DeviceProgram:
        report = _Report(progress)
        with quiet_collector():
            with report.step("import"):
                module = import_model(source, shapes=given_shapes, values=given)
            program = build_for_device(module, phases, report.step)
        program.compile_times.update(report.seconds)
        report.done()
        return program

    def specialize_timed(
        given_shapes: Mapping[str, Sequence[int]], given: Mapping[str, Array]
    ) -> Program:
        with collect_remarks() as remarks:
            program = specialize(given_shapes, given, with_clocks(phases))
        return with_remarks(program, remarks)

    on_device = is_device(target)
    compile_for = specialize_for_device if on_device else specialize
    try:
        model = Model.of(compile_for(shapes or {}, values or {}))
    except (MissingShapesError, MissingValuesError) as missing:
        if isinstance(missing, MissingValuesError) and not missing.inputs:
            raise
        specializer = _Specializer(compile_for, shapes or {}, values or {})
        model = Model.lazy(specializer, *_declared(source))
    if not on_device:
        model.instrumented = _Specializer(specialize_timed, shapes or {}, values or {})
    return model


def lower(module: ModuleOp, phases: Sequence[Phase], times: dict[str, float] | None = None) -> None:
    """Run the passes of `phases` on a module, in place.

    Args:
        times: if given, receives each phase's seconds by its name.
    Raises:
        PassFailedError: a pass could not rewrite the module.
    """
    for phase in phases:
        start = time.perf_counter()
        run_passes(module, phase.passes)
        if times is not None and phase.passes:
            times[phase.name] = time.perf_counter() - start


class _Specializer(Specialization):
    """Compiles for the shapes, and where needed the values, of the feeds of a run."""

    def __init__(
        self,
        specialize: Callable[[Mapping[str, Sequence[int]], Mapping[str, Array]], AnyProgram],
        shapes: Mapping[str, Sequence[int]],
        values: Mapping[str, Array],
    ):
        self._specialize = specialize
        self._shapes = shapes
        self._values = values
        self._by_value: set[str] = set(values)

    def key(self, feeds: Mapping[str, Array]) -> tuple[object, ...]:
        return tuple(
            (name, array.shape, array.tobytes() if name in self._by_value else None)
            for name, array in sorted(feeds.items())
        )

    def compile(self, feeds: Mapping[str, Array]) -> AnyProgram:
        shapes = {**{name: list(a.shape) for name, a in feeds.items()}, **self._shapes}
        while True:
            values = {**self._values, **{n: feeds[n] for n in self._by_value if n in feeds}}
            try:
                return self._specialize(shapes, values)
            except MissingValuesError as missing:
                fresh = {name for name in missing.inputs if name in feeds} - self._by_value
                if not fresh:
                    raise
                self._by_value |= fresh


def _build(
    module: ModuleOp,
    phases: Sequence[Phase],
    builder: KernelBuilder,
    report: _Report,
) -> Program:
    """The program of an imported model: its kernels one by one, and the host that calls them."""
    by_name = {phase.name: phase for phase in phases}
    for name in ("graph", "te"):
        with report.step(name):
            run_passes(module, by_name[name].passes)
    with report.step("kernels"):
        functions = take_kernels(module)
        run_passes(module, by_name["loop"].passes)
        # Copies of inputs and constants to results are kernels that the host asks for.
        functions |= take_kernels(module)
        kernels = builder.build(functions, module)
    with report.step("host"):
        declare_kernels(module, kernels)
        for name in ("schedule", "kernel"):
            run_passes(module, by_name[name].passes)
        distinct = {kernel.symbol: kernel for kernel in kernels.values()}
        program = build_program(module, weights_of(module) or {}, list(distinct.values()))
    program.compile_times.update(report.seconds)
    program.kernels_compiled = builder.counts.compiled
    report.done()
    return program


class _Report:
    """Tells the progress of a compile, and keeps the time of each step."""

    def __init__(self, progress: Progress | None):
        self.seconds: dict[str, float] = {}
        self._progress = progress

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        if name != STEPS[0]:
            self._tell(name)
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start
        if name == STEPS[0]:
            # Before, it is not known whether there is anything to compile yet.
            self._tell(name)

    def _tell(self, name: str) -> None:
        if self._progress is not None:
            self._progress(name, STEPS.index(name), len(STEPS))

    def done(self) -> None:
        if self._progress is not None:
            self._progress("done", len(STEPS), len(STEPS))


def _declared(source: Source) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """What the model says of its inputs and outputs, with open dimensions as None or names."""
    graph = load_model(source)[0].graph
    weights = {t.name for t in graph.initializer}
    specs: list[list[TensorSpec]] = []
    for infos in ([i for i in graph.input if i.name not in weights], graph.output):
        declared = [declared_input(info) for info in infos]
        specs.append([TensorSpec(d.name, tuple(d.dims or ()), d.dtype) for d in declared])
    return specs[0], specs[1]
