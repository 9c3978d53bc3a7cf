"""The model's outputs: what is declared of them, and what the nodes compute."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import ValueInfoProto
from xdsl.ir import SSAValue

from tcopt.dialects.graph.types import shape_of, type_of
from tcopt.frontends.onnx.errors import Dimension
from tcopt.frontends.onnx.inputs import ModelInput, declared_dims
from tcopt.frontends.onnx.types import element_type
from tcopt.support.errors import ImportModelError

Results = list[tuple[str, SSAValue]]
"""Values of the graph by the names of the outputs that they are."""


def check_output(info: ValueInfoProto, value: SSAValue) -> None:
    """Check that an output is what its declaration says.

    Raises:
        ImportModelError: it has another element type or rank.
    """
    declared = info.type.tensor_type
    own = type_of(value)
    if declared.elem_type:
        element = element_type(declared.elem_type, info.name)
        if element != own.element_type:
            raise ImportModelError(
                f"output {info.name!r} is declared with {element} elements, the nodes "
                f"compute {own.element_type}"
            )
    # Extents may be stale when a file was edited; a wrong rank is a broken model.
    if declared.HasField("shape") and len(declared.shape.dim) != own.get_num_dims():
        raise ImportModelError(
            f"output {info.name!r} is declared with {len(declared.shape.dim)} dimensions, "
            f"the nodes compute {list(own.get_shape())}"
        )


def result_dims(
    inputs: Sequence[ModelInput], infos: Sequence[ValueInfoProto], results: Results
) -> list[list[Dimension] | None]:
    """The declared dimensions of results, as far as they agree with what nodes compute."""
    extents: dict[str, int] = {}
    for item in inputs:
        pairs = zip(item.declared or (), item.shape, strict=False)
        extents.update((own, extent) for own, extent in pairs if isinstance(own, str))
    declared = {info.name: declared_dims(info.type.tensor_type) for info in infos}
    found: list[list[Dimension] | None] = []
    for name, value in results:
        dims = declared.get(name)
        if dims is not None:
            pairs = zip(dims, shape_of(value), strict=True)
            dims = [_agreed(own, extent, extents) for own, extent in pairs]
        found.append(dims)
    return found


def _agreed(own: Dimension, extent: int, extents: dict[str, int]) -> Dimension:
    """A name that is this extent elsewhere too; an open dimension, or the extent."""
    if isinstance(own, str):
        return own if extents.setdefault(own, extent) == extent else extent
    return None if own is None else extent
