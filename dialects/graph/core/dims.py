"""Symbolic dimension names of the inputs and outputs of a model.

    func.func @main(%x: tensor<2x5x64xf32> {graph.dims = #graph.dims<batch, seq, 64>})
        -> (tensor<2x10xf32> {graph.dims = #graph.dims<batch, 10>})

Every extent is static; a name records which open dimension of the model it was fixed for. Names are
attributes of the arguments and results of @main at the graph level.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntAttr,
    NoneAttr,
    StringAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.size import extents_of
from tcopt.support.arithmetic.sizes import Extent
from tcopt.support.ir.function_attributes import Position

DIMS = "graph.dims"
"""Name of the attribute on an argument or result."""

Dimension = int | str | None
Dims = tuple[Dimension, ...]

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")


@irdl_attr_definition
class DimsAttr(ParametrizedAttribute):
    """Dimensions of a tensor as declared by the model.

    A name is an open dimension, `?` an unnamed open dimension, a number a fixed one. Names that are
    not identifiers are quoted: `#graph.dims<batch, "past + 1", ?, 64>`.
    """

    name = DIMS

    entries: ArrayAttr[StringAttr | IntAttr | NoneAttr]

    @classmethod
    def of(cls, dims: Sequence[Dimension]) -> DimsAttr:
        """Build the attribute; None is an unnamed open dimension."""
        return cls(ArrayAttr([_entry(d) for d in dims]))

    @property
    def dims(self) -> Dims:
        """The dimensions: a number, a name, or None."""
        return tuple(None if isinstance(entry, NoneAttr) else entry.data for entry in self.entries)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parse `<batch, "past + 1", ?, 64>`."""

        def entry() -> Attribute:
            if parser.parse_optional_punctuation("?") is not None:
                return NoneAttr()
            number = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
            if number is not None:
                return IntAttr(number)
            text = parser.parse_optional_str_literal()
            return StringAttr(parser.parse_identifier() if text is None else text)

        return [ArrayAttr(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, entry))]

    def print_parameters(self, printer: Printer) -> None:
        """Print `<batch, "past + 1", ?, 64>`."""
        with printer.in_angle_brackets():
            printer.print_list(self.dims, lambda dim: _print(printer, dim))

    @classmethod
    def verify_function(cls, positions: Sequence[Position]) -> None:
        """Check that each attribute matches the rank of its tensor, and each name has one extent.

        Raises:
            VerifyException: an attribute does not match.
        """
        extents: dict[str, tuple[Extent, str]] = {}
        for where, type_, attribute in positions:
            assert isinstance(attribute, cls)
            _verify_one(attribute.dims, where, type_, extents)


def _verify_one(
    dims: Sequence[Dimension], where: str, type_: Attribute, extents: dict[str, tuple[Extent, str]]
) -> None:
    if not isinstance(type_, TensorType):
        raise VerifyException(f"{where} has {DIMS}, but is not a tensor: {type_}")
    shape = extents_of(cast(Attribute, type_))
    if len(dims) != len(shape):
        raise VerifyException(
            f"{DIMS} of {where} names {len(dims)} dimensions, {type_} has {len(shape)}"
        )
    for dim, extent in zip(dims, shape, strict=True):
        if isinstance(dim, int) and dim != extent:
            raise VerifyException(f"{DIMS} of {where} says {dim} where {type_} has {extent}")
        if isinstance(dim, str):
            known, first = extents.setdefault(dim, (extent, where))
            if known != extent:
                raise VerifyException(
                    f'dimension "{dim}" is {known} in {first}, and {extent} in {where}'
                )


def _entry(dim: Dimension) -> StringAttr | IntAttr | NoneAttr:
    if dim is None:
        return NoneAttr()
    return IntAttr(dim) if isinstance(dim, int) else StringAttr(dim)


def _print(printer: Printer, dim: Dimension) -> None:
    if isinstance(dim, str) and not _BARE.fullmatch(dim):
        printer.print_string_literal(dim)
    else:
        printer.print_string("?" if dim is None else str(dim))


def name_dims(
    function: FuncOp,
    arguments: Sequence[Sequence[Dimension] | None],
    results: Sequence[Sequence[Dimension] | None],
) -> None:
    """Attach names to the dimensions of a function; values without any name get no attribute."""
    for name, given in (("arg_attrs", arguments), ("res_attrs", results)):
        found = [DictionaryAttr(_named(dims)) for dims in given]
        if any(entry.data for entry in found):
            function.properties[name] = ArrayAttr(found)


def _named(dims: Sequence[Dimension] | None) -> Mapping[str, Attribute]:
    if dims is None or all(isinstance(d, int) for d in dims):
        return {}
    return {DIMS: DimsAttr.of(dims)}


def forget_dims(function: FuncOp) -> None:
    """Remove the names of a function's dimensions."""
    for name, given in (("arg_attrs", function.arg_attrs), ("res_attrs", function.res_attrs)):
        if given is None:
            continue
        kept = [DictionaryAttr({k: v for k, v in e.data.items() if k != DIMS}) for e in given]
        if any(entry.data for entry in kept):
            function.properties[name] = ArrayAttr(kept)
        else:
            del function.properties[name]


def dims_of(function: FuncOp) -> tuple[list[Dims], list[Dims]]:
    """Return the dimension names of a function's arguments and results; () for values without."""
    types = function.function_type
    sides = ((function.arg_attrs, types.inputs), (function.res_attrs, types.outputs))
    found: list[list[Dims]] = []
    for attributes, own in sides:
        entries = attributes or [DictionaryAttr({}) for _ in own]
        named = [entry.data.get(DIMS) for entry in entries]
        found.append([attr.dims if isinstance(attr, DimsAttr) else () for attr in named])
    return found[0], found[1]
