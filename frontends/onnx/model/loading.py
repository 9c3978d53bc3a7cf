"""Decodes a model, and creates the reader for its tensors."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import GraphProto, ModelProto, NodeProto, OperatorSetIdProto

from tcopt.frontends.onnx.model.node_facts import STANDARD_DOMAINS
from tcopt.frontends.onnx.model.options import Source
from tcopt.frontends.onnx.model.tensors import TensorReader
from tcopt.frontends.onnx.model.wire import cut_weights
from tcopt.support.errors import ImportModelError, InputError, TcoptError, UnsupportedError
from tcopt.support.files.access import as_path, open_file

OLDEST_IR = 3
OLDEST_OPSET = 1
MODEL_SIZE_LIMIT = 2**31 - 1


def load_model(source: Source, *, follow_links: bool = False) -> tuple[ModelProto, TensorReader]:
    """Decode a model, checking only its header.

    Args:
        follow_links: whether symbolic links of external data may point outside its folder.
    Raises:
        InputError: the file does not exist or cannot be read.
        ImportModelError: it is not an ONNX model.
    """
    if isinstance(source, ModelProto):
        return source, TensorReader(None)
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _decode(memoryview(bytes(source)), None, TensorReader(None))
    path = as_path(source)
    reader = TensorReader(path.parent, follow_links=follow_links)
    return _decode(_read_file(path), str(path), reader)


def _read_file(path: Path) -> memoryview:
    try:
        if not path.is_file():
            what = "is not a file" if path.exists() else "does not exist"
            raise InputError(f"{path} {what}", hint="give the path of an .onnx file")
        with open_file(path) as stream:
            size = os.fstat(stream.fileno()).st_size
            if size > MODEL_SIZE_LIMIT:
                raise ImportModelError(
                    "the file is larger than protobuf allows (2 GB)",
                    where=str(path),
                    hint="save the weights as external data",
                )
            if not size:
                return memoryview(b"")
            # Mapped, not read: pages of weights are loaded when they are used.
            return memoryview(mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {str(path)!r}: {error}") from error


def _decode(
    data: memoryview, where: str | None, reader: TensorReader
) -> tuple[ModelProto, TensorReader]:
    model = ModelProto()
    cut = cut_weights(data)
    try:
        if cut is None:
            model.ParseFromString(bytes(data))
        else:
            rest, reader.weights = cut
            model.ParseFromString(rest)
    except DecodeError as error:
        raise ImportModelError(
            "not an ONNX model, or cut short: it does not decode as protobuf", where=where
        ) from error
    if not model.HasField("graph") or not model.ir_version:
        raise ImportModelError("not an ONNX model: it has no graph or no IR version", where=where)
    for text in _texts(model):
        # Protobuf returns bytes if a string in the file is not valid UTF-8.
        if not isinstance(text, str):
            raise ImportModelError(f"the name {text!r} is not text", where=where)
    return model, reader


def _texts(model: ModelProto) -> Iterator[object]:
    """Yield every string that the importer uses as a name."""
    graph = model.graph
    yield graph.name
    for opset in model.opset_import:
        yield opset.domain
    for named in (*graph.input, *graph.output, *graph.initializer):
        yield named.name
    yield from (weight.values.name for weight in graph.sparse_initializer)
    for info in graph.input:
        for dim in info.type.tensor_type.shape.dim:
            yield dim.dim_param
    for tensor in graph.initializer:
        for entry in tensor.external_data:
            yield from (entry.key, entry.value)
    yield from _node_texts(graph.node)
    for function in model.functions:
        yield from (function.domain, function.name, function.overload)
        yield from (*function.input, *function.output)
        yield from (opset.domain for opset in function.opset_import)
        yield from (attribute.name for attribute in function.attribute_proto)
        yield from _node_texts(function.node)


def _node_texts(nodes: Iterable[NodeProto]) -> Iterator[object]:
    for node in nodes:
        yield from (node.op_type, node.domain, node.overload, node.name)
        yield from node.input
        yield from node.output
        for attribute in node.attribute:
            yield from (attribute.name, attribute.ref_attr_name)
            if attribute.HasField("g"):
                yield from _graph_texts(attribute.g)


def _graph_texts(graph: GraphProto) -> Iterator[object]:
    yield from (named.name for named in (*graph.output, *graph.initializer))
    yield from _node_texts(graph.node)


def check_header(model: ModelProto) -> None:
    """Check the IR and opset versions.

    Raises:
        ImportModelError: there is no opset, or the IR version does not exist.
        UnsupportedError: a version is older or newer than the supported ones.
    """
    for error in header_problems(model):
        raise error


def domain_opsets(model: ModelProto) -> dict[str, int]:
    """Return the opset versions by domain, with "" for the standard operators, without checks."""
    versions = opset_versions(model.opset_import)
    # If only other domains are declared, unsupported nodes are reported one by one.
    return {"": onnx.defs.onnx_opset_version(), **versions}


def opset_versions(imports: Iterable[OperatorSetIdProto]) -> dict[str, int]:
    """Return the versions by domain, with "" for the standard operators; duplicates are ignored."""
    found: dict[str, int] = {}
    for opset in imports:
        found.setdefault("" if opset.domain in STANDARD_DOMAINS else opset.domain, opset.version)
    return found


def header_problems(model: ModelProto) -> list[TcoptError]:
    """Return all problems with IR and opset versions."""
    found: list[TcoptError] = []
    if model.ir_version < OLDEST_IR:
        found.append(
            UnsupportedError(
                f"IR version {model.ir_version} is too old, {OLDEST_IR} is the oldest supported",
                hint="convert the model with onnx.version_converter",
            )
        )
    if model.ir_version > onnx.IR_VERSION:
        found.append(
            UnsupportedError(
                f"IR version {model.ir_version} is newer than {onnx.IR_VERSION}, the newest known",
                hint="install a newer onnx, or export for an older one",
            )
        )
    if not model.opset_import:
        found.append(
            ImportModelError(
                "the model imports no opset", hint="export it again with an opset version"
            )
        )
        return found
    versions = {o.version for o in model.opset_import if o.domain in STANDARD_DOMAINS}
    if len(versions) > 1:
        listed = sorted(versions)
        found.append(
            ImportModelError(
                f"the model imports several opsets of the standard operators: {listed}",
                hint="keep only one of them in opset_import",
            )
        )
        return found
    opset, newest = domain_opsets(model)[""], onnx.defs.onnx_opset_version()
    if not OLDEST_OPSET <= opset <= newest:
        found.append(
            UnsupportedError(
                f"opset {opset} is not supported, only {OLDEST_OPSET} to {newest}",
                hint="convert the model with onnx.version_converter",
            )
        )
    return found
