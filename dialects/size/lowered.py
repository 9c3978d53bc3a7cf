"""Sizes at the kernel level: dynamic dimensions of buffers, and index arithmetic.

memref<512x768xf32, #size.dims<s0[1:512], 768>>  ->  memref<?x768xf32>
(s0 + 7) floordiv 8                              ->  %1 = arith.addi %s0, %c7
                                                     %2 = arith.divui %1, %c8
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TypeAlias, cast

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    MemRefType,
    NoneAttr,
    StridedLayoutAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.hints import isa

from tcopt.dialects.size.dims import DimsAttr, extents_of, row_major
from tcopt.support.arithmetic.size_bounds import is_never_negative
from tcopt.support.arithmetic.size_terms import (
    Atom,
    MinMax,
    Polynomial,
    Quotient,
    Remainder,
    Symbol,
)
from tcopt.support.arithmetic.sizes import Extent, Size, is_fixed

BUFFERS = "size.buffers"
"""Attribute of a lowered host function: the types of its buffers with their live extents."""

BYTES = "size.bytes"
"""Attribute of a call with sizes: the live bytes of its buffers, as a `DimsAttr` of one extent."""

TRIP = "size.trip"
"""Attribute of a time loop whose trip count is a size: the trip count, as a `DimsAttr`."""

IndexOp: TypeAlias = type[
    arith.AddiOp
    | arith.SubiOp
    | arith.MuliOp
    | arith.DivUIOp
    | arith.FloorDivSIOp
    | arith.RemUIOp
    | arith.MinSIOp
    | arith.MaxSIOp
]
"""An operation on two index values."""

Measure: TypeAlias = int | SSAValue
"""An extent or a stride: a number, or an index value."""


def sized(type: Attribute) -> MemRefType[Attribute] | None:
    """Return a type if it is a buffer with sizes, else None."""
    if isinstance(type, MemRefType) and isinstance(type.layout, DimsAttr):
        return cast("MemRefType[Attribute]", type)
    return None


def static_type(type: MemRefType[Attribute]) -> MemRefType[Attribute]:
    """Return the type of the memory of a buffer, which has room for the upper bounds."""
    if sized(type) is None:
        return type
    return MemRefType(type.element_type, type.get_shape(), NoneAttr(), type.memory_space)


def dynamic_type(type: Attribute) -> Attribute:
    """Return a type whose sizes are dynamic dimensions; other types are returned as they are."""
    buffer = sized(type)
    return type if buffer is None else _with_layout(buffer, NoneAttr())


def _with_layout(
    type: MemRefType[Attribute], layout: StridedLayoutAttr | NoneAttr
) -> MemRefType[Attribute]:
    shape = [DYNAMIC_INDEX if isinstance(e, Size) else e for e in extents_of(type)]
    return MemRefType(type.element_type, shape, layout, type.memory_space)


def set_buffer_types(function: Operation, types: Sequence[Attribute]) -> None:
    """Keep the types that the first arguments of a function had before its sizes were lowered."""
    function.attributes[BUFFERS] = ArrayAttr(types)


def buffer_types(function: FuncOp) -> list[Attribute]:
    """Return the types of a function's arguments, with live extents where they are known."""
    types = list(function.function_type.inputs)
    kept = function.attributes.get(BUFFERS)
    if isa(kept, ArrayAttr):
        types[: len(kept)] = kept.data
    return types


def view_of(
    memory: SSAValue, type: MemRefType[Attribute], sizes: SizeValues, *, is_strided: bool = False
) -> memref.ReinterpretCastOp:
    """Return a view of memory as a dense buffer with sizes.

    Args:
        is_strided: whether the type shows which strides depend on sizes.
    """
    extents = extents_of(type)
    strides = row_major(extents)
    layout = NoneAttr()
    if is_strided and not is_fixed(strides):
        layout = StridedLayoutAttr([None if isinstance(s, Size) else s for s in strides])
    return memref.ReinterpretCastOp.from_dynamic(
        memory,
        [0],
        [sizes.measure(extent) for extent in extents],
        [sizes.measure(stride) for stride in strides],
        _with_layout(type, layout),
    )


class SizeValues:
    """Index values of extents.

    Args:
        arguments: the value of each symbol by its name.
        constant: returns the value of a number.
        apply: emits an operation on two values.
    """

    def __init__(
        self,
        arguments: Mapping[str, SSAValue],
        constant: Callable[[int], SSAValue],
        apply: Callable[[IndexOp, SSAValue, SSAValue], SSAValue],
    ):
        self._arguments = dict(arguments)
        self._constant = constant
        self._emit = apply
        self._known: dict[Polynomial, SSAValue] = {}
        self._applied: dict[tuple[IndexOp, SSAValue, SSAValue], SSAValue] = {}

    def _apply(self, op: IndexOp, a: SSAValue, b: SSAValue) -> SSAValue:
        """Return the result of an operation, which is emitted once."""
        key = (op, a, b)
        if key not in self._applied:
            self._applied[key] = self._emit(op, a, b)
        return self._applied[key]

    def define(self, name: str, value: SSAValue) -> None:
        """Set the value of a symbol that is computed."""
        self._arguments[name] = value

    def of(self, extent: Extent) -> SSAValue:
        """Return the value of an extent."""
        return self._sum(extent.value) if isinstance(extent, Size) else self._constant(extent)

    def measure(self, extent: Extent) -> Measure:
        """Return an extent as a number, or the value of a size."""
        return self._sum(extent.value) if isinstance(extent, Size) else extent

    def _sum(self, total: Polynomial) -> SSAValue:
        found = self._known.get(total)
        if found is None:
            parts = [self._product(monomial, factor) for monomial, factor in total.terms]
            if total.constant or not parts:
                parts.append(self._constant(total.constant))
            found = reduce(lambda a, b: self._apply(arith.AddiOp, a, b), parts)
            self._known[total] = found
        return found

    def _product(self, monomial: Sequence[Atom], factor: int) -> SSAValue:
        parts = [self._atom(atom) for atom in monomial]
        if factor != 1:
            parts.append(self._constant(factor))
        return reduce(lambda a, b: self._apply(arith.MuliOp, a, b), parts)

    def _atom(self, atom: Atom) -> SSAValue:
        match atom:
            case Symbol(name, multiple=multiple):
                value = self._arguments[name]
                if multiple == 1:
                    return value
                return self._apply(arith.DivUIOp, value, self._constant(multiple))
            case Quotient(operand, divisor):
                op = arith.DivUIOp if is_never_negative(operand) else arith.FloorDivSIOp
                return self._apply(op, self._sum(operand), self._constant(divisor))
            case Remainder(operand, divisor):
                if is_never_negative(operand):
                    return self._apply(arith.RemUIOp, self._sum(operand), self._constant(divisor))
                whole = self._product([Quotient(operand, divisor)], divisor)
                return self._apply(arith.SubiOp, self._sum(operand), whole)
            case MinMax(operands, is_maximum):
                op = arith.MaxSIOp if is_maximum else arith.MinSIOp
                values = [self._sum(each) for each in operands]
                return reduce(lambda a, b: self._apply(op, a, b), values)
