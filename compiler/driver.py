"""Driver of a compile: runs the phases of the pipeline and passes the result to the runtime."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, ValueInfoProto
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp

from tcopt.compiler.content import Source
from tcopt.compiler.host import declare_kernels, take_kernels, take_sequences
from tcopt.compiler.kernel_builder import KernelBuilder
from tcopt.compiler.kernel_cache import KernelCache
from tcopt.compiler.passes import run_passes
from tcopt.compiler.report import Report
from tcopt.compiler.units import kind_of
from tcopt.dialects.graph.dims import Dims, dims_of
from tcopt.dialects.graph.weights import release_weights, weights_of
from tcopt.frontends.onnx.importer import import_stage
from tcopt.frontends.onnx.model.defaults import default_names, without_defaults
from tcopt.frontends.onnx.model.inferred_outputs import typed_outputs
from tcopt.frontends.onnx.model.initializers import graph_weights
from tcopt.frontends.onnx.model.inputs import ModelInput, declared_input, narrow_inputs
from tcopt.frontends.onnx.model.limits import DEFAULT_LIMITS, Limits
from tcopt.frontends.onnx.model.lists import Shapes, expand_lists
from tcopt.frontends.onnx.model.loading import load_model
from tcopt.frontends.onnx.model.stage import Rest, Stage
from tcopt.runtime.signature import Signature
from tcopt.runtime.specs import TensorSpec
from tcopt.runtime.whole_program import WholeProgram
from tcopt.support.data.structures import Count, Kind, tensor_names
from tcopt.support.pipelines.phases import Phase

Array = NDArray[Any]


class Imported:
    """A model that can be imported once.

    Attributes:
        model: the decoded model; None before it is decoded.
        files: files that were read in addition to the model itself.
        rest: part of the model after the imported stage.
    """

    def __init__(
        self,
        source: Source,
        shapes: Shapes,
        values: Mapping[str, Array],
        limits: Limits = DEFAULT_LIMITS,
        stage: Stage | None = None,
        dims: Mapping[str, int] | None = None,
        *,
        follow_links: bool = False,
    ):
        self._limits = limits
        self._follow_links = follow_links
        self._dims = dims
        self.model: ModelProto | None = None
        self.files: set[Path] = set()
        self.rest: Rest | None = None
        self._stage = stage
        self._source = source
        self._shapes = shapes
        self._values = values
        self._arguments: list[Dims] = []
        self._results: dict[str, Dims] = {}
        self._counts: tuple[Mapping[str, Count], Mapping[str, Count]] = ({}, {})

    def module(self) -> ModuleOp:
        """Import the model and return the graph-level module."""
        model, reader = load_model(self._source, follow_links=self._follow_links)
        self.files = reader.files
        self.model = model = without_defaults(model, {*self._shapes, *self._values})
        found = import_stage(
            model,
            reader,
            self._stage,
            shapes=self._shapes,
            values=self._values,
            dims=self._dims,
            limits=self._limits,
        )
        module, self.rest = found.module, found.rest
        self._counts = found.input_counts, found.output_counts
        (main,) = (op for op in module.ops if isinstance(op, FuncOp) and op.sym_name.data == "main")
        self._arguments, results = dims_of(main)
        # Matched by name, as passes may insert other results between them.
        self._results = dict(zip(_result_names(module), results, strict=False))
        return module

    def describe(self, program: WholeProgram) -> None:
        """Set the dimensions and the signature of a program's inputs and outputs from the model."""
        program.inputs = [
            # The RNG key is an extra trailing input.
            s._replace(dims=d)
            for s, d in zip(program.inputs, self._arguments, strict=False)
        ]
        program.outputs = [s._replace(dims=self._results.get(s.name, ())) for s in program.outputs]
        if any(self._counts) and self.model is not None:
            program.signature = _signature(self.model.graph, program, *self._counts)


def _result_names(module: ModuleOp) -> list[str]:
    """Return the names of a module's results."""
    told = module.attributes["graph.outputs"]
    assert isinstance(told, ArrayAttr)
    return [entry.data for entry in told if isinstance(entry, StringAttr)]


def _signature(
    graph: GraphProto,
    program: WholeProgram,
    input_counts: Mapping[str, Count],
    output_counts: Mapping[str, Count],
) -> Signature:
    """Describe a program's inputs and outputs as the model declares them, lists included."""
    inputs = {spec.name: spec for spec in program.inputs}
    outputs = {spec.name: spec for spec in program.outputs}
    weights = {name for name, _ in graph_weights(graph)}
    # The program has only the outputs of its own stage.
    return Signature(
        tuple(
            _declared(info, "input", inputs, input_counts)
            for info in graph.input
            if info.name not in weights
        ),
        tuple(
            _declared(info, "output", outputs, output_counts)
            for info in graph.output
            if info.name in outputs or info.name in output_counts
        ),
        input_counts,
        output_counts,
    )


def _declared(
    info: ValueInfoProto, what: str, given: Mapping[str, TensorSpec], counts: Mapping[str, Count]
) -> TensorSpec:
    """Return the declaration of a model's input or output, which may be several tensors."""
    if info.name not in counts:
        return given[info.name]
    if info.type.WhichOneof("value") is not None:
        return _spec(declared_input(info, what))
    values = given.get(tensor_names(info.name, Kind.MAPS, 2)[1])
    if values is not None and counts[info.name] == 2:
        return TensorSpec(info.name, (), values.dtype, any_rank=True, kind=Kind.MAPS)
    # A sequence without a declared type.
    first = given.get(tensor_names(info.name, Kind.SEQUENCE, 1)[0])
    dtype = np.dtype(np.float32) if first is None else first.dtype
    return TensorSpec(info.name, (), dtype, any_rank=True, kind=Kind.SEQUENCE)


def compile_model(
    model: Imported,
    phases: Sequence[Phase],
    cache: KernelCache | None,
    workers: int | None,
    report: Report,
    *,
    timed: bool = False,
) -> WholeProgram:
    """Compile a model to a program: its kernels one by one, and the host function.

    Args:
        phases: the pipeline, including the target.
        cache: where kernels are looked up and stored.
        workers: number of additional processes that compile kernels; see `KernelBuilder`.
        timed: whether each run of the program records the times of its kernels; `phases` must then
            come from `TargetKind.timed_pipeline`.
    Raises:
        TcoptError: the model is malformed or not supported, or a pass failed.
    """
    with KernelBuilder(phases, cache, workers) as builder:
        with report.step("import"):
            module = model.module()
            builder.expect(module)
        program = _build(module, phases, builder, report, timed=timed)
    release_weights(module)
    return program


def lower(module: ModuleOp, phases: Sequence[Phase], times: dict[str, float] | None = None) -> None:
    """Run the passes of `phases` on a module, in place.

    Args:
        times: receives the seconds of each phase by name, if given.
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
    *,
    timed: bool,
) -> WholeProgram:
    """Compile an imported module to a program."""
    by_name = {phase.name: phase for phase in phases}
    for name in ("graph", "te"):
        with report.step(name):
            run_passes(module, by_name[name].passes)
    kind_of(module).check(module)
    with report.step("kernels"):
        sequences = take_sequences(module)
        functions = take_kernels(module)
        run_passes(module, by_name["loop"].passes)
        # Copies from inputs and constants to results become kernels only here.
        functions |= take_kernels(module)
        kernels = builder.build(functions, module, sequences)
    with report.step("host"):
        declare_kernels(module, kernels)
        for name in ("schedule", "kernel"):
            run_passes(module, by_name[name].passes)
        weights = weights_of(module) or {}
        program = kind_of(module).build(module, weights, kernels, timed=timed)
    program.compile_times.update(report.seconds)
    program.kernels_compiled = builder.counts.compiled
    report.done()
    return program


def declared_specs(
    source: Source,
    shapes: Shapes | None = None,
    values: Mapping[str, Array] | None = None,
    dims: Mapping[str, int] | None = None,
) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """Return the declared inputs and outputs of a model; open dimensions are None or names.

    Args:
        shapes, values, dims: known facts about the inputs, as for `tcopt.compile`.
    Raises:
        InputError: these do not fit the model.
    """
    model = without_defaults(load_model(source)[0], {*(shapes or {}), *(values or {})})
    graph = model.graph
    weights = {name for name, _ in graph_weights(graph)}
    inputs = [declared_input(info) for info in graph.input if info.name not in weights]
    tensors, _, plain = expand_lists(inputs, shapes or {})
    symbols = narrow_inputs(tensors, plain, values or {}, dims)
    found: list[TensorSpec] = []
    for info in typed_outputs(model):
        if info.type.WhichOneof("value") is None:
            # Its type is only known once the nodes are compiled.
            found.append(TensorSpec(info.name, (), np.dtype(np.float32), any_rank=True))
            continue
        item = declared_input(info, "output")
        item.dims = item.dims and symbols.resolved(item.dims)
        found.append(_spec(item))
    return [_spec(item) for item in inputs], found


def declared_defaults(source: Source) -> list[TensorSpec]:
    """Return the declarations of the inputs that have a default value."""
    model = load_model(source)[0]
    names = default_names(model)
    return [_spec(declared_input(info)) for info in model.graph.input if info.name in names]


def _spec(item: ModelInput) -> TensorSpec:
    if item.kind.is_sequence or item.dims is None:
        return TensorSpec(item.name, (), item.dtype, any_rank=True, kind=item.kind)
    dims, named = tuple(item.dims), item.declared or ()
    if item.kind.is_optional:
        dims, named = tuple(None if isinstance(d, str) else d for d in dims), ()
    return TensorSpec(item.name, dims, item.dtype, named, kind=item.kind)
