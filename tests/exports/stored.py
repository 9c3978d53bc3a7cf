"""Storage format of exported models: graphs without weights, compressed.

A weight is stored as its shape and the mean, deviation and bounds of its values. A model is loaded
with seeded random weights of the same distribution, so that activations keep the scale of the
network's initialisation. Tensors that are small or have few distinct values (shapes, scales, masks)
are stored unchanged.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, helper, numpy_helper

FOLDER = Path(__file__).parent / "models"
_SUFFIX = ".onnx.xz"
_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16)
_SMALL = 32
"""Tensors of up to this many elements are stored unchanged."""
_FEW = 8
"""Tensors of up to this many distinct values are stored unchanged too."""
_KEY = "values"
_INPUTS = "inputs"


def stored_models() -> list[str]:
    """Model names: architecture, exporter and opset, separated by dots."""
    return sorted(path.name.removesuffix(_SUFFIX) for path in FOLDER.glob(f"*{_SUFFIX}"))


def store(name: str, model: ModelProto, inputs: dict) -> int:
    """Write a model without its weights. Returns the size in bytes.

    Args:
        inputs: description of the inputs, see `feeds_of`.
    """
    FOLDER.mkdir(exist_ok=True)
    stripped = strip(model)
    helper.set_model_props(stripped, {_INPUTS: json.dumps(inputs)})
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "pb": 0}]
    data = lzma.compress(stripped.SerializeToString(deterministic=True), filters=filters)
    (FOLDER / f"{name}{_SUFFIX}").write_bytes(data)
    return len(data)


def load(name: str, seed: int = 0) -> ModelProto:
    """Load a stored model with weights drawn from `seed`."""
    model = onnx.load_from_string(lzma.decompress((FOLDER / f"{name}{_SUFFIX}").read_bytes()))
    return fill(model, seed)


def strip(model: ModelProto) -> ModelProto:
    """Return a copy without weights and without the exporters' documentation strings."""
    result = ModelProto()
    result.CopyFrom(model)
    result.doc_string = ""
    for graph in _graphs(result.graph):
        graph.doc_string = ""
        del graph.metadata_props[:]
        for node in graph.node:
            node.doc_string = ""
            del node.metadata_props[:]
        for value in (*graph.input, *graph.output, *graph.value_info):
            del value.metadata_props[:]
        for tensor in _tensors(graph):
            _strip_tensor(tensor)
    for function in result.functions:
        for node in function.node:
            node.doc_string = ""
            del node.metadata_props[:]
    return result


def fill(model: ModelProto, seed: int = 0) -> ModelProto:
    """Draw the weights of a stripped model, in place."""
    rng = np.random.default_rng(seed)
    for graph in _graphs(model.graph):
        for tensor in _tensors(graph):
            told = [entry for entry in tensor.metadata_props if entry.key == _KEY]
            if told:
                mean, deviation, low, high = map(float, told[0].value.split())
                values = rng.standard_normal(tuple(tensor.dims)) * deviation + mean
                values = values.clip(low, high).astype(
                    helper.tensor_dtype_to_np_dtype(tensor.data_type)
                )
                tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return model


def _strip_tensor(tensor: TensorProto) -> None:
    del tensor.metadata_props[:]
    tensor.doc_string = ""
    if tensor.data_type not in _FLOATS or np.prod(tensor.dims, dtype=np.int64) <= _SMALL:
        return
    values = numpy_helper.to_array(tensor).astype(np.float64)
    if len(np.unique(values)) <= _FEW:
        return
    told = (values.mean(), values.std(), values.min(), values.max())
    bare = TensorProto(name=tensor.name, dims=tensor.dims, data_type=tensor.data_type)
    bare.metadata_props.add(key=_KEY, value=" ".join(f"{number:.3g}" for number in told))
    tensor.CopyFrom(bare)


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from _graphs(attribute.g)


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                yield attribute.t


def feeds_of(model: ModelProto, seed: int = 0) -> Iterator[dict[str, np.ndarray]]:
    """Yield seeded inputs, one set for each list of sizes stored with the model.

    The description has `sizes`, a list of values for symbolic dimensions; `below`, the bound of
    integer inputs; and `masks`, inputs that are 1, and 0 at the end.
    """
    told = json.loads(next(p.value for p in model.metadata_props if p.key == _INPUTS))
    weights = {tensor.name for tensor in model.graph.initializer}
    rng = np.random.default_rng(seed)
    for sizes in told["sizes"]:
        feeds = {}
        for value in model.graph.input:
            if value.name in weights:
                continue
            kind = value.type.tensor_type
            shape = [sizes[d.dim_param] if d.dim_param else d.dim_value for d in kind.shape.dim]
            dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
            if value.name in told.get("masks", ()):
                feed = np.ones(shape, dtype)
                feed[-1:, -2:] = 0
            elif dtype.kind == "f":
                feed = rng.standard_normal(shape).astype(dtype)
            else:
                feed = rng.integers(0, told["below"], shape, dtype)
            feeds[value.name] = feed
        yield feeds
