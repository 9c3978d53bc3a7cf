"""Driver of a compile: runs the phases of the pipeline and passes the result to the runtime."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from onnx import GraphProto, ValueInfoProto
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp

from tcopt.compiler.donations import donate
from tcopt.compiler.host import declare_kernels, take_kernels, take_sequences
from tcopt.compiler.kernel_builder import KernelBuilder
from tcopt.compiler.options import CompileOptions
from tcopt.compiler.outcome import Compiled, OpenModel, Outcome
from tcopt.compiler.passes import run_passes
from tcopt.compiler.report import Report
from tcopt.compiler.units import kind_of
from tcopt.dialects.graph.core.dims import Dims, dims_of
from tcopt.dialects.graph.core.donation import size_ranges
from tcopt.dialects.graph.core.weights import release_weights, weights_of
from tcopt.dialects.size import defined_symbols
from tcopt.frontends.onnx.importer import import_staged
from tcopt.frontends.onnx.model.defaults import default_names, without_defaults
from tcopt.frontends.onnx.model.errors import (
    MissingRoomsError,
    MissingValuesError,
    OpenSizeError,
    size_advice,
)
from tcopt.frontends.onnx.model.imported import Fixed, Open, Staged
from tcopt.frontends.onnx.model.initializers import graph_weights
from tcopt.frontends.onnx.model.inputs import (
    ModelInput,
    declared_input,
    falls_back,
    narrow_inputs,
)
from tcopt.frontends.onnx.model.lists import expand_lists
from tcopt.frontends.onnx.model.loading import load_model
from tcopt.frontends.onnx.model.options import NO_OPTIONS, ImportOptions, Source
from tcopt.frontends.onnx.model.outputs import output_names, typed_outputs
from tcopt.passes.fix_sizes import free_symbols
from tcopt.runtime.signature import Signature
from tcopt.runtime.specs import TensorSpec
from tcopt.runtime.whole_program import WholeProgram
from tcopt.schedules.rules.schedule_remarks import SCHEDULED
from tcopt.support.arithmetic.size_terms import Symbol
from tcopt.support.arithmetic.sizes import Size
from tcopt.support.data.structures import Count, Kind, tensor_names
from tcopt.support.errors import CancelledError, TcoptError
from tcopt.support.pipelines.phases import Phase, up_to
from tcopt.support.pipelines.running import Instrument
from tcopt.support.remarks import Remark, collect_placement_warnings, collect_remarks, notice


def compile_model(source: Source, options: CompileOptions, report: Report) -> Outcome:
    """Compile a model to a program: its kernels one by one, and the host function.

    Returns:
        The program of the model, or of its first stage if later sizes depend on data; or the
        model's declarations if sizes must be given first.
    Raises:
        TcoptError: the model is malformed or not supported, or a pass failed.
    """
    if not options.timed:
        return _compile(source, options, report)
    with collect_remarks() as remarks:
        found = _compile(source, options, report)
    if isinstance(found, Compiled):
        with_remarks(found.program, remarks)
    return found


def _compile(source: Source, options: CompileOptions, report: Report) -> Outcome:
    start = time.perf_counter()
    sizes: list[str] = []
    defined: list[str] = []
    has_rooms = False
    try:
        with collect_placement_warnings() as warnings, KernelBuilder(options) as builder:
            found = import_staged(source, options)
            if isinstance(found, Open):
                return _open_model(found, options)
            builder.expect(found.module)
            report.took("import", start)
            declared = _Declared.of(found.module)
            # Later stages read the inputs again.
            is_whole = options.stage is None and not isinstance(found, Staged)
            if options.kind.updates_inputs and is_whole:
                donate(found.module, options.donate)
            sizes = _names(free_symbols(found.module))
            defined = _names(defined_symbols(found.module))
            has_rooms = bool(size_ranges(found.module))
            if sizes and not options.kind.serves_sizes:
                raise OpenSizeError(f"a program for {options.kind.name} has one size", sizes)
            program = _build(found.module, options, builder, report)
    except TcoptError as error:
        if defined and not isinstance(error, CancelledError):
            if has_rooms:
                notice("compile", defined[0], f"compiled for each value: {error.message}")
                return _compile(source, replace(options, rooms=None), report)
            notice("compile", defined[0], f"compiled once it is known: {error.message}")
            return _compile(source, replace(options, defines=False), report)
        return _compile(source, _for_each_size(error, sizes, options), report)
    release_weights(found.module)
    declared.describe(program, found)
    files = sorted(found.files)
    if not isinstance(found, Staged):
        return Compiled(program, files, warnings=warnings)
    outputs = declared_specs(found.model, ImportOptions(dims=options.dims))[1]
    if options.stage is not None:
        outputs = [spec for spec in outputs if spec.name in options.stage.outputs]
    return Compiled(program, files, found.rest, outputs, warnings)


def _names(symbols: Iterable[Symbol]) -> list[str]:
    return list(dict.fromkeys(symbol.name for symbol in symbols))


def _for_each_size(
    error: TcoptError, sizes: Sequence[str], options: CompileOptions
) -> CompileOptions:
    """Return options with which a model is compiled for each value of its sizes, after an error.

    Raises:
        TcoptError: the error, if the sizes must keep their ranges.
    """
    given_up = {name for name in sizes if falls_back(name, options.dims)}
    if not sizes or given_up != {*sizes} or isinstance(error, CancelledError):
        if sizes:
            error.hint = error.hint or size_advice(sizes)
        raise error
    for name in sizes:
        notice("compile", name, f"compiled for each value: {error.message}")
    kept = {name: size for name, size in options.dims.items() if name not in given_up}
    return replace(options, dims=kept)


def _open_model(found: Open, options: CompileOptions) -> OpenModel:
    """Return the declarations of a model with open sizes."""
    missing = found.missing
    deciding = missing.inputs if isinstance(missing, MissingValuesError) else ()
    # Inputs of a later stage are results of earlier ones, so they are not declared.
    specs = ([], []) if options.stage is not None else declared_specs(found.model, options)
    rooms = missing.ranges if isinstance(missing, MissingRoomsError) else {}
    return OpenModel(*specs, missing, deciding, rooms)


@dataclass(frozen=True)
class _Declared:
    """Dimensions of the inputs and results of an imported module, before passes change it."""

    inputs: Sequence[Dims]
    results: Mapping[str, Dims]

    @staticmethod
    def of(module: ModuleOp) -> _Declared:
        """Read the dimensions of a module."""
        (main,) = (op for op in module.ops if isinstance(op, FuncOp) and op.sym_name.data == "main")
        names = module.attributes["graph.outputs"]
        assert isinstance(names, ArrayAttr)
        inputs, results = dims_of(main)
        texts = [entry.data for entry in names if isinstance(entry, StringAttr)]
        # By name, as passes may insert other results between them.
        return _Declared(inputs, dict(zip(texts, results, strict=False)))

    def describe(self, program: WholeProgram, found: Fixed) -> None:
        """Set the dimensions and the signature of a program's inputs and outputs."""
        program.inputs = [
            # The RNG key is an extra trailing input.
            s._replace(dims=d)
            for s, d in zip(program.inputs, self.inputs, strict=False)
        ]
        program.outputs = [s._replace(dims=self.results.get(s.name, ())) for s in program.outputs]
        counts = found.input_counts, found.output_counts
        if any(counts):
            program.signature = _signature(found.model.graph, program, *counts)


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


def with_remarks(program: WholeProgram, remarks: Iterable[Remark]) -> WholeProgram:
    """Set the remarks of a program, and the schedule rule and slowness of its timed kernels."""
    program.remarks = tuple(remarks)
    rules = {
        remark.subject: remark.by
        for remark in program.remarks
        if not remark.missed and remark.message.startswith(SCHEDULED)
    }
    slow: dict[str, list[str]] = {}
    for remark in program.remarks:
        if remark.slow:
            slow.setdefault(remark.subject, []).append(remark.message)
    if program.timed is not None:
        program.timed = [
            replace(kernel, rule=rules.get(name, ""), slow="; ".join(slow.get(name, ())))
            for kernel in program.timed
            for name in (f"@{kernel.kernel}",)
        ]
    return program


def lower(
    module: ModuleOp, phases: Iterable[Phase], instruments: Sequence[Instrument] = ()
) -> None:
    """Run the passes of `phases` on a module, in place.

    Args:
        instruments: called around each pass.
    Raises:
        PassFailedError: a pass could not rewrite the module.
    """
    run_passes(module, tuple(each for phase in phases for each in phase.passes), instruments)


def slow_kernels(module: ModuleOp, phases: Iterable[Phase]) -> list[Remark]:
    """Return the remarks about slow kernels after scheduling, without generating code.

    Args:
        module: an imported model, which is modified.
        phases: the pipeline of the target.
    Raises:
        PassFailedError: a pass could not rewrite the module.
    """
    with collect_remarks() as remarks:
        lower(module, up_to(phases, "schedule"))
    return list(dict.fromkeys(remark for remark in remarks if remark.slow))


def _build(
    module: ModuleOp, options: CompileOptions, builder: KernelBuilder, report: Report
) -> WholeProgram:
    """Compile an imported module to a program."""
    by_name = {phase.name: phase for phase in options.phases}
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
        program = kind_of(module).build(module, weights, kernels, timed=options.timed)
    program.compile_times.update(report.seconds)
    program.kernels_compiled = builder.compiled
    report.done()
    return program


def declared_specs(
    source: Source, options: ImportOptions = NO_OPTIONS
) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """Return the declared inputs and outputs of a model; open dimensions are None or names.

    Raises:
        InputError: shapes, values or dims of the options do not fit the model.
    """
    model = without_defaults(load_model(source)[0], {*options.shapes, *options.values})
    graph = model.graph
    weights = {name for name, _ in graph_weights(graph)}
    inputs = [declared_input(info) for info in graph.input if info.name not in weights]
    tensors, _, plain = expand_lists(inputs, options.shapes)
    symbols = narrow_inputs(
        tensors, plain, options.values, options.dims, output_names(graph.output)
    )
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
    dims = tuple(str(d) if isinstance(d, Size) else d for d in item.dims)
    named = item.declared or ()
    if item.kind.is_optional:
        dims, named = tuple(None if isinstance(d, str) else d for d in dims), ()
    return TensorSpec(item.name, dims, item.dtype, named, kind=item.kind)
