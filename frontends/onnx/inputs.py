"""The model's inputs: their types, and the shapes and values that the caller fixes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import ValueInfoProto
from xdsl.ir import Attribute

from tcopt.frontends.onnx.errors import Dimension, MissingShapesError
from tcopt.frontends.onnx.types import element_type, numpy_dtype
from tcopt.support.errors import ImportModelError, InputError, UnsupportedError


@dataclass
class ModelInput:
    """One input: its name, element type and shape.

    Attributes:
        dims: a dimension is a number, a symbol's name, or None; None if the rank is open.
        value: the value it is specialised on, if any.
    """

    name: str
    element: Attribute
    dtype: np.dtype
    dims: list[Dimension] | None
    value: np.ndarray | None = None
    shape: tuple[int, ...] = field(default=())


def declared_input(info: ValueInfoProto) -> ModelInput:
    """Read an input's declaration.

    Raises:
        ImportModelError: no name or no type.
        UnsupportedError: not a tensor, or an element type the compiler lacks.
    """
    if not info.name:
        raise ImportModelError("an input of the model has no name")
    kind = info.type.WhichOneof("value")
    if kind is None:
        raise ImportModelError(f"input {info.name!r} has no type")
    if kind != "tensor_type":
        what = kind.removesuffix("_type").replace("_", " ")
        raise UnsupportedError(f"input {info.name!r} is a {what}, not a tensor")
    tensor = info.type.tensor_type
    element = element_type(tensor.elem_type, info.name)
    dims: list[Dimension] | None = None
    if tensor.HasField("shape"):
        dims = []
        for dim in tensor.shape.dim:
            # Some exporters write -1 for a dimension they do not know.
            if dim.HasField("dim_value") and dim.dim_value >= 0:
                dims.append(dim.dim_value)
            else:
                dims.append(dim.dim_param or None)
    return ModelInput(info.name, element, numpy_dtype(tensor.elem_type, info.name), dims)


def fix_inputs(
    inputs: Sequence[ModelInput],
    shapes: Mapping[str, Sequence[int]],
    values: Mapping[str, np.ndarray],
) -> None:
    """Give every input its static shape, from `shapes`, `values` and shared symbols.

    Raises:
        InputError: a name, shape or value that does not fit the model.
        MissingShapesError: dimensions that remain open.
    """
    names = {item.name for item in inputs}
    for name in (*shapes, *values):
        if name not in names:
            listed = ", ".join(f'"{n}"' for n in sorted(names)) or "none"
            raise InputError(f"the model has no input {name!r}", hint=f"its inputs are {listed}")
    symbols: dict[str, int] = {}
    for item in inputs:
        if item.name in values:
            _fix_value(item, np.asarray(values[item.name]))
        if item.name in shapes:
            _fix_shape(item, shapes[item.name], symbols)
        if item.value is not None:
            _fix_shape(item, item.value.shape, symbols)
    for item in inputs:
        item.dims = item.dims and [
            symbols.get(d, d) if isinstance(d, str) else d for d in item.dims
        ]
    missing = {item.name: item.dims for item in inputs if not _is_static(item.dims)}
    if missing:
        raise MissingShapesError(missing)
    for item in inputs:
        item.shape = tuple(d for d in item.dims or () if isinstance(d, int))


def _is_static(dims: list[Dimension] | None) -> bool:
    return dims is not None and all(isinstance(d, int) for d in dims)


def _fix_value(item: ModelInput, value: np.ndarray) -> None:
    if value.dtype != item.dtype:
        raise InputError(f"input {item.name!r} has type {item.dtype}, its value is {value.dtype}")
    item.value = value


def _fix_shape(item: ModelInput, shape: Sequence[int], symbols: dict[str, int]) -> None:
    extents = [int(d) for d in shape]
    if any(d < 0 for d in extents):
        raise InputError(f"shape {extents} of input {item.name!r} has a negative dimension")
    if item.dims is None:
        item.dims = list(extents)
        return
    declared = "[" + ", ".join("?" if d is None else str(d) for d in item.dims) + "]"
    if len(extents) != len(item.dims):
        raise InputError(f"shape {extents} does not fit input {item.name!r}, which is {declared}")
    for own, extent in zip(item.dims, extents, strict=True):
        fixed = symbols.setdefault(own, extent) if isinstance(own, str) else own
        if fixed is not None and fixed != extent:
            cause = f", where {own} is {fixed}" if isinstance(own, str) else ""
            raise InputError(
                f"shape {extents} does not fit input {item.name!r}, which is {declared}{cause}"
            )
    item.dims = list(extents)
