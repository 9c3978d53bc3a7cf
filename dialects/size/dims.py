"""Live extents of tensors and buffers.

    tensor<512x768xf32, #size.dims<n[1:512], 768>>
    memref<512x768xf32, #size.dims<n[1:512], 768>>

The built-in shape has the upper bounds, for which memory is planned. When a program runs, `n` has
one value, and the tensor is dense and row-major with its live extents: nothing beyond them is
computed, read or written. A type without sizes has no such attribute.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar, cast

from xdsl.dialects.builtin import MemRefLayoutAttr, MemRefType, NoneAttr, TensorType
from xdsl.ir import Attribute, Data
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.size.syntax import extent_text, parse_extent
from tcopt.support.arithmetic.size_terms import Symbol
from tcopt.support.arithmetic.sizes import (
    Extent,
    is_fixed,
    product,
    substitute,
    symbols_of,
    upper_bound,
)
from tcopt.support.memo import memo

_TypeT = TypeVar("_TypeT", bound=Attribute)

AnyShaped = TensorType[Attribute] | MemRefType[Attribute]


@irdl_attr_definition
class DimsAttr(MemRefLayoutAttr, Data[tuple[Extent, ...]]):
    """Live extents: the encoding of a tensor type, or the layout of a memref type.

    Attributes:
        data: the extents; at least one is a `Size`.
    """

    name = "size.dims"

    @property
    def extents(self) -> tuple[Extent, ...]:
        return self.data

    @property
    def bounds(self) -> tuple[int, ...]:
        """The upper bound of each extent."""
        return tuple(map(upper_bound, self.data))

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Extent, ...]:
        return tuple(
            parser.parse_comma_separated_list(parser.Delimiter.ANGLE, lambda: parse_extent(parser))
        )

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_list(self.data, lambda extent: printer.print_string(extent_text(extent)))

    def get_strides(self) -> Sequence[int | None]:
        """Return the strides in elements; None if one depends on a size."""
        return [stride if isinstance(stride, int) else None for stride in row_major(self.data)]

    def get_offset(self) -> int:
        return 0

    def get_affine_map(self) -> AffineMap:
        """Return the offset of an element; VerifyException if it depends on a size."""
        strides = self.get_strides()
        if None in strides:
            raise VerifyException(f"{self} has strides that depend on sizes")
        dims = (AffineDimExpr(axis) for axis in range(len(strides)))
        parts = [dim * (stride or 0) for dim, stride in zip(dims, strides, strict=True)]
        return AffineMap(len(parts), 0, (sum(parts[1:], start=parts[0]),))


def row_major(extents: Sequence[Extent]) -> list[Extent]:
    """Return the strides of a dense tensor or buffer in elements."""
    return [product(extents[axis + 1 :]) for axis in range(len(extents))]


def dims_attr(extents: Iterable[Extent]) -> DimsAttr | None:
    """Return the attribute for extents; None if all are numbers."""
    extents = tuple(extents)
    return None if is_fixed(extents) else DimsAttr(extents)


@memo(8192)
def extents_of(type: Attribute) -> tuple[Extent, ...]:
    """Return the live extents of a tensor or memref type.

    Raises:
        VerifyException: it has no shape, or its shape does not have the upper bounds.
    """
    shaped = _shaped(type)
    if shaped is None:
        raise VerifyException(f"{type} has no shape")
    shape, dims = shaped.get_shape(), _dims_of(shaped)
    if dims is None:
        return shape
    if dims.bounds != shape:
        wanted = "x".join(map(str, dims.bounds))
        raise VerifyException(f"{type} must have the shape {wanted} of its upper bounds")
    return dims.extents


def _shaped(type: Attribute) -> AnyShaped | None:
    is_shaped = isinstance(type, TensorType | MemRefType)
    return cast(AnyShaped, type) if is_shaped else None


def _dims_of(type: AnyShaped) -> DimsAttr | None:
    dims = type.encoding if isinstance(type, TensorType) else type.layout
    return dims if isinstance(dims, DimsAttr) else None


def sized_tensor(extents: Sequence[Extent], element: Attribute) -> TensorType[Attribute]:
    """Return a tensor type with live extents."""
    return TensorType(element, map(upper_bound, extents), dims_attr(extents) or NoneAttr())


def sized_memref(
    extents: Sequence[Extent], element: Attribute, space: Attribute | None = None
) -> MemRefType[Attribute]:
    """Return a memref type with live extents."""
    layout = dims_attr(extents) or NoneAttr()
    return MemRefType(element, list(map(upper_bound, extents)), layout, space or NoneAttr())


def substitute_type(type: _TypeT, values: Mapping[str, Extent]) -> _TypeT:
    """Return a type with sizes replaced by extents; other attributes are returned as they are."""
    shaped = _shaped(type)
    dims = None if shaped is None else _dims_of(shaped)
    if shaped is None or dims is None:
        return type
    extents = [substitute(extent, values) for extent in dims.extents]
    if isinstance(shaped, TensorType):
        found: AnyShaped = sized_tensor(extents, shaped.element_type)
    else:
        found = sized_memref(extents, shaped.element_type, shaped.memory_space)
    return cast(_TypeT, found)


def symbols_in(types: Iterable[Attribute]) -> tuple[Symbol, ...]:
    """Return the distinct symbols of types, in order of appearance."""
    found: dict[Symbol, None] = {}
    for type in types:
        shaped = _shaped(type)
        if shaped is not None and (dims := _dims_of(shaped)) is not None:
            for extent in dims.extents:
                found.update(dict.fromkeys(symbols_of(extent)))
    return tuple(found)
