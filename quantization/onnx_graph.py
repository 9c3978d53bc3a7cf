"""An editable ONNX model: nodes, values and constants by name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    inliner,
    numpy_helper,
    shape_inference,
)

from tcopt.frontends.onnx.model.loading import MODEL_SIZE_LIMIT, domain_opsets, load_model
from tcopt.frontends.onnx.model.node_facts import STANDARD_DOMAINS
from tcopt.frontends.onnx.model.options import Source
from tcopt.frontends.onnx.nodes.ordering import in_order, node_label
from tcopt.frontends.onnx.nodes.subgraphs import used_names
from tcopt.support.errors import ImportModelError, UnsupportedError
from tcopt.support.files.access import open_source

Array = NDArray[Any]

OPSET = 13
"""First opset whose quantisation operators support a scale per channel."""
_IR_OF_OPSET = 7


@dataclass(frozen=True)
class ValueFacts:
    """Facts about a value that are known without running the model.

    Attributes:
        dtype: element type, as numbered by `TensorProto`; 0 if unknown.
        rank: number of dimensions; None if unknown.
    """

    dtype: int = 0
    rank: int | None = None


class OnnxGraph:
    """The main graph of a model, which this object owns.

    Nodes of subgraphs are not changed, but their uses of the main graph's values are tracked.

    Attributes:
        model: the model in its current state.
        facts: inferred facts about values.
    """

    def __init__(self, model: ModelProto, facts: Mapping[str, ValueFacts] | None = None):
        self.model = model
        self.constants: dict[str, TensorProto] = {}
        self.producers: dict[str, NodeProto] = {}
        self.users: dict[str, list[NodeProto]] = {}
        self._names: set[str] = set()
        self.refresh()
        self.facts = _inferred(model) if facts is None else facts

    @property
    def graph(self) -> GraphProto:
        """The main graph."""
        return self.model.graph

    @property
    def nodes(self) -> list[NodeProto]:
        """Nodes of the main graph in topological order."""
        return list(self.graph.node)

    @property
    def opset(self) -> int:
        """Version of the standard operators."""
        return domain_opsets(self.model)[""]

    @property
    def input_names(self) -> list[str]:
        """Names of inputs that are not weights."""
        return [info.name for info in self.graph.input if info.name not in self.constants]

    @property
    def output_names(self) -> list[str]:
        """Names of the model's outputs."""
        return [info.name for info in self.graph.output]

    def refresh(self) -> None:
        """Update the lookup tables after nodes were changed."""
        self.constants = {tensor.name: tensor for tensor in self.graph.initializer}
        self.producers = {}
        self.users = {}
        for node in self.graph.node:
            if is_standard(node, "Constant") and node.attribute[0].HasField("t"):
                self.constants[node.output[0]] = node.attribute[0].t
            elif is_standard(node, "Identity") and node.input[0] in self.constants:
                self.constants[node.output[0]] = self.constants[node.input[0]]
            for name in filter(None, node.output):
                self.producers[name] = node
            for name in dict.fromkeys(used_names(node)):
                self.users.setdefault(name, []).append(node)
        infos = (*self.graph.input, *self.graph.output, *self.graph.value_info)
        self._names = {info.name for info in infos} | self.producers.keys() | self.constants.keys()
        self._names |= {node.name for node in self.graph.node}

    def array(self, name: str) -> Array | None:
        """Return the value of a constant; None if it is not one."""
        tensor = self.constants.get(name)
        return None if tensor is None else numpy_helper.to_array(tensor)

    def is_output(self, name: str) -> bool:
        """Whether a value is an output of the model."""
        return name in self.output_names

    def element_type(self, name: str) -> int:
        """Return the element type of a value, as numbered by `TensorProto`; 0 if unknown."""
        if name in self.constants:
            return self.constants[name].data_type
        return self.facts.get(name, ValueFacts()).dtype

    def is_float(self, name: str) -> bool:
        """Whether a value is known to have f32 elements."""
        return self.element_type(name) == TensorProto.FLOAT

    def rank(self, name: str) -> int | None:
        """Return the rank of a value; None if unknown."""
        if name in self.constants:
            return len(self.constants[name].dims)
        return self.facts.get(name, ValueFacts()).rank

    def fresh(self, base: str) -> str:
        """Return an unused name."""
        name, number = base, 0
        while name in self._names:
            number += 1
            name = f"{base}_{number}"
        self._names.add(name)
        return name

    def add_constant(self, base: str, value: Array) -> str:
        """Add a weight; return its name."""
        name = self.fresh(base)
        tensor = numpy_helper.from_array(_dense(value), name)
        self.graph.initializer.append(tensor)
        self.constants[name] = self.graph.initializer[-1]
        return name

    def set_constant(self, node: NodeProto, place: int, value: Array) -> None:
        """Replace a constant operand of a node; other users of the old constant keep it."""
        old = node.input[place]
        used = self.users.get(old, [])
        own = sum(list(each.input).count(old) for each in used) == 1
        if own and old in {tensor.name for tensor in self.graph.initializer}:
            self.constants[old].CopyFrom(numpy_helper.from_array(_dense(value), old))
            return
        node.input[place] = self.add_constant(old, value)
        self.refresh()

    def add_node(self, operator: str, inputs: Iterable[str], base: str, **attributes: Any) -> str:
        """Append a node, to be moved to its position by `sort`; return the name of its result."""
        name = self.fresh(base)
        node = helper.make_node(operator, list(inputs), [name], name=name, **attributes)
        self.graph.node.append(node)
        return name

    def sort(self) -> None:
        """Sort the nodes topologically, and remove unused constants."""
        available = {*self.constants, *(info.name for info in self.graph.input)}
        available -= self.producers.keys()
        available |= {tensor.name for tensor in self.graph.initializer} | {""}

        def report(node: NodeProto, what: str) -> None:
            raise ImportModelError(what, where=node_label(node))

        nodes = [*self.graph.node]
        ordered, _ = in_order(nodes, available, report)
        used = {name for node in ordered for name in used_names(node)} | set(self.output_names)
        kept = [
            _copy(node)
            for node in ordered
            if not is_standard(node, "Constant") or used.intersection(node.output)
        ]
        del self.graph.node[:]
        self.graph.node.extend(kept)
        self._keep_weights(used)
        self.refresh()

    def _keep_weights(self, used: Collection[str]) -> None:
        """Remove all other weights, along with inputs that they are the defaults of."""
        unused = {tensor.name for tensor in self.graph.initializer} - set(used)
        if not unused:
            return
        for entries in (self.graph.initializer, self.graph.input):
            kept = [_copy(each) for each in entries if each.name not in unused]
            del entries[:]
            entries.extend(kept)

    def name_nodes(self) -> dict[str, str]:
        """Give each node a unique name; return the old names of renamed nodes by the new ones."""
        changed: dict[str, str] = {}
        for name, node in labelled(self):
            if node.name != name:
                changed[name] = node.name
                node.name = name
        return changed

    def copy(self) -> OnnxGraph:
        """Return an independent copy of the model."""
        model = ModelProto()
        model.CopyFrom(self.model)
        return OnnxGraph(model, self.facts)


def is_standard(node: NodeProto, *operators: str) -> bool:
    """Whether a node is one of these operators in ONNX's own domain."""
    return node.op_type in operators and node.domain in STANDARD_DOMAINS


def attributes_of(node: NodeProto) -> dict[str, Any]:
    """Return the attributes of a node as Python values."""
    return {each.name: helper.get_attribute_value(each) for each in node.attribute}


def open_graph(source: Source, *, follow_links: bool = False) -> OnnxGraph:
    """Open a model for quantisation, with all weights loaded and functions inlined.

    Models of opsets before 13 are converted, because per-channel scales require it.

    Raises:
        InputError: the file does not exist.
        ImportModelError: it is not an ONNX model.
        UnsupportedError: it cannot be converted, or is too large for one file.
    """
    _, reader = load_model(source, follow_links=follow_links)
    model = ModelProto()
    if isinstance(source, ModelProto):
        model.CopyFrom(source)
    else:
        model.ParseFromString(_bytes(source))
    size = 0
    for tensor in model.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            value = reader.read(tensor, tensor.name)
            tensor.CopyFrom(numpy_helper.from_array(np.array(value), tensor.name))
        size += len(tensor.raw_data)
        if size > MODEL_SIZE_LIMIT:
            raise UnsupportedError("models of more than 2 GB cannot be quantised")
    if model.functions:
        model = _inlined(model)
    # Before the conversion, which requires weights of old IR versions to be inputs.
    model.ir_version = max(model.ir_version, _IR_OF_OPSET)
    if domain_opsets(model)[""] < OPSET:
        model = _converted(model)
    return OnnxGraph(model)


def _bytes(source: str | Path | bytes) -> bytes:
    if not isinstance(source, str | Path):
        return bytes(source)
    with open_source(source) as stream:
        return stream.read()


def _inlined(model: ModelProto) -> ModelProto:
    """Return the model with its local functions inlined into the main graph."""
    try:
        return inliner.inline_local_functions(model)
    except Exception as error:
        raise UnsupportedError(
            f"the functions of the model cannot be inlined: {str(error).strip()[:200]}",
            hint="export it without functions",
        ) from error


def _converted(model: ModelProto) -> ModelProto:
    """Convert the model to the oldest opset that supports per-channel quantisation."""
    try:
        return onnx.version_converter.convert_version(model, OPSET)
    except Exception as error:
        raise UnsupportedError(
            f"the model has opset {domain_opsets(model)['']} and cannot be converted to "
            f"{OPSET}: {str(error).strip().splitlines()[0][:200]}",
            hint=f"export it for opset {OPSET} or later",
        ) from error


def _inferred(model: ModelProto) -> dict[str, ValueFacts]:
    """Infer element types and ranks of a model without the content of its weights."""
    try:
        typed = shape_inference.infer_shapes(model)
    except Exception:
        # Facts that cannot be inferred are unknown; the importer reports errors in the model.
        typed = model
    found: dict[str, ValueFacts] = {}
    for info in (*typed.graph.value_info, *typed.graph.input, *typed.graph.output):
        tensor = info.type.tensor_type
        rank = len(tensor.shape.dim) if tensor.HasField("shape") else None
        found[info.name] = ValueFacts(tensor.elem_type, rank)
    return found


def _dense(value: Array) -> Array:
    """Return a contiguous array of the same rank; `ascontiguousarray` makes scalars 1-d."""
    return np.ascontiguousarray(value).reshape(value.shape)


def _copy(message: Any) -> Any:
    made = type(message)()
    made.CopyFrom(message)
    return made


def check_model(model: ModelProto) -> None:
    """Run ONNX's checker on a generated model.

    Inputs and outputs without a declared type or shape are accepted.

    Raises:
        ImportModelError: the checker reports an error.
    """
    declared = [*model.graph.input, *model.graph.output]
    kept = [_copy(info.type) for info in declared]
    try:
        for info in declared:
            _complete(info)
        onnx.checker.check_model(model)  # pyright: ignore[reportUnknownMemberType]
    except Exception as error:
        first = str(error).strip().splitlines()[0]
        raise ImportModelError(f"the model does not pass ONNX's checker: {first[:300]}") from error
    finally:
        for info, own in zip(declared, kept, strict=True):
            info.type.CopyFrom(own)


def _complete(info: ValueInfoProto) -> None:
    """Complete a declaration with a dummy type and shape, which the checker does not use."""
    kind = info.type.WhichOneof("value")
    if kind is None:
        info.type.tensor_type.elem_type = TensorProto.FLOAT
    if kind in (None, "tensor_type"):
        info.type.tensor_type.shape.SetInParent()


def labelled(graph: OnnxGraph) -> Iterator[tuple[str, NodeProto]]:
    """Yield the nodes with unique names."""
    seen: set[str] = set()
    for node in graph.nodes:
        label, number = node_label(node), 0
        name = label
        while name in seen:
            number += 1
            name = f"{label}#{number}"
        seen.add(name)
        yield name, node
