"""Inputs of a model: their types, and the shapes and values given by the caller."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import TensorShapeProto, TypeProto, ValueInfoProto
from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute

from tcopt.dialects.graph.core.types import element_of
from tcopt.frontends.onnx.model.errors import Dimension, MissingShapesError
from tcopt.frontends.onnx.model.stage import PassedTensor
from tcopt.frontends.onnx.model.types import declared_dtype, declared_element, tensor_declaration
from tcopt.support.arithmetic.size_parser import derived_extent, names_in
from tcopt.support.arithmetic.size_ranges import GivenSize, SizeRange, given_size
from tcopt.support.arithmetic.sizes import Extent, Size, bounds_of, lower_bound
from tcopt.support.data.strings import is_text
from tcopt.support.data.structures import Kind
from tcopt.support.errors import (
    ImportModelError,
    InputError,
    UnsupportedError,
)

Declared = int | str | None
"""A dimension in the model: a number, a name, or None if it is unknown."""


@dataclass
class ModelInput:
    """An input of a model.

    Attributes:
        dims: each dimension is a number, a symbol or None if open; None if the rank is open. Open
            dimensions become numbers when they are fixed.
        declared: dimensions as declared in the model.
        value: the value to specialise on, if any.
        kind: kind of the input. For a sequence or optional, the other attributes describe its
            element tensors; the declared dimensions of a sequence may not hold for each of them.
    """

    name: str
    element: Attribute
    dtype: np.dtype
    dims: list[Dimension] | None
    value: np.ndarray | None = None
    shape: tuple[Extent, ...] = field(default=())
    declared: tuple[Declared, ...] | None = field(init=False)
    kind: Kind = Kind.TENSOR

    def __post_init__(self) -> None:
        dims = self.dims
        self.declared = None if dims is None else tuple(d for d in dims if not isinstance(d, Size))


def declared_input(info: ValueInfoProto, what: str = "input") -> ModelInput:
    """Read the declaration of an input.

    Args:
        what: name for errors.

    Raises:
        ImportModelError: the name or type is missing.
        UnsupportedError: it is not a tensor, or a sequence or optional of tensors, or its element
            type is not supported.
    """
    if not info.name:
        raise ImportModelError(f"an {what} of the model has no name")
    try:
        kind, tensor = tensor_declaration(info.type)
    except TypeError as error:
        raise UnsupportedError(
            f"{what} {info.name!r} is of type {error}",
            hint="tensors, and sequences and optionals of tensors are supported",
        ) from None
    if kind is Kind.MAPS and what == "input":
        raise UnsupportedError(
            f"{what} {info.name!r} is of type sequence of map",
            hint="tensors, and sequences and optionals of tensors are supported",
        )
    if kind is None:
        raise ImportModelError(f"{what} {info.name!r} has no type")
    element = declared_element(tensor.elem_type, info.name)
    dims = declared_dims(tensor)
    dtype = declared_dtype(tensor.elem_type, info.name)
    own: list[Dimension] | None = None if dims is None else [*dims]
    return ModelInput(info.name, element, dtype, own, kind=kind)


def passed_input(item: PassedTensor) -> ModelInput:
    """Return the input of a stage that is computed by an earlier one."""
    element = i64 if is_text(item.dtype) else element_of(item.dtype)
    return ModelInput(item.name, element, item.dtype, [*[None] * item.rank])


def declared_dims(tensor: TypeProto.Tensor) -> list[Declared] | None:
    """Return the dimensions of a declared tensor; None if its rank is open."""
    if not tensor.HasField("shape"):
        return None
    return [_declared_dim(dim) for dim in tensor.shape.dim]


def _declared_dim(dim: TensorShapeProto.Dimension) -> Declared:
    """Convert a dimension to a number, a name, or None if it is unknown.

    ONNX requires names to be identifiers. Exporters also write sizes such as `past + 1`, and other
    texts for unknown dimensions: two dimensions named `?` need not be equal, nor do those named
    `None`, from Python.
    """
    # Some exporters write -1 for unknown dimensions.
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value >= 0 else None
    name = dim.dim_param
    return name if name != "None" and names_in(name) else None


def fix_inputs(
    inputs: Sequence[ModelInput],
    shapes: Mapping[str, Sequence[Extent]],
    values: Mapping[str, np.ndarray],
    dims: Mapping[str, GivenSize] | None = None,
    others: Collection[str] = (),
) -> MissingShapesError | None:
    """Set the static shape of every input; return an error if some dimensions are still open.

    Args:
        shapes, values, dims, others: see `narrow_inputs`.

    Raises:
        InputError: a name, shape or value does not fit the model.
    """
    narrow_inputs(inputs, shapes, values, dims, others)
    missing = {item.name: item.dims for item in inputs if not _is_static(item)}
    if missing:
        lists = {item.name: item.kind for item in inputs if item.kind is not Kind.TENSOR}
        return MissingShapesError(missing, lists)
    for item in inputs:
        item.shape = tuple(d for d in item.dims or () if isinstance(d, int | Size))
    return None


def narrow_inputs(
    inputs: Sequence[ModelInput],
    shapes: Mapping[str, Sequence[Extent]],
    values: Mapping[str, np.ndarray],
    dims: Mapping[str, GivenSize] | None = None,
    others: Collection[str] = (),
) -> Symbols:
    """Apply known facts to the inputs' dimensions; return the extents of symbols.

    Args:
        shapes, values: of inputs; their symbols are fixed in all inputs.
        dims: extents of symbols.
        others: additional names that `dims` may contain, such as dimensions of outputs.

    Raises:
        InputError: a name, shape or value does not fit the model.
    """
    names = {item.name for item in inputs}
    for name in (*shapes, *values):
        if name not in names:
            listed = ", ".join(f'"{n}"' for n in sorted(names)) or "none"
            raise InputError(f"the model has no input {name!r}", hint=f"its inputs are {listed}")
    symbols = Symbols(inputs, dims or {}, others)
    for item in inputs:
        if item.name in values:
            _fix_value(item, np.asarray(values[item.name]))
        if item.name in shapes:
            _fix_shape(item, shapes[item.name], symbols)
        if item.value is not None:
            _fix_shape(item, item.value.shape, symbols)
    for item in inputs:
        item.dims = item.dims and symbols.resolved(item.dims)
    return symbols


class Symbols:
    """Known extents of symbols, each with its origin.

    Attributes:
        given: symbols whose extents are given by the caller; they apply to all inputs.

    Args:
        inputs: inputs whose declarations use the symbols.
        dims: extents or ranges given for symbols, or how they follow from other symbols.
        others: names that are not symbols of inputs.

    Raises:
        InputError: a symbol does not exist, or its extent is invalid.
    """

    def __init__(
        self,
        inputs: Sequence[ModelInput],
        dims: Mapping[str, GivenSize],
        others: Collection[str] = (),
    ):
        tensors = (item for item in inputs if item.kind is Kind.TENSOR)
        declared = (d for item in tensors for d in item.dims or ())
        self._known = {d for d in declared if isinstance(d, str)}
        self._parts = {name for d in self._known for name in names_in(d)}
        self.extents: dict[str, Extent] = {}
        self.given = frozenset(dims)
        self._origins: dict[str, str] = {}
        sizes = {name: given_size(name, given) for name, given in dims.items()}
        self._derived = {name: known for name, known in sizes.items() if isinstance(known, str)}
        for name, known in sizes.items():
            if name in others and name not in self._known | self._parts:
                continue
            self._check(name)
            if not isinstance(known, str):
                self.extents[name] = known.size(name) if isinstance(known, SizeRange) else known
            self._origins[name] = f"dims give {name} = {known}"
        for name, text in self._derived.items():
            self._derive(name, text)

    def _derive(self, name: str, text: str) -> None:
        """Set the extent of a size that follows from others, if these are given."""
        names = names_in(text)
        for other in names:
            self._check(other)
        extent = derived_extent(text, self.extents)
        if extent is not None:
            self.extents[name] = extent
        elif self._derived.keys() & names or self.extents.keys() >= {*names}:
            raise InputError(
                f"dimension {name!r} cannot be {text!r}",
                hint="it should not be negative, and follow from dimensions that are not derived",
            )

    def _check(self, name: str) -> None:
        if name not in self._known | self._parts:
            listed = ", ".join(sorted(self._known)) or "none that has a name"
            raise InputError(
                f"the inputs of the model have no dimension {name!r}",
                hint=f"open dimensions are {listed}",
            )

    def fix(self, name: str, extent: Extent, origin: str) -> str | None:
        """Fix the extent of a symbol; return the origin of a conflicting one, or None."""
        known = self.extents.get(name)
        if isinstance(known, Size) and isinstance(extent, int) and name in self.given:
            low, high = bounds_of(known)
            if not low <= extent <= high:
                return self._origins[name]
            self.extents[name], self._origins[name] = extent, origin
        if self.extents.setdefault(name, extent) != extent:
            return self._origins[name]
        self._origins.setdefault(name, origin)
        return None

    def resolved(self, dims: Sequence[Dimension]) -> list[Dimension]:
        """Replace symbols by their extents where they are known."""
        return [self._extent(d) if isinstance(d, str) else d for d in dims]

    def _extent(self, name: str) -> Dimension:
        """Return the extent of a symbol; `past + length` follows from its names."""
        if name in self.extents:
            return self.extents[name]
        extent = derived_extent(self._derived.get(name, name), self.extents)
        return name if extent is None else extent


def falls_back(name: str, dims: Mapping[str, GivenSize]) -> bool:
    """Whether a model may be compiled for each value of a size if it has no program for all."""
    given = given_size(name, dims[name]) if name in dims else 0
    return isinstance(given, SizeRange) and given.falls_back


def _is_static(item: ModelInput) -> bool:
    if item.kind is not Kind.TENSOR or item.dims is None:
        return False
    return all(isinstance(d, int | Size) for d in item.dims)


def _fix_value(item: ModelInput, value: np.ndarray) -> None:
    if is_text(item.dtype) and value.dtype.kind in "UT":
        value = value.astype(item.dtype)
    if value.dtype != item.dtype:
        raise InputError(f"input {item.name!r} has type {item.dtype}, its value is {value.dtype}")
    item.value = value


def _fix_shape(item: ModelInput, shape: Sequence[Extent], symbols: Symbols) -> None:
    try:
        extents = [d if isinstance(d, Size) else int(d) for d in shape]
    except (TypeError, ValueError):
        raise InputError(f"{shape!r} is not a shape for input {item.name!r}, a tensor") from None
    if any(lower_bound(d) < 0 for d in extents):
        raise InputError(f"shape {extents} of input {item.name!r} has a negative dimension")
    if item.dims is None:
        item.dims = list(extents)
        return
    declared = "[" + ", ".join("?" if d is None else str(d) for d in item.dims) + "]"
    if len(extents) != len(item.dims):
        raise InputError(f"shape {extents} does not fit input {item.name!r}, which is {declared}")
    for own, extent in zip(item.dims, extents, strict=True):
        cause = None
        if isinstance(own, str):
            cause = symbols.fix(own, extent, f"input {item.name!r} is {extents}")
            # Symbols of other inputs may differ unless an operator needs equality: exporters reuse
            # names.
            cause = cause if own in symbols.given else None
        if cause or (isinstance(own, int) and own != extent):
            fixed = f", where {own} is {symbols.extents[str(own)]}: {cause}" if cause else ""
            raise InputError(
                f"shape {extents} does not fit input {item.name!r}, which is {declared}{fixed}"
            )
    item.dims = list(extents)
