"""From a model to code: runs the pipeline's phases and hands the result to the runtime."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from tcopt.compiler.content import Source
from tcopt.compiler.device import build_for_device
from tcopt.compiler.host import declare_kernels, take_kernels
from tcopt.compiler.kernel_builder import KernelBuilder
from tcopt.compiler.kernel_cache import KernelCache
from tcopt.compiler.passes import run_passes
from tcopt.compiler.pipeline import Phase
from tcopt.compiler.report import Report
from tcopt.dialects.graph.dims import Dims, dims_of
from tcopt.dialects.graph.weights import release_weights, weights_of
from tcopt.frontends.onnx.importer import import_stage
from tcopt.frontends.onnx.inputs import ModelInput, declared_input, narrow_inputs
from tcopt.frontends.onnx.limits import DEFAULT_LIMITS, Limits
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
        limits: Limits = DEFAULT_LIMITS,
        stage: Stage | None = None,
        dims: Mapping[str, int] | None = None,
    ):
        self._limits = limits
        self._dims = dims
        self.files: set[Path] = set()
        self.rest: Rest | None = None
        self._stage = stage
        self._source = source
        self._shapes = shapes
        self._values = values
        self._names: tuple[list[Dims], list[Dims]] = ([], [])

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
            dims=self._dims,
            limits=self._limits,
        )
        (main,) = (op for op in module.ops if isinstance(op, FuncOp) and op.sym_name.data == "main")
        self._names = dims_of(main)
        return module

    def name_dimensions(self, program: Program | DeviceProgram) -> None:
        """Tell the program of the module what the model calls the dimensions."""
        arguments, results = self._names
        program.inputs = [
            s._replace(dims=d) for s, d in zip(program.inputs, arguments, strict=True)
        ]
        program.outputs = [
            s._replace(dims=d) for s, d in zip(program.outputs, results, strict=True)
        ]


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
        program = _build(module, phases, builder, report)
    release_weights(module)
    return program


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
    release_weights(module)
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


def declared_specs(
    source: Source,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Array] | None = None,
    dims: Mapping[str, int] | None = None,
) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """What the model says of its inputs and outputs, with open dimensions as None or names.

    Args:
        shapes, values, dims: what is known of the inputs, as `tcopt.compile` takes it.
    Raises:
        InputError: it does not fit the model.
    """
    graph = load_model(source)[0].graph
    weights = {t.name for t in graph.initializer}
    inputs = [declared_input(info) for info in graph.input if info.name not in weights]
    symbols = narrow_inputs(inputs, shapes or {}, values or {}, dims)
    outputs = [declared_input(info, "output") for info in graph.output]
    for item in outputs:
        item.dims = item.dims and symbols.resolved(item.dims)
    return [_spec(item) for item in inputs], [_spec(item) for item in outputs]


def _spec(item: ModelInput) -> TensorSpec:
    return TensorSpec(item.name, tuple(item.dims or ()), item.dtype, item.declared or ())
