"""Outputs of a model: their declarations, and the computed values."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

import onnx
from onnx import ModelProto, TensorProto, TypeProto, ValueInfoProto
from xdsl.ir import SSAValue

from tcopt.dialects.graph.core.types import shape_of, type_of
from tcopt.frontends.onnx.model.inputs import Declared, ModelInput, declared_dims
from tcopt.frontends.onnx.model.lists import described
from tcopt.frontends.onnx.model.types import element_type, tensor_declaration
from tcopt.frontends.onnx.model.values import MapsValue, OptionalValue, SequenceValue, Value
from tcopt.support.arithmetic.sizes import Extent
from tcopt.support.data.shape_text import shape_text
from tcopt.support.data.strings import TEXT_NAME
from tcopt.support.data.structures import Count, Kind, tensor_names
from tcopt.support.errors import ImportModelError, UnsupportedError

Results = list[tuple[str, SSAValue]]
"""Values of the graph, with the names of the outputs."""


def expand_output(
    info: ValueInfoProto, value: Value, texts: Container[SSAValue] = ()
) -> tuple[Kind, Results, Count]:
    """Return the kind of an output, its tensors, and their number.

    Args:
        texts: values that are strings.

    Raises:
        ImportModelError: the value does not match the declaration.
        UnsupportedError: the declared type is not supported.
    """
    try:
        kind, tensor = tensor_declaration(info.type)
    except TypeError as error:
        raise UnsupportedError(f"output {info.name!r} is of type {error}") from None
    if kind is None:
        kinds = {SequenceValue: Kind.SEQUENCE, MapsValue: Kind.MAPS}
        kind = kinds.get(type(value), Kind.TENSOR)  # pyright: ignore[reportArgumentType]
    match value:
        case MapsValue() if kind is Kind.MAPS:
            names = tensor_names(info.name, kind, 2)
            return kind, list(zip(names, (value.keys, value.values), strict=True)), 2
        case SSAValue() if not kind.is_sequence and kind is not Kind.MAPS:
            check_output(info.name, tensor, value, value in texts)
            return kind, [(info.name, value)], 1
        case SequenceValue() if kind.is_sequence:
            names = tensor_names(info.name, kind, len(value.items))
            # As for given sequences, the shapes of the element tensors are arbitrary.
            tensor = TypeProto.Tensor(elem_type=tensor.elem_type)
            for item in value.items:
                check_output(info.name, tensor, item, item in texts)
            return kind, list(zip(names, value.items, strict=True)), len(names)
        case OptionalValue() if kind.is_optional:
            return kind, [], None
        case SSAValue() | SequenceValue() | MapsValue() | OptionalValue():
            raise ImportModelError(
                f"output {info.name!r} is declared as a {kind}, the nodes compute "
                f"{described(value)}"
            )
        case _:
            raise ImportModelError(f"nothing defines the output {info.name!r}")


def check_output(
    name: str, declared: TypeProto.Tensor, value: SSAValue, is_text: bool = False
) -> None:
    """Check that a tensor has the declared element type.

    Raises:
        ImportModelError: it has another type.
    """
    if not declared.elem_type:
        return
    own = TEXT_NAME if is_text else type_of(value).element_type
    element: object = TEXT_NAME
    if declared.elem_type != TensorProto.STRING:
        element = element_type(declared.elem_type, name)
    if element != own:
        raise ImportModelError(
            f"output {name!r} is declared with {element} elements, the nodes compute {own}"
        )


def stale_shapes(infos: Sequence[ValueInfoProto], results: Results) -> Iterator[str]:
    """Yield a message for each result whose shape differs from its declaration.

    Declarations are wrong if a file was edited or its exporter guessed. The computed shapes are
    used, as in other runtimes.
    """
    declared = {info.name: declared_dims(info.type.tensor_type) for info in infos}
    for name, value in results:
        dims, shape = declared.get(name), shape_of(value)
        if dims is None:
            continue
        pairs = zip(dims, shape, strict=False)
        if len(dims) != len(shape) or any(isinstance(d, int) and d != n for d, n in pairs):
            yield (
                f"output {name!r} is declared as [{shape_text(dims)}], "
                f"the nodes compute [{shape_text(shape)}]"
            )


def output_names(infos: Sequence[ValueInfoProto]) -> set[str]:
    """Return the names of the declared dimensions of outputs."""
    found = (declared_dims(info.type.tensor_type) for info in infos)
    return {own for dims in found for own in dims or () if isinstance(own, str)}


def declared_extents(
    infos: Sequence[ValueInfoProto], results: Results
) -> Iterator[tuple[Declared, Extent]]:
    """Yield the declaration of each dimension of the results, and its extent."""
    declared = {info.name: declared_dims(info.type.tensor_type) for info in infos}
    for name, value in results:
        dims, shape = declared.get(name) or (), shape_of(value)
        if len(dims) == len(shape):
            yield from zip(dims, shape, strict=True)


def result_dims(
    inputs: Sequence[ModelInput], infos: Sequence[ValueInfoProto], results: Results
) -> list[list[Declared] | None]:
    """Return the declared dimensions of results, as far as they agree with the computed shapes.

    None for a result without declared dimensions, or declared with another rank.
    """
    extents: dict[str, Extent] = {}
    for item in inputs:
        pairs = zip(item.declared or (), item.shape, strict=False)
        extents.update((own, extent) for own, extent in pairs if isinstance(own, str))
    declared = {info.name: declared_dims(info.type.tensor_type) for info in infos}
    found: list[list[Declared] | None] = []
    for name, value in results:
        dims = declared.get(name)
        shape = shape_of(value)
        if dims is None or len(dims) != len(shape):
            found.append(None)
            continue
        pairs = zip(dims, shape, strict=True)
        found.append([_agreed(own, extent, extents) for own, extent in pairs])
    return found


def _agreed(own: Declared, extent: Extent, extents: dict[str, Extent]) -> Declared:
    """Keep an open dimension, or a symbol that has this extent everywhere; else the extent."""
    if isinstance(own, str) and extents.setdefault(own, extent) == extent:
        return own
    if own is None and isinstance(extent, int):
        return None
    return extent if isinstance(extent, int) else str(extent)


def typed_outputs(model: ModelProto) -> Sequence[ValueInfoProto]:
    """Return the outputs of a model; undeclared types are inferred by ONNX if possible."""
    outputs = model.graph.output
    if all(info.type.WhichOneof("value") is not None for info in outputs):
        return outputs
    try:
        inferred = onnx.shape_inference.infer_shapes(model).graph.output
    # Models whose types cannot be inferred, or that are too large for it, may still be compiled.
    except Exception:
        return outputs
    known = {info.name: info for info in inferred}
    return [known.get(info.name, info) for info in outputs]
