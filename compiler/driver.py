"""From a model to code: runs the pipeline's phases and hands the result to the runtime."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from tcopt.compiler.content import Source
from tcopt.compiler.device import build_for_device
from tcopt.compiler.host import declare_kernels, take_kernels
from tcopt.compiler.kernel_builder import KernelBuilder
from tcopt.compiler.kernel_cache import KernelCache
from tcopt.compiler.passes import run_passes
from tcopt.compiler.pipeline import Phase
from tcopt.compiler.report import Report
from tcopt.dialects.graph.weights import weights_of
from tcopt.frontends.onnx.importer import import_stage
from tcopt.frontends.onnx.inputs import declared_input
from tcopt.frontends.onnx.limits import Limits
from tcopt.frontends.onnx.loading import load_model
from tcopt.frontends.onnx.stages import Rest, Stage
from tcopt.runtime.build import build_program
from tcopt.runtime.device.program import DeviceProgram
from tcopt.runtime.program import Program
from tcopt.runtime.specs import TensorSpec

Array = NDArray[Any]


class Imported:
    """A model to be imported, once.

    Attributes:
        files: what was read beside the model itself.
        rest: what of the model comes after the stage that was imported.
    """

    def __init__(
        self,
        source: Source,
        shapes: Mapping[str, Sequence[int]],
        values: Mapping[str, Array],
        limits: Limits,
        stage: Stage | None = None,
    ):
        self._limits = limits
        self.files: set[Path] = set()
        self.rest: Rest | None = None
        self._stage = stage
        self._source = source
        self._shapes = shapes
        self._values = values

    def module(self) -> ModuleOp:
        """The graph-level module."""
        model, reader = load_model(self._source)
        self.files = reader.files
        module, self.rest = import_stage(
            model,
            reader,
            self._stage,
            shapes=self._shapes,
            values=self._values,
            limits=self._limits,
        )
        return module


def compile_for_cpu(
    model: Imported,
    phases: Sequence[Phase],
    cache: KernelCache | None,
    workers: int | None,
    report: Report,
) -> Program:
    """The program of a model whose kernels are compiled one by one.

    Args:
        cache: where kernels are looked up and kept.
        workers: processes that compile kernels beside this one, see `KernelBuilder`.
    Raises:
        TcoptError: the model is malformed or not supported, or a pass failed.
    """
    with KernelBuilder(phases, cache, workers) as builder:
        with report.step("import"):
            module = model.module()
            builder.expect(module)
        return _build(module, phases, builder, report)


def compile_for_device(
    model: Imported,
    phases: Sequence[Phase],
    cache: KernelCache | None,
    workers: int | None,
    report: Report,
    *,
    timed: bool = False,
) -> DeviceProgram:
    """The program of a model whose kernels run on a device; arguments and errors as above.

    Args:
        timed: whether each run of the program notes the time of its launches.
    """
    with KernelBuilder(phases, cache, workers) as builder:
        with report.step("import"):
            module = model.module()
            builder.expect(module)
        program = build_for_device(module, phases, builder, report.step, timed=timed)
    program.compile_times.update(report.seconds)
    report.done()
    return program


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


def _build(
    module: ModuleOp,
    phases: Sequence[Phase],
    builder: KernelBuilder,
    report: Report,
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


def declared_specs(source: Source) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """What the model says of its inputs and outputs, with open dimensions as None or names."""
    graph = load_model(source)[0].graph
    weights = {t.name for t in graph.initializer}
    specs: list[list[TensorSpec]] = []
    for infos in ([i for i in graph.input if i.name not in weights], graph.output):
        declared = [declared_input(info) for info in infos]
        specs.append([TensorSpec(d.name, tuple(d.dims or ()), d.dtype) for d in declared])
    return specs[0], specs[1]
