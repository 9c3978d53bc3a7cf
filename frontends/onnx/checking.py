"""Collects all problems that prevent a model from being compiled, and a summary of the model.

A model is checked by importing it and collecting errors instead of raising them. Nothing is
compiled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto

from tcopt.frontends.onnx.importer import ModelImporter
from tcopt.frontends.onnx.model.errors import Dimension, MissingShapesError, MissingValuesError
from tcopt.frontends.onnx.model.imported import Open
from tcopt.frontends.onnx.model.initializers import graph_weights
from tcopt.frontends.onnx.model.inputs import declared_dims
from tcopt.frontends.onnx.model.limits import DEFAULT_LIMITS, ModelLimits
from tcopt.frontends.onnx.model.loading import header_problems, load_model
from tcopt.frontends.onnx.model.node_facts import general_advice, operator_name
from tcopt.frontends.onnx.model.options import ImportOptions, Shapes, Source
from tcopt.frontends.onnx.model.problems import Problems
from tcopt.frontends.onnx.model.tensors import TensorReader
from tcopt.frontends.onnx.model.types import numpy_dtype, onnx_type_name, tensor_declaration
from tcopt.support.arithmetic.size_parser import derived_extent, names_in
from tcopt.support.arithmetic.size_ranges import GivenSize
from tcopt.support.data.shape_text import shape_text
from tcopt.support.data.structures import Kind
from tcopt.support.errors import ImportModelError, InputError, TcoptError
from tcopt.support.remarks import collect_remarks

Shape = tuple[int, ...] | list[Any]

TRIAL_SIZES = (224, 32, 8, 1)
"""Extents tried for open dimensions, one after the other, until the model can be imported."""


@dataclass(frozen=True)
class ValueSummary:
    """Declaration of an input or output; `dims` is None if the rank is unknown.

    For a sequence or optional (`kind`), `dims` describes its element tensors.
    """

    name: str
    element: str
    dims: tuple[Dimension, ...] | None
    kind: Kind = Kind.TENSOR

    def __str__(self) -> str:
        if self.kind is not Kind.TENSOR:
            return f'"{self.name}" {self.kind}, {self.element}'
        if self.dims is None:
            return f'"{self.name}" {self.element} of unknown rank'
        return f'"{self.name}" {self.element}[{shape_text(self.dims)}]'


@dataclass(frozen=True)
class ModelSummary:
    """Summary of a model's contents.

    Attributes:
        operators: number of nodes by operator, including those in subgraphs and functions.
        parameters, parameter_bytes: number of elements of the weights, and their size.
        open_dimensions: symbols of the inputs' dimensions, with `?` for unnamed ones.
        symbols: names of the "inputs" and "outputs" that have each symbol.
    """

    producer: str
    ir_version: int
    opsets: dict[str, int]
    nodes: int
    functions: int
    operators: dict[str, int]
    inputs: tuple[ValueSummary, ...]
    outputs: tuple[ValueSummary, ...]
    parameters: int
    parameter_bytes: int
    open_dimensions: tuple[str, ...]
    symbols: dict[str, dict[str, list[str]]]


@dataclass
class CheckReport:
    """Result of a check.

    Attributes:
        problems: errors that prevent the model from being compiled.
        at_first_run: values that determine shapes but are only known at run time. The model is then
            compiled at its first run. Nodes that depend on these shapes are not checked.
        trial_shapes: shapes that were assumed for open inputs; a list of shapes for a sequence.
        trial_dims: extents that were assumed for named dimensions.
        notes: harmless mistakes in the model's declarations.
        summary: None if the file is not a model.
    """

    problems: list[TcoptError] = field(default_factory=list)
    at_first_run: list[MissingValuesError] = field(default_factory=list)
    trial_shapes: dict[str, Shape] = field(default_factory=dict[str, Shape])
    trial_dims: dict[str, int] = field(default_factory=dict[str, int])
    notes: list[str] = field(default_factory=list[str])
    summary: ModelSummary | None = None

    @property
    def passed(self) -> bool:
        """Whether no problem was found, so that the model can be compiled as far as is known."""
        return not self.problems


def check_model(
    source: Source,
    *,
    shapes: Shapes | None = None,
    values: Mapping[str, np.ndarray] | None = None,
    dims: Mapping[str, GivenSize] | None = None,
    limits: ModelLimits = DEFAULT_LIMITS,
    follow_links: bool = False,
) -> CheckReport:
    """Check an ONNX model; for the arguments see `import_model`.

    Several extents are tried for open dimensions, and the one with the fewest problems is reported.

    Raises:
        InputError: the file does not exist, or shapes or values do not fit the inputs.
    """
    report = CheckReport()
    try:
        model, reader = load_model(source, follow_links=follow_links)
    except ImportModelError as error:
        report.problems = [error]
        return report
    report.summary = summarize(model)
    report.problems = header_problems(model)
    if report.problems:
        return report
    options = ImportOptions(shapes or {}, values or {}, dims or {}, limits, follow_links)
    with collect_remarks() as remarks:
        errors = _errors(model, reader, options)
        if isinstance(errors, MissingShapesError):
            errors = _open_errors(model, reader, options, errors, report)
    # Different trials give the same remarks.
    report.notes = list(dict.fromkeys(remark.message for remark in remarks))
    for error in errors:
        if isinstance(error, MissingValuesError) and error.inputs:
            report.at_first_run.append(error)
        else:
            error.hint = error.hint or general_advice(error)
            report.problems.append(error)
    return report


def _errors(
    model: ModelProto, reader: TensorReader, options: ImportOptions
) -> list[TcoptError] | MissingShapesError:
    """Import a model and return all errors, or the error about missing shapes.

    Raises:
        InputError: shapes or values do not fit the inputs.
    """
    problems = Problems(keep_all=True)
    try:
        found = ModelImporter(model, reader, problems, options).run()
    except InputError:
        raise
    except TcoptError as error:
        problems.add(error)
        found = None
    if isinstance(found, Open) and isinstance(found.missing, MissingShapesError):
        return found.missing
    return problems.errors


def _open_errors(
    model: ModelProto,
    reader: TensorReader,
    options: ImportOptions,
    missing: MissingShapesError,
    report: CheckReport,
) -> list[TcoptError]:
    """Try several extents for open dimensions; return the errors of the best trial."""
    best: list[TcoptError] | None = None
    for size in TRIAL_SIZES:
        sizes = _trial_sizes(missing.inputs, size)
        tried: dict[str, Shape] = {
            n: _trial_shape(dims, sizes, size) for n, dims in missing.inputs.items()
        }
        for name, kind in missing.lists.items():
            if kind.is_sequence:
                tried[name] = [tried[name]] * 2
        errors = _errors(model, reader, replace(options, shapes={**options.shapes, **tried}))
        if isinstance(errors, MissingShapesError):
            raise errors
        if best is None or len(errors) < len(best):
            best, report.trial_shapes, report.trial_dims = errors, tried, sizes
        if not errors:
            break
    return best or []


def _trial_sizes(inputs: Mapping[str, Sequence[Dimension] | None], size: int) -> dict[str, int]:
    """Return an extent for each symbol: 1 if it is outermost anywhere, otherwise `size`."""
    found: dict[str, int] = {}
    for dims in inputs.values():
        for index, dim in enumerate(dims or ()):
            for name in names_in(dim) if isinstance(dim, str) else ():
                found[name] = min(found.get(name, size), size if index else 1)
    return found


def _trial_shape(
    dims: Sequence[Dimension] | None, sizes: Mapping[str, int], size: int
) -> tuple[int, ...]:
    """Return the shape for given extents of symbols; evaluates sizes such as `past + 1`."""
    if dims is None:
        return (1, 3, size, size)
    unnamed = (size if index else 1 for index in range(len(dims)))
    return tuple(
        d if isinstance(d, int) else _trial_extent(d, sizes) or other
        for d, other in zip(dims, unnamed, strict=True)
    )


def _trial_extent(dim: Dimension, sizes: Mapping[str, int]) -> int | None:
    extent = derived_extent(dim, sizes) if isinstance(dim, str) else None
    return extent if isinstance(extent, int) else None


def summarize(model: ModelProto) -> ModelSummary:
    """Summarise a model from its declarations alone."""
    graph = model.graph
    operators: Counter[str] = Counter()
    _count(graph.node, operators)
    for function in model.functions:
        _count(function.node, operators)
    weights = {name for name, _ in graph_weights(graph)}
    inputs = tuple(_declared(info) for info in graph.input if info.name not in weights)
    symbols = dict.fromkeys(
        str(d or "?") for item in inputs for d in item.dims or ("?",) if not isinstance(d, int)
    )
    outputs = tuple(_declared(info) for info in graph.output)
    sizes = [(_elements(weight.dims), weight.data_type) for weight in graph.initializer]
    return ModelSummary(
        " ".join(filter(None, (model.producer_name, model.producer_version))) or "unknown",
        model.ir_version,
        {opset.domain or "ai.onnx": opset.version for opset in model.opset_import},
        sum(operators.values()),
        len(model.functions),
        dict(sorted(operators.items(), key=lambda item: (-item[1], item[0]))),
        inputs,
        outputs,
        sum(count for count, _ in sizes),
        sum(count * _bytes_each(number) for count, number in sizes),
        tuple(symbols),
        {name: _users(name, inputs, outputs) for name in symbols if name != "?"},
    )


def _users(
    symbol: str, inputs: Sequence[ValueSummary], outputs: Sequence[ValueSummary]
) -> dict[str, list[str]]:
    """Return the names of inputs and outputs that have a symbol."""
    sides = {"inputs": inputs, "outputs": outputs}
    return {
        side: [v.name for v in values if symbol in (v.dims or ())] for side, values in sides.items()
    }


def _count(nodes: Iterable[NodeProto], operators: Counter[str]) -> None:
    pending = [nodes]
    while pending:
        for node in pending.pop():
            operators[operator_name(node)] += 1
            pending += [a.g.node for a in node.attribute if a.type == AttributeProto.GRAPH]


def _declared(info) -> ValueSummary:
    try:
        kind, tensor = tensor_declaration(info.type)
    except TypeError as error:
        return ValueSummary(info.name, str(error), None)
    if kind is None:
        return ValueSummary(info.name, "no type", None)
    if kind is not Kind.TENSOR:
        return ValueSummary(info.name, onnx_type_name(tensor.elem_type), None, kind)
    dims = declared_dims(tensor)
    shape = None if dims is None else tuple(dims)
    return ValueSummary(info.name, onnx_type_name(tensor.elem_type), shape)


def _elements(dims: Iterable[int]) -> int:
    count = 1
    for extent in dims:
        count *= max(extent, 0)
    return count


def _bytes_each(data_type: int) -> int:
    try:
        return numpy_dtype(data_type, "").itemsize
    except TcoptError:
        return 0
