"""ONNX models to graph-level modules."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from onnx import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
)
from xdsl.dialects.builtin import ArrayAttr, FunctionType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.dims import name_dims
from tcopt.dialects.graph.types import shape_of, tensor
from tcopt.dialects.graph.weights import WeightStore, attach_weights
from tcopt.frontends.onnx.builder import GraphBuilder, name_hint, named_location
from tcopt.frontends.onnx.context import NodeContext
from tcopt.frontends.onnx.contrib import find_contrib_schema
from tcopt.frontends.onnx.control_flow import CONTROL_FLOW, Bodies
from tcopt.frontends.onnx.errors import MissingValuesError
from tcopt.frontends.onnx.functions import (
    ExpansionBudget,
    bound_nodes,
    check_expansion,
    function_opset,
    model_functions,
    standard_body,
)
from tcopt.frontends.onnx.inputs import ModelInput, declared_input, fix_inputs
from tcopt.frontends.onnx.limits import DEFAULT_LIMITS, Limits
from tcopt.frontends.onnx.loading import check_header, load_model
from tcopt.frontends.onnx.node_facts import STANDARD_DOMAINS, add_facts, operator_name
from tcopt.frontends.onnx.ordering import in_order, node_label
from tcopt.frontends.onnx.outputs import Results, check_output, result_dims
from tcopt.frontends.onnx.problems import AlreadyReported, Problems
from tcopt.frontends.onnx.registry import Handler, find_handler
from tcopt.frontends.onnx.schemas import NodeSchema, check_form_of, find_schema, opset_advice
from tcopt.frontends.onnx.sequences import sequence_handler
from tcopt.frontends.onnx.stages import Rest, Stage, Staging
from tcopt.frontends.onnx.tensors import TensorReader
from tcopt.frontends.onnx.values import FAILED, Deferred, Failed, Scope, Value, Values
from tcopt.support.errors import ImportModelError, TcoptError, UnsupportedError

T = TypeVar("T")


def import_model(
    source: str | Path | bytes | ModelProto,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, np.ndarray] | None = None,
    dims: Mapping[str, int] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> ModuleOp:
    """Import an ONNX model (IR version 3 or newer).

    Operators of opsets before 6 are supported where they have kept their form.

    The module holds `func.func @main`, whose arguments and results are the model's inputs
    and outputs in their order; their ONNX names are the module's attributes
    `graph.inputs` and `graph.outputs`. Weights are in the module's weight store. Each op's
    location is the name of its node.

    Args:
        source: a file, its bytes, or a decoded model. Weights in other files are found
            only for a file, and only inside its folder.
        shapes: shapes of inputs whose dimensions the model leaves open. Dimensions with
            the same symbol need to be given once.
        values: inputs to specialise on, where a value decides shapes.
        dims: extents of dimensions that the model leaves open, by the names it gives them.
        limits: how much the model may ask for.

    Raises:
        InputError: no such file, or shapes and values that do not fit the inputs.
        ImportModelError: the model is malformed.
        MissingShapesError: inputs with open dimensions.
        MissingValuesError: shapes decided by inputs' values.
        UnsupportedError: everything the compiler does not handle, in one error.
    """
    return import_loaded(
        *load_model(source), shapes=shapes, values=values, dims=dims, limits=limits
    )


def import_loaded(
    model: ModelProto,
    reader: TensorReader,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, np.ndarray] | None = None,
    dims: Mapping[str, int] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> ModuleOp:
    """As `import_model`, for what `load_model` gave."""
    opset = check_header(model)
    problems = Problems()
    importer = ModelImporter(model, reader, opset, problems, limits=limits)
    module = importer.run(shapes or {}, values or {}, dims)
    problems.raise_all()
    assert module is not None
    return module


def import_stage(
    model: ModelProto,
    reader: TensorReader,
    stage: Stage | None = None,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, np.ndarray] | None = None,
    dims: Mapping[str, int] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[ModuleOp, Rest | None]:
    """As `import_loaded`, as much of a model as its shapes are known for.

    Args:
        stage: what is left of the model, by default all of it.
        shapes, values: of what the stage takes from others, too.

    Returns:
        The module, whose outputs include what the next stage takes, and what comes after it;
        None if that is nothing.
    """
    opset = check_header(model)
    problems = Problems()
    stage = stage or Stage(
        tuple(range(len(model.graph.node))), tuple(info.name for info in model.graph.output)
    )
    importer = ModelImporter(model, reader, opset, problems, stage, limits)
    module = importer.run(shapes or {}, values or {}, dims)
    problems.raise_all()
    assert module is not None
    return module, importer.rest


class ModelImporter:
    """Imports one model, once.

    Args:
        problems: receives what is wrong; says by raising where to stop.
        stage: imports this part, as far as shapes are known; by default the whole model.

    Attributes:
        rest: what comes after the stage that was imported.
    """

    def __init__(
        self,
        model: ModelProto,
        reader: TensorReader,
        opset: int,
        problems: Problems,
        stage: Stage | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ):
        self.graph = model.graph
        self.stage = stage
        self.staging: Staging | None = None
        self.rest: Rest | None = None
        self.opset = opset
        self.reader = reader
        self.problems = problems
        self.versions = {o.domain: o.version for o in model.opset_import}
        self.functions = model_functions(model)
        check_expansion(self.graph.node, self.functions, limits)
        self.budget = ExpansionBudget(limits)
        self.initializers = self._initializers()
        self.weights = WeightStore()
        self.block = Block()
        self.builder = GraphBuilder(self.block, self.weights, reader, limits)

    def run(
        self,
        shapes: Mapping[str, Sequence[int]],
        values: Mapping[str, np.ndarray],
        dims: Mapping[str, int] | None = None,
    ) -> ModuleOp | None:
        """The module; None if there are problems."""
        scope: Scope = {}
        inputs = self._inputs(scope)
        nodes: Sequence[NodeProto] = self.graph.node
        if self.stage is not None:
            # What a program fixes is its own.
            inputs += [replace(item) for item in self.stage.inputs]
            nodes = [nodes[place] for place in self.stage.nodes]
        fix_inputs(inputs, _without(scope, shapes), _without(scope, values), dims)
        arguments: dict[str, SSAValue] = {}
        for item in inputs:
            self._check_input(item)
            argument = self.block.insert_arg(tensor(item.shape, item.element), len(self.block.args))
            self.builder.add_argument(argument, item.name)
            if item.value is not None:
                self.builder.known[argument] = item.value
            arguments[item.name] = argument
        scope.update(arguments)
        if self.stage is not None:
            self.staging = Staging(self.builder, arguments)
            for name, array in self.stage.known.items():
                scope[name] = self.builder.constant(array)
        available = scope.keys() | self.initializers.keys()
        self._import_nodes(nodes, available, scope, self.opset, "", 0)
        results = self._outputs(scope)
        if self.problems.errors:
            return None
        if self.stage is not None and self.staging is not None:
            more, self.rest = self.staging.rest(
                self.graph.node, self.stage.outputs, scope, self.initializers
            )
            results += more
        self.block.add_op(ReturnOp(*(value for _, value in results)))
        self.builder.erase_unused()
        return self._module(inputs, results)

    def _module(self, inputs: list[ModelInput], results: Results) -> ModuleOp:
        signature = FunctionType.from_lists(
            [argument.type for argument in self.block.args],
            [value.type for _, value in results],
        )
        function = FuncOp("main", signature, Region(self.block))
        function.location = named_location(self.graph.name or "main")
        name_dims(
            function,
            [item.declared for item in inputs],
            result_dims(inputs, self.graph.output, results),
        )
        module = ModuleOp([*self.builder.functions, function])
        module.attributes["graph.inputs"] = _names(item.name for item in inputs)
        module.attributes["graph.outputs"] = _names(name for name, _ in results)
        attach_weights(module, self.weights)
        return module

    # The graph's declarations

    def _initializers(self) -> dict[str, TensorProto]:
        if self.graph.sparse_initializer:
            self.problems.add(UnsupportedError("sparse weights are not supported"))
        found: dict[str, TensorProto] = {}
        for weight in self.graph.initializer:
            if not weight.name:
                self.problems.add(ImportModelError("a weight has no name"))
            if weight.name in found:
                message = f"the weight {weight.name!r} is defined twice"
                self.problems.add(ImportModelError(message))
            found[weight.name] = weight
        return found

    def _inputs(self, scope: Scope) -> list[ModelInput]:
        """The inputs; `scope` receives those whose declaration cannot be used."""
        # Before IR version 4 the weights are listed among the inputs.
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
                    value = self._operand(info.name, scope, "model")
                if isinstance(value, Failed | Deferred):
                    continue
                if not isinstance(value, SSAValue):
                    raise ImportModelError(f"nothing defines the output {info.name!r}")
                check_output(info, value)
                results.append((info.name, value))
            except TcoptError as error:
                self.problems.add(error)
        return results

    # Nodes

    def _operand(self, name: str, scope: Scope, where: str) -> Value:
        if not name:
            return None
        if name in scope:
            return scope[name]
        value: Value = FAILED
        try:
            weight = self.initializers.get(name)
            if weight is None:
                raise ImportModelError(
                    f"the value {name!r} is used but nothing defines it", where=where
                )
            value = self.builder.constant(self.reader.read(weight, name), name)
        except TcoptError as error:
            self.problems.add(error)
        scope[name] = value
        return value

    def _import_nodes(
        self,
        nodes: Sequence[NodeProto],
        available: Container[str],
        scope: Scope,
        opset: int,
        prefix: str,
        depth: int,
    ) -> None:
        def report(node: NodeProto, message: str) -> None:
            error = ImportModelError(message)
            self._report(error, node, scope, opset, prefix + node_label(node))

        order, stuck = in_order(nodes, available, report)
        for node in stuck:
            scope.update((name, FAILED) for name in node.output if name)
        staging = None if depth else self.staging
        for node in (*order, *stuck):
            if staging is not None and staging.waits(node, scope):
                continue
            self._import_node(node, scope, opset, prefix + node_label(node), depth)
            if staging is not None:
                staging.hold_back(node, scope)

    def _import_node(
        self, node: NodeProto, scope: Scope, opset: int, where: str, depth: int
    ) -> None:
        self.builder.location = named_location(where)
        self.builder.may_bound = not depth and self.staging is not None
        try:
            operands = [self._operand(name, scope, where) for name in node.input]
            results = self._results(node, operands, scope, opset, where, depth)
            for name in node.output[len(results) :]:
                if name:
                    raise ImportModelError(f"{node.op_type} has no output number {len(results)}")
        except AlreadyReported:
            results = [FAILED] * len(node.output)
        except _MISTAKES as mistake:
            if depth and self.staging is not None and isinstance(mistake, MissingValuesError):
                # What is around may wait.
                raise
            if not depth and self._awaits(mistake, node, scope):
                return
            self._report(_as_error(mistake, node.op_type), node, scope, opset, where)
            results = [FAILED] * len(node.output)
        for name, value in zip(node.output, results, strict=False):
            if not name:
                continue
            scope[name] = value
            if isinstance(value, SSAValue) and value.name_hint is None:
                value.name_hint = name_hint(name)

    def _awaits(self, mistake: Exception, node: NodeProto, scope: Scope) -> bool:
        """Whether a node is left for a stage that knows more values."""
        if self.staging is None or not isinstance(mistake, MissingValuesError):
            return False
        awaits = self.staging.awaits(mistake, node, scope)
        if awaits:
            self.staging.leave(node, scope)
        return awaits

    def _report(
        self, error: TcoptError, node: NodeProto, scope: Scope, opset: int, where: str
    ) -> None:
        error.where = error.where or where
        version = opset
        if node.domain not in STANDARD_DOMAINS:
            version = self.versions.get(node.domain, 0)
        add_facts(error, node, version, scope, self.initializers)
        self.problems.add(error)

    def _results(
        self,
        node: NodeProto,
        operands: list[Value],
        scope: Scope,
        opset: int,
        where: str,
        depth: int,
    ) -> Values:
        function = self.functions.get((node.domain, node.op_type, node.overload))
        if function is not None:
            return self._call(function, node, operands, opset, where, depth)
        name = operator_name(node)
        if node.domain not in STANDARD_DOMAINS:
            schema = find_contrib_schema(node.domain, node.op_type)
            if schema is None:
                raise UnsupportedError(
                    f"operator {name} is not supported",
                    where=where,
                    hint="define it as a function of the model, or export standard operators",
                )
        else:
            check_form_of(node.op_type, opset)
            schema = find_schema(node.op_type, opset)
        if schema is None:
            raise UnsupportedError(
                f"there is no operator {node.op_type!r} in opset {opset}",
                where=where,
                hint=opset_advice(node.op_type, opset),
            )
        takes_lists = sequence_handler(name, operands)
        has_bodies = name in CONTROL_FLOW
        handle = find_handler(name, opset)
        if not (handle or schema.has_body or takes_lists or has_bodies):
            raise UnsupportedError(f"operator {node.op_type} is not supported", where=where)
        if any(isinstance(value, Failed) for value in operands):
            return [FAILED] * len(node.output)
        schema.check_form(node, where)
        if takes_lists is not None or has_bodies:
            ctx = NodeContext(node, schema, [], self.builder, opset, where)
            if takes_lists is not None:
                return [takes_lists(ctx, operands)]
            return Bodies(self, ctx, scope, depth).run(operands)
        present = [value for value in operands if value is None or isinstance(value, SSAValue)]
        if len(present) == len(operands):
            schema.check_types([value and value.type for value in present], where)
            if handle is not None:
                return self._handle(handle, node, schema, present, opset, where)
        body = standard_body(node, schema, opset, operands)
        if body is None:
            raise UnsupportedError(f"operator {node.op_type} is not supported", where=where)
        return self._call(body, node, operands, opset, where, depth)

    def _handle(
        self,
        handle: Handler,
        node: NodeProto,
        schema: NodeSchema,
        operands: list[SSAValue | None],
        opset: int,
        where: str,
    ) -> Sequence[SSAValue | None]:
        context = NodeContext(node, schema, operands, self.builder, opset, where)
        try:
            results = handle(context)
        except VerifyException as error:
            shapes = ", ".join(str(list(shape_of(v))) for v in operands if v is not None)
            raise ImportModelError(f"{node.op_type} of {shapes}: {error}", where=where) from error
        return [results] if isinstance(results, SSAValue) else results

    def _call(
        self,
        function: FunctionProto,
        node: NodeProto,
        operands: list[Value],
        opset: int,
        where: str,
        depth: int,
    ) -> Sequence[Value]:
        self.budget.spend(len(function.node), depth, where)
        if len(operands) > len(function.input):
            raise ImportModelError(
                f"function {function.name!r} takes {len(function.input)} inputs, here it has "
                f"{len(operands)}",
                where=where,
            )
        missing = [None] * (len(function.input) - len(operands))
        scope: Scope = dict(zip(function.input, [*operands, *missing], strict=True))
        inner_opset = function_opset(function, opset)
        body = bound_nodes(function, node)
        self._import_nodes(body, scope.keys(), scope, inner_opset, f"{where}/", depth + 1)
        for name, wanted in zip(function.output, node.output, strict=False):
            if wanted and name not in scope:
                raise ImportModelError(
                    f"nothing defines output {name!r} of function {function.name!r}", where=where
                )
        return [scope.get(name) for name in function.output]

    def import_body(
        self, body: GraphProto, scope: Scope, opset: int, where: str, depth: int
    ) -> list[Value]:
        """The values of a body's outputs; `scope` holds its inputs and the names around it."""
        for weight in body.initializer:
            value = self.reader.read(weight, weight.name)
            scope[weight.name] = self.builder.constant(value, weight.name)
        self.budget.spend(len(body.node), depth, where)
        available = scope.keys() | self.initializers.keys()
        self._import_nodes(body.node, available, scope, opset, f"{where}/", depth)
        return [self._operand(info.name, scope, where) for info in body.output]


# A file can hold any nonsense: whatever a node trips over while it is imported is its fault.
_MISTAKES = (
    TcoptError,
    VerifyException,
    ValueError,
    TypeError,
    IndexError,
    ArithmeticError,
    MemoryError,
    RecursionError,
)


def _as_error(mistake: Exception, op_type: str) -> TcoptError:
    if isinstance(mistake, TcoptError):
        return mistake
    error = ImportModelError(f"{op_type} cannot be imported: {mistake}")
    error.__cause__ = mistake
    return error


def _without(scope: Scope, given: Mapping[str, T]) -> dict[str, T]:
    return {name: value for name, value in given.items() if name not in scope}


def _names(names) -> ArrayAttr[StringAttr]:
    return ArrayAttr([StringAttr(name) for name in names])
