"""Imports ONNX models as graph-level modules."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from onnx import (
    ModelProto,
    NodeProto,
)
from xdsl.dialects.builtin import (
    ArrayAttr,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from tcopt.dialects.graph.control.scan import ScanOp
from tcopt.dialects.graph.core.dims import name_dims
from tcopt.dialects.graph.core.donation import set_size_ranges
from tcopt.dialects.graph.core.types import tensor
from tcopt.dialects.graph.core.weights import WeightStore, attach_weights
from tcopt.dialects.size import (
    defined_symbols,
    definitions_for,
    function_symbols,
    set_function_symbols,
    symbols_in,
)
from tcopt.frontends.onnx.context.builder import GraphBuilder, named_location
from tcopt.frontends.onnx.context.value_sizes import NOTHING_IMPLIED, Implied, ValueSizes
from tcopt.frontends.onnx.model.defaults import without_defaults
from tcopt.frontends.onnx.model.errors import (
    MissingRoomsError,
    MissingValuesError,
    OpenSizeError,
)
from tcopt.frontends.onnx.model.imported import Fixed, Imported, Open, Staged
from tcopt.frontends.onnx.model.initializers import Weight, graph_weights
from tcopt.frontends.onnx.model.inputs import (
    ModelInput,
    declared_input,
    falls_back,
    fix_inputs,
    passed_input,
)
from tcopt.frontends.onnx.model.limits import DEFAULT_LIMITS, ModelLimits
from tcopt.frontends.onnx.model.lists import expand_lists, value_of
from tcopt.frontends.onnx.model.loading import check_header, domain_opsets, load_model
from tcopt.frontends.onnx.model.options import Dims, ImportOptions, Shapes, Source, Values
from tcopt.frontends.onnx.model.outputs import (
    Results,
    declared_extents,
    expand_output,
    output_names,
    result_dims,
    stale_shapes,
)
from tcopt.frontends.onnx.model.problems import Problems
from tcopt.frontends.onnx.model.stage import ImportStage
from tcopt.frontends.onnx.model.tensors import TensorReader
from tcopt.frontends.onnx.model.values import (
    FAILED,
    NOTHING,
    Deferred,
    Failed,
    Scope,
    SequenceValue,
)
from tcopt.frontends.onnx.nodes.nodes import NodeImporter
from tcopt.frontends.onnx.nodes.stages import NodeStaging
from tcopt.support.data.random_keys import KEY_INPUT
from tcopt.support.data.strings import is_text
from tcopt.support.data.structures import Count, Kind
from tcopt.support.errors import ImportModelError, TcoptError, UnsupportedError
from tcopt.support.host.host_calls import STRINGS, TEXT_INPUTS, TEXT_OUTPUTS
from tcopt.support.remarks import notice, remark

T = TypeVar("T")


def import_model(
    source: Source,
    *,
    shapes: Shapes | None = None,
    values: Values | None = None,
    dims: Dims | None = None,
    limits: ModelLimits = DEFAULT_LIMITS,
    follow_links: bool = False,
) -> ModuleOp:
    """Import an ONNX model (IR version 3 or newer).

    Operators of opsets before 6 are supported if their form is the same in opset 6.

    The module has a function `func.func @main`, whose arguments and results are the model's inputs
    and outputs in order; their ONNX names are the module's attributes `graph.inputs` and
    `graph.outputs`. Weights are in the module's weight store. The location of each op is the name
    of its node. The model's results may be followed by the values of sizes that they have and that
    the program defines, as many as `graph.sizes` says, and by checks, as many as `graph.checks`
    says. If a check is true, the run fails with the check's name as the reason. It also fails if a
    value of a size is outside of its range in `graph.size_ranges`.

    Args:
        source: path of a file, its bytes, or a decoded model. External data is only supported for
            files, and only inside the file's folder.
        shapes: shapes of inputs with open dimensions; a list of shapes for a sequence, None for an
            absent optional. Dimensions with the same symbol need to be given only once. An input
            with a default value is only an input if its shape or value is given.
        values: values of inputs to specialise on, if they determine shapes.
        dims: extents of open dimensions by their names in the model, or their ranges.
        limits: limits on the resources of a model.
        follow_links: whether symbolic links of external data may point outside its folder.

    Raises:
        InputError: the file does not exist, or shapes or values do not fit the inputs.
        ImportModelError: the model is malformed.
        MissingShapesError: inputs have open dimensions.
        MissingValuesError: shapes depend on values of inputs.
        UnsupportedError: the model has unsupported features; one error lists all of them.
    """
    options = ImportOptions(shapes or {}, values or {}, dims or {}, limits, follow_links)
    return import_whole(source, options)


def import_whole(source: Source, options: ImportOptions) -> ModuleOp:
    """Import a model with known sizes; see `import_model`."""
    return _sized(_loaded(source, options)).module


def import_first_stage(source: Source, options: ImportOptions) -> ModuleOp:
    """Import a model as far as its sizes are known; for errors see `import_model`."""
    found = import_staged(source, options)
    if isinstance(found, Open) and isinstance(found.missing, MissingRoomsError):
        found = import_staged(source, replace(options, rooms=None))
    return _sized(found).module


def import_staged(source: Source, options: ImportOptions) -> Imported:
    """Import a model, or the stage that the options name, as far as sizes are known.

    The options may include shapes and values of results of earlier stages.

    Raises:
        TcoptError: see `import_model`; missing shapes and values are returned instead.
    """
    return _loaded(source, options, in_stages=True)


def _loaded(source: Source, options: ImportOptions, *, in_stages: bool = False) -> Imported:
    """Decode a model, and import it."""
    model, reader = load_model(source, follow_links=options.follow_links)
    check_header(model)
    return _imported(model, reader, options, in_stages=in_stages)


def _sized(found: Imported) -> Fixed:
    if isinstance(found, Open):
        raise found.missing
    return found


def _imported(
    given: ModelProto,
    reader: TensorReader,
    options: ImportOptions,
    *,
    in_stages: bool = False,
    implied: Implied = NOTHING_IMPLIED,
) -> Imported:
    """Import a model; again if that shows ranges of sizes, or sizes that have to be numbers."""
    model = without_defaults(given, {*options.shapes, *options.values})
    if in_stages and options.stage is None:
        outputs = tuple(info.name for info in model.graph.output)
        options = replace(options, stage=ImportStage(tuple(range(len(model.graph.node))), outputs))
    problems = Problems()
    importer = ModelImporter(model, reader, problems, options)
    values = importer.builder.values = ValueSizes(importer.builder, options, implied)
    found = importer.run()
    if values.implied != implied:
        return _imported(given, reader, options, in_stages=in_stages, implied=values.implied)
    if found is not None and (open_sizes := _sizes_of_stages(found)) is not None:
        problems.errors.append(open_sizes)
    elif found is not None:
        return found
    if rooms := values.needed_numbers(problems.errors):
        options = replace(options, rooms=rooms)
        return _imported(given, reader, options, in_stages=in_stages, implied=implied)
    if (names := {symbol.name for symbol in defined_symbols(importer.block)}) and any(
        isinstance(error, OpenSizeError) and names & {*error.names} for error in problems.errors
    ):
        options = replace(options, defines=False)
        return _imported(given, reader, options, in_stages=in_stages)
    if (names := _given_up(problems.errors, options)) is not None:
        error = problems.error()
        for name in names:
            message = f"compiled for each value of {name!r}: {error.message} (at {error.where})"
            notice("import-onnx", name, message)
        kept = {name: given for name, given in options.dims.items() if name not in names}
        return _imported(given, reader, replace(options, dims=kept), in_stages=in_stages)
    error = problems.error()
    if isinstance(error, MissingValuesError) and error.inputs:
        return Open(model, error)
    raise error


def _sizes_of_stages(found: Imported) -> OpenSizeError | None:
    """Return the error for a model with sizes of which later stages are imported at run time."""
    if not isinstance(found, Staged):
        return None
    symbols = [symbol for op in found.module.ops for symbol in function_symbols(op)]
    names = dict.fromkeys(symbol.name for symbol in symbols)
    return OpenSizeError("shapes of the model depend on data", list(names)) if names else None


def _given_up(errors: Sequence[TcoptError], options: ImportOptions) -> Collection[str] | None:
    """Return the sizes whose ranges have to be given up; None if a size must keep its range."""
    names: set[str] = set()
    for error in errors:
        if not isinstance(error, OpenSizeError):
            return None
        own = {name for name in error.names if falls_back(name, options.dims)}
        if not own:
            return None
        names |= own
    return names or None


class ModelImporter:
    """Importer of a model, to be used once.

    Args:
        problems: collects errors; raises those that must stop the import.
        options: their stage is the part to import, as far as shapes are known; without one, the
            whole model must have known sizes.
    """

    def __init__(
        self, model: ModelProto, reader: TensorReader, problems: Problems, options: ImportOptions
    ):
        self.model = model
        self.graph = model.graph
        self.options = options
        self.stage = options.stage
        self.staging: NodeStaging | None = None
        self.output_counts: dict[str, Count] = {}
        self.problems = problems
        self.reader = reader
        self.initializers = self._initializers()
        self.weights = WeightStore()
        self.block = Block()
        limits, opsets = options.limits, domain_opsets(model)
        self.builder = GraphBuilder(self.block, self.weights, reader, limits)
        self.builder.defines = options.defines and options.computes_sizes
        self.sizes = 0
        self.nodes = NodeImporter(model, self.builder, self.initializers, opsets, problems, limits)

    def run(self) -> Imported | None:
        """Import the model; return None if there are problems."""
        scope: Scope = {}
        declared = self._inputs(scope)
        given = _without(scope, self.options.shapes)
        inputs, counts, shapes = expand_lists(declared, given, self.options.limits)
        nodes: Sequence[NodeProto] = self.graph.node
        if self.stage is not None:
            inputs += map(passed_input, self.stage.inputs)
            nodes = [nodes[place] for place in self.stage.nodes]
        values = _without(scope, self.options.values)
        missing = fix_inputs(
            inputs, shapes, values, self.options.dims, output_names(self.graph.output)
        )
        if missing is not None:
            return Open(self.model, missing)
        arguments = {item.name: self._argument(item) for item in inputs}
        scope.update((item.name, value_of(item, counts, arguments)) for item in declared)
        if self.stage is not None:
            staging = NodeStaging(self.builder, self.stage, arguments, counts)
            self.staging = self.nodes.staging = staging
            scope.update(self._passed(self.stage, arguments))
        available = scope.keys() | self.initializers.keys()
        self.nodes.import_nodes(nodes, available, scope, "", 0)
        results = self._outputs(scope)
        self.builder.values.use_declarations(inputs, declared_extents(self.graph.output, results))
        if self.problems.errors:
            return None
        rest = None
        if self.staging is not None:
            more, rest = self.staging.rest(self.graph.node, scope, self.initializers)
            results += more
        if self.builder.values.missing:
            return Open(self.model, MissingRoomsError(self.builder.values.missing))
        results += self._defined(results)
        results += self.builder.checks
        self.block.add_op(ReturnOp(*(value for _, value in results)))
        self.builder.erase_unused()
        module = self._module(inputs, results)
        known = self.model, self.reader.files, module, counts, self.output_counts
        return Fixed(*known) if rest is None else Staged(*known, rest)

    def _defined(self, results: Results) -> Results:
        """Return the values of the sizes that results have and the program defines, and of those
        whose ranges a run has to check.
        """
        ops = definitions_for(self.block, (value for _, value in results))
        found = {op.symbol.name: op.count for op in ops}
        found |= {name: count for name, (_, count) in self.builder.values.ranges.items()}
        self.sizes = len(found)
        return list(found.items())

    def _argument(self, item: ModelInput) -> SSAValue:
        self._check_input(item)
        argument = self.block.insert_arg(tensor(item.shape, item.element), len(self.block.args))
        self.builder.add_argument(argument, item.name)
        value = item.value
        if is_text(item.dtype):
            self.builder.texts.add(argument)
            value = None if value is None else self.builder.strings.encode(value)
        if value is not None:
            self.builder.known[argument] = value
        return argument

    def _passed(self, stage: ImportStage, arguments: Mapping[str, SSAValue]) -> Scope:
        """Return the values passed from earlier stages."""
        tensors = {item.name: arguments[item.name] for item in stage.inputs}
        for name, array in stage.known.items():
            tensors[name] = self.builder.constant(array)
        self.builder.measured = {name: tensors.pop(name) for name in stage.measured}
        parts = {part for names in stage.lists.values() for part in names or ()}
        passed: Scope = {name: value for name, value in tensors.items() if name not in parts}
        for name, names in stage.lists.items():
            passed[name] = NOTHING
            if names is not None:
                passed[name] = SequenceValue(tuple(tensors[part] for part in names))
        return passed

    def _module(self, inputs: list[ModelInput], results: Results) -> ModuleOp:
        signature = FunctionType.from_lists(
            [argument.type for argument in self.block.args],
            [value.type for _, value in results],
        )
        function = FuncOp("main", signature, Region(self.block))
        function.location = named_location(self.graph.name or "main")
        set_function_symbols(function, symbols_in(signature.inputs))
        name_dims(
            function,
            [item.declared for item in inputs] + [(1,)] * (self.builder.key is not None),
            result_dims(inputs, self.graph.output, results),
        )
        for message in stale_shapes(self.graph.output, results):
            remark("import-onnx", function, message, missed=True)
        module = ModuleOp([*_called(self.builder.functions, function), function])
        keys = [KEY_INPUT] if self.builder.key is not None else []
        module.attributes["graph.inputs"] = _names([*(item.name for item in inputs), *keys])
        if keys:
            module.attributes["graph.keys"] = IntegerAttr(len(keys), i64)
        module.attributes["graph.outputs"] = _names(name for name, _ in results)
        if self.sizes:
            module.attributes["graph.sizes"] = IntegerAttr(self.sizes, i64)
        ranges = {name: range_ for name, (range_, _) in self.builder.values.ranges.items()}
        set_size_ranges(module, ranges)
        if self.builder.checks:
            module.attributes["graph.checks"] = IntegerAttr(len(self.builder.checks), i64)
        attach_weights(module, self.weights)
        self._name_texts(module, inputs, results)
        return module

    def _name_texts(self, module: ModuleOp, inputs: list[ModelInput], results: Results) -> None:
        """Record which inputs and outputs are strings, and the string table."""
        texts = {
            TEXT_INPUTS: [item.name for item in inputs if is_text(item.dtype)],
            TEXT_OUTPUTS: [name for name, value in results if value in self.builder.texts],
            STRINGS: self.builder.strings.texts,
        }
        if len(texts[STRINGS]) > 1 or texts[TEXT_INPUTS] or texts[TEXT_OUTPUTS]:
            module.attributes.update((name, _names(found)) for name, found in texts.items())

    # Declarations of the graph

    def _initializers(self) -> dict[str, Weight]:
        found: dict[str, Weight] = {}
        for name, weight in graph_weights(self.graph):
            if not name:
                self.problems.add(ImportModelError("a weight has no name"))
            if name in found:
                message = f"the weight {name!r} is defined twice"
                self.problems.add(ImportModelError(message))
            found[name] = weight
        return found

    def _inputs(self, scope: Scope) -> list[ModelInput]:
        """Return the inputs; `scope` receives those with unsupported declarations."""
        # Initializers may be listed as inputs, see `model.defaults`.
        infos = [info for info in self.graph.input if info.name not in self.initializers]
        found: dict[str, ModelInput] = {}
        for info in infos:
            try:
                if info.name in found or info.name in scope:
                    raise ImportModelError(f"the input {info.name!r} is declared twice")
                found[info.name] = declared_input(info)
            except TcoptError as error:
                self.problems.add(error)
                if info.name not in found:
                    scope[info.name] = FAILED
        return list(found.values())

    def _check_input(self, item: ModelInput) -> None:
        try:
            self.builder.check_size(item.shape, item.dtype.itemsize)
        except (ImportModelError, UnsupportedError) as error:
            error.where = item.name
            self.problems.add(error)

    def _outputs(self, scope: Scope) -> Results:
        if not self.graph.output:
            self.problems.add(ImportModelError("the model has no outputs"))
        results: Results = []
        for info in self.graph.output:
            if self.stage is not None and info.name not in self.stage.outputs:
                continue
            try:
                value = scope.get(info.name)
                if info.name in self.initializers:
                    value = self.nodes.operand(info.name, scope, "model")
                if isinstance(value, Failed | Deferred):
                    continue
                kind, tensors, count = expand_output(info, value, self.builder.texts)
                if kind is not Kind.TENSOR:
                    self.output_counts[info.name] = count
                results += tensors
            except TcoptError as error:
                self.problems.add(error)
        return results


def _without(scope: Scope, given: Mapping[str, T]) -> dict[str, T]:
    return {name: value for name, value in given.items() if name not in scope}


def _called(functions: Sequence[FuncOp], main: FuncOp) -> list[FuncOp]:
    """Return the loop bodies that are still called, directly or indirectly."""
    by_name = {function.sym_name.data: function for function in functions}
    kept: dict[str, FuncOp] = {}
    pending = [main]
    while pending:
        for op in pending.pop().walk():
            if isinstance(op, ScanOp) and (name := op.body.string_value()) not in kept:
                kept[name] = by_name[name]
                pending.append(kept[name])
    return [function for name, function in by_name.items() if name in kept]


def _names(names) -> ArrayAttr[StringAttr]:
    return ArrayAttr([StringAttr(name) for name in names])
