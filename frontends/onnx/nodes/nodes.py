"""Import of the nodes of a model, its functions and subgraphs, by operator handlers."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from traceback import walk_tb

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.types import UnequalSizes, shape_of
from tcopt.frontends.onnx.context.builder import (
    GraphBuilder,
    name_hint,
    named_location,
    names_of,
)
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import Handler, find_handler, handled_since
from tcopt.frontends.onnx.context.schemas import (
    NodeSchema,
    check_form_of,
    find_schema,
    opset_advice,
)
from tcopt.frontends.onnx.model.errors import (
    ExpansionError,
    MissingValuesError,
    OpenSizeError,
)
from tcopt.frontends.onnx.model.initializers import Weight, graph_weights
from tcopt.frontends.onnx.model.limits import DEFAULT_LIMITS, ModelLimits
from tcopt.frontends.onnx.model.node_facts import STANDARD_DOMAINS, add_facts, operator_name
from tcopt.frontends.onnx.model.problems import AlreadyReported, Problems
from tcopt.frontends.onnx.model.values import FAILED, Failed, Scope, Value, Values
from tcopt.frontends.onnx.nodes.contrib import find_contrib_schema
from tcopt.frontends.onnx.nodes.control_flow import CONTROL_FLOW
from tcopt.frontends.onnx.nodes.functions import (
    ExpansionBudget,
    bound_nodes,
    check_expansion,
    function_opsets,
    model_functions,
    standard_body,
)
from tcopt.frontends.onnx.nodes.ordering import in_order, node_label
from tcopt.frontends.onnx.nodes.sequences import sequence_handler
from tcopt.frontends.onnx.nodes.stages import NodeStaging, defer
from tcopt.support.errors import (
    ImportModelError,
    InputError,
    ResourceError,
    TcoptError,
    UndecidedSize,
    UnsupportedError,
)
from tcopt.support.registries.registration import foreign_file


class NodeImporter:
    """Imports the nodes of one model.

    Args:
        builder: receives the ops.
        weights: the model's weights by name.
        opsets: opset versions of the model by domain.
        problems: collects errors; raises those that must stop the import.

    Attributes:
        staging: decides which nodes are left to later stages; None to import all nodes.
        opsets: opset versions of the current function, or of the model.
    """

    def __init__(
        self,
        model: ModelProto,
        builder: GraphBuilder,
        weights: Mapping[str, Weight],
        opsets: Mapping[str, int],
        problems: Problems,
        limits: ModelLimits = DEFAULT_LIMITS,
    ):
        self.builder = builder
        self.weights = weights
        self.opsets = opsets
        self.problems = problems
        self.staging: NodeStaging | None = None
        self._functions = model_functions(model)
        check_expansion(model.graph.node, self._functions, limits)
        self._budget = ExpansionBudget(limits)

    @property
    def opset(self) -> int:
        """Version of the standard operators."""
        return self.opsets[""]

    @contextmanager
    def _written_for(self, opsets: Mapping[str, int]) -> Iterator[None]:
        """Use the opset versions of a function within the context."""
        around, self.opsets = self.opsets, opsets
        try:
            yield
        finally:
            self.opsets = around

    def operand(self, name: str, scope: Scope, where: str) -> Value:
        """Return the value of a name; weights become constants at their first use."""
        if not name:
            return None
        if name in scope:
            return scope[name]
        value: Value = FAILED
        try:
            weight = self.weights.get(name)
            if weight is None:
                raise ImportModelError(
                    f"the value {name!r} is used but nothing defines it", where=where
                )
            value = self.builder.constant(self.builder.read(weight, name), name)
        except TcoptError as error:
            self.problems.add(error)
        scope[name] = value
        return value

    def import_nodes(
        self,
        nodes: Sequence[NodeProto],
        available: Container[str],
        scope: Scope,
        prefix: str,
        depth: int,
    ) -> None:
        """Import nodes in topological order.

        Args:
            available: names that are defined before any node.
            scope: values by name; receives the nodes' results.
            prefix: prefix of the nodes' names in locations.
            depth: nesting in functions and subgraphs.
        """

        def report(node: NodeProto, message: str) -> None:
            error = ImportModelError(message)
            self._report(error, node, scope, prefix + node_label(node))

        order, stuck = in_order(nodes, available, report)
        for node in stuck:
            scope.update((name, FAILED) for name in node.output if name)
        for node in (*order, *stuck):
            if self.staging is not None and self.staging.waits(node, scope, depth):
                continue
            self._import_node(node, scope, prefix + node_label(node), depth)
            if self.staging is not None and not depth:
                self.staging.hold_back(node, scope)

    def _import_node(self, node: NodeProto, scope: Scope, where: str, depth: int) -> None:
        self.builder.location = named_location(where)
        in_parts = self.staging is not None or self.builder.defines
        self.builder.may_bound = in_parts and self.builder.is_main
        self.builder.depth = depth
        staging = self.staging
        if staging is not None and not depth:
            staging.begin()
        try:
            operands = [self.operand(name, scope, where) for name in node.input]
            results = self._results(node, operands, scope, where, depth)
            for name in node.output[len(results) :]:
                if name:
                    raise ImportModelError(f"{node.op_type} has no output number {len(results)}")
        except AlreadyReported:
            results = [FAILED] * len(node.output)
        except _MISTAKES as mistake:
            if self._awaits(mistake, node, scope, depth):
                return
            error = self._about_sizes(mistake, node, scope) or _as_error(mistake, node.op_type)
            self._report(error, node, scope, where)
            results = [FAILED] * len(node.output)
        if staging is not None and not depth and staging.lacks(node, scope):
            return
        for name, value in zip(node.output, results, strict=False):
            if not name:
                continue
            scope[name] = value
            if isinstance(value, SSAValue) and value.name_hint is None:
                value.name_hint = name_hint(name)

    def _about_sizes(
        self, mistake: Exception, node: NodeProto, scope: Scope
    ) -> OpenSizeError | None:
        """Return the error for a node that cannot be imported because its operands have sizes."""
        if isinstance(mistake, OpenSizeError):
            return mistake
        if isinstance(mistake, UnequalSizes):
            self.builder.values.imply_alike(*mistake.extents)
        operands = [scope.get(name) for name in node.input]
        tensors = [value for value in operands if isinstance(value, SSAValue)]
        extents = [extent for value in tensors for extent in shape_of(value)]
        for value in tensors:
            if value in self.builder.sizes:
                extents += self.builder.sizes[value].flat
        names = names_of(extents)
        if not names or isinstance(mistake, MemoryError | RecursionError):
            return None
        text = mistake.message if isinstance(mistake, TcoptError) else str(mistake)
        error = OpenSizeError(f"{node.op_type} cannot be imported: {text}", names)
        if isinstance(mistake, UndecidedSize) and mistake.hint:
            error.hint = f"{mistake.hint}; or {error.hint}"
        error.__cause__ = mistake
        return error

    def _awaits(self, mistake: Exception, node: NodeProto, scope: Scope, depth: int) -> bool:
        """Whether a node is left to a later stage, which knows more values."""
        if self.staging is None or not isinstance(mistake, MissingValuesError):
            return False
        if depth:
            if not self.staging.measures(mistake):
                # The node that contains this one may be left to a later stage.
                raise mistake
            defer(node, scope)
            return True
        awaits = self.staging.awaits(mistake, node, scope)
        if awaits:
            self.staging.leave(node, scope)
        return awaits

    def _report(self, error: TcoptError, node: NodeProto, scope: Scope, where: str) -> None:
        error.where = error.where or where
        domain = "" if node.domain in STANDARD_DOMAINS else node.domain
        add_facts(error, node, self.opsets.get(domain), scope, self.weights)
        self.problems.add(error)

    def _results(
        self,
        node: NodeProto,
        operands: list[Value],
        scope: Scope,
        where: str,
        depth: int,
    ) -> Values:
        opset = self.opset
        function = self._functions.get((node.domain, node.op_type, node.overload))
        if function is not None:
            return self._call(function, node, operands, where, depth)
        name = operator_name(node)
        schema = self._schema(node, where)
        takes_lists = sequence_handler(name, operands)
        has_bodies = name in CONTROL_FLOW
        handle = find_handler(name, opset)
        if not (handle or schema.has_body or takes_lists or has_bodies):
            raise _unsupported(name, opset, where)
        if any(isinstance(value, Failed) for value in operands):
            return [FAILED] * len(node.output)
        schema.check_form(node, where)
        if takes_lists is not None or has_bodies:
            ctx = NodeContext(node, schema, [], self.builder, opset, where)
            if takes_lists is not None:
                return [takes_lists(ctx, operands)]
            return CONTROL_FLOW[name](self, ctx, scope, depth).run(operands)
        present = [value for value in operands if value is None or isinstance(value, SSAValue)]
        if len(present) == len(operands):
            known = self.builder.texts
            given = [value in known for value in present]
            texts = schema.check_types([value and value.type for value in present], where, given)
            if handle is not None:
                results = self._handle(handle, node, schema, present, where)
                if results is not None and any(texts):
                    last = len(texts) - 1
                    found = enumerate(results)
                    known.update(v for n, v in found if v is not None and texts[min(n, last)])
                if results is not None:
                    return results
        body = standard_body(node, schema, opset, operands)
        if body is None:
            raise _unsupported(name, opset, where)
        return self._call(body, node, operands, where, depth)

    def _schema(self, node: NodeProto, where: str) -> NodeSchema:
        """Return the schema of a node's operator.

        Raises:
            UnsupportedError: the operator is not known.
        """
        opset = self.opset
        if node.domain not in STANDARD_DOMAINS:
            schema = find_contrib_schema(node.domain, node.op_type)
            version = self.opsets.get(node.domain)
            if schema is None and version is not None:
                schema = find_schema(node.op_type, version, node.domain)
            if schema is None:
                raise UnsupportedError(
                    f"operator {operator_name(node)} is not supported",
                    where=where,
                    hint="define it as a function of the model, export standard operators, or load "
                    "a plugin with a handler and register_schema (docs/plugins.md)",
                )
            return schema
        check_form_of(node.op_type, opset)
        schema = find_schema(node.op_type, opset) or find_contrib_schema("", node.op_type)
        if schema is None:
            raise UnsupportedError(
                f"there is no operator {node.op_type!r} in opset {opset}",
                where=where,
                hint=opset_advice(node.op_type, opset),
            )
        return schema

    def _handle(
        self,
        handle: Handler,
        node: NodeProto,
        schema: NodeSchema,
        operands: list[SSAValue | None],
        where: str,
    ) -> Sequence[SSAValue | None] | None:
        context = NodeContext(node, schema, operands, self.builder, self.opset, where)
        try:
            results = handle(context)
        except VerifyException as error:
            shapes = ", ".join(str(list(shape_of(v))) for v in operands if v is not None)
            raise ImportModelError(f"{node.op_type} of {shapes}: {error}", where=where) from error
        except Exception as error:
            if isinstance(error, TcoptError | MemoryError | RecursionError):
                raise
            if not (path := foreign_file(handle)):
                raise
            place = f"{path}:{_line_in(path, error)}"
            raise InputError(
                f"the handler of {operator_name(node)}, {place}, raised "
                f"{type(error).__name__}: {error}",
                where=where,
                hint="fix the handler; --traceback shows the call stack",
            ) from error
        return [results] if isinstance(results, SSAValue) else results

    def _call(
        self,
        function: FunctionProto,
        node: NodeProto,
        operands: list[Value],
        where: str,
        depth: int,
    ) -> Sequence[Value]:
        self._budget.spend(len(function.node), depth, where)
        if len(operands) > len(function.input):
            raise ImportModelError(
                f"function {function.name!r} takes {len(function.input)} inputs, but has "
                f"{len(operands)}",
                where=where,
            )
        missing = [None] * (len(function.input) - len(operands))
        scope: Scope = dict(zip(function.input, [*operands, *missing], strict=True))
        body = bound_nodes(function, node)
        with self._written_for(function_opsets(function, self.opsets)):
            self.import_nodes(body, scope.keys(), scope, f"{where}/", depth + 1)
        for name, wanted in zip(function.output, node.output, strict=False):
            if wanted and name not in scope:
                raise ImportModelError(
                    f"nothing defines output {name!r} of function {function.name!r}", where=where
                )
        return [scope.get(name) for name in function.output]

    def import_body(self, body: GraphProto, scope: Scope, where: str, depth: int) -> list[Value]:
        """Import a subgraph; return its outputs.

        `scope` has its inputs and the names that it captures.
        """
        for name, weight in graph_weights(body):
            scope[name] = self.builder.constant(self.builder.read(weight, name), name)
        self._budget.spend(len(body.node), depth, where)
        available = scope.keys() | self.weights.keys()
        self.import_nodes(body.node, available, scope, f"{where}/", depth)
        return [self.operand(info.name, scope, where) for info in body.output]

    def try_body(
        self, body: GraphProto, scope: Scope, where: str, depth: int
    ) -> tuple[list[TcoptError], list[Value]]:
        """Import a subgraph; also return its errors, which are not reported."""
        around, self.problems = self.problems, Problems(keep_all=True)
        try:
            values = self.import_body(body, scope, where, depth)
            return self.problems.errors, values
        except ExpansionError:
            raise
        except TcoptError as error:
            return [*self.problems.errors, error], []
        finally:
            self.problems = around


# Files may contain anything: all exceptions while importing a node are reported as its errors.
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


def _unsupported(name: str, opset: int, where: str) -> UnsupportedError:
    """Return the error for an operator without a handler at an opset."""
    since = [version for version in handled_since(name) if version > opset]
    if not since:
        return UnsupportedError(f"operator {name} is not supported", where=where)
    return UnsupportedError(
        f"operator {name} of opset {opset} is not supported",
        where=where,
        hint=f"it is supported since opset {min(since)}: convert the model with "
        "onnx.version_converter",
    )


def _line_in(path: str, error: Exception) -> int:
    """Return the last line of a file in the traceback of an error."""
    lines = [
        line for frame, line in walk_tb(error.__traceback__) if frame.f_code.co_filename == path
    ]
    return lines[-1] if lines else 0


def _as_error(mistake: Exception, op_type: str) -> TcoptError:
    if isinstance(mistake, TcoptError):
        return mistake
    error: TcoptError
    if isinstance(mistake, MemoryError):
        cause = str(mistake) or "allocation failed"
        error = ResourceError(
            f"out of memory while importing {op_type}: {cause}",
            hint="check the sizes of its tensors, or free memory by closing other programs",
        )
        error.__cause__ = mistake
        return error
    error = ImportModelError(f"{op_type} cannot be imported: {mistake}")
    error.__cause__ = mistake
    return error
