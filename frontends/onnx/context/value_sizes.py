"""Sizes that are values of inputs, or values that a model computes.

A Resize may have its extents from an input, and a speech model computes the number of frames. Such
integers are sizes of the program (`size.define`). If the graph does not bound one, its range is
room that a run has to check.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerType, i1, i64
from xdsl.ir import SSAValue

from tcopt.dialects.graph import CastOp, MaxOp, MinOp, ReduceOp, ReshapeOp, SliceOp, SubOp
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import as_extents, shape_of, type_of
from tcopt.frontends.onnx.context.defined_sizes import are_equal
from tcopt.frontends.onnx.context.value_bounds import value_bounds, whole_range
from tcopt.frontends.onnx.model.errors import OpenSizeError
from tcopt.frontends.onnx.model.inputs import Declared, ModelInput
from tcopt.frontends.onnx.model.options import NO_OPTIONS, ImportOptions, Rooms
from tcopt.support.arithmetic.intervals import Range
from tcopt.support.arithmetic.room import room_for
from tcopt.support.arithmetic.size_ranges import SizeRange, given_size
from tcopt.support.arithmetic.size_terms import Symbol
from tcopt.support.arithmetic.sizes import (
    Extent,
    Size,
    evaluate,
    minimum,
    named_size,
    substitute,
    symbols_of,
)
from tcopt.support.data.strings import strings_in
from tcopt.support.errors import InputError, TcoptError, UndecidedSize

if TYPE_CHECKING:
    from tcopt.frontends.onnx.context.builder import GraphBuilder

_MOST_ELEMENTS = 16
"""Number of elements of a tensor whose elements may be sizes."""

_MOST_STEPS = 16
"""Number of ops in a row that are evaluated on sizes."""

_MOST_BOUND = 1 << 20
"""Largest bound from the graph that is a range; clamps to more do not limit memory."""

_UNBOUNDED = 1 << 40


@dataclass
class _Element:
    """An element of a tensor, which may be a size.

    Attributes:
        size: its symbol, whose range is not known yet.
        extent: the size with its range, or its number; None if it is not defined.
    """

    value: SSAValue
    index: int
    size: Extent
    extent: int | None = None


@dataclass(frozen=True)
class Implied:
    """Ranges and names of sizes that follow from a whole model.

    Attributes:
        ranges: ranges outside of which the model is invalid, by the names of the sizes.
        names: names of declared dimensions, by the names that the sizes have otherwise.
        equal: extents that sizes are equal to.
    """

    ranges: Mapping[str, Range] = field(default_factory=dict[str, Range])
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    equal: Mapping[str, Extent] = field(default_factory=dict[str, Extent])


NOTHING_IMPLIED = Implied()


class ValueSizes:
    """Defines sizes of a program that are elements of integer tensors.

    Args:
        options: with the ranges that are known.
        implied: what earlier imports have found.

    Attributes:
        implied: the same with what this import has found; if that is more, its result is not valid.
        ranges: ranges that a run has to check, and the values, by the names of the sizes.
        missing: proposed ranges of the sizes that have none.
    """

    def __init__(
        self,
        builder: GraphBuilder,
        options: ImportOptions = NO_OPTIONS,
        implied: Implied | None = None,
    ):
        self._builder = builder
        self._rooms = options.rooms
        self._samples = options.samples
        self._dims = options.dims
        self._elements: dict[str, _Element] = {}
        self.implied = self._known = implied or Implied()
        self.ranges: dict[str, tuple[Range, SSAValue]] = {}
        self.missing: dict[str, Range] = {}

    def extents_of(
        self, value: SSAValue, low: int, likely: Sequence[Extent | None] = (), *, new: bool = True
    ) -> list[int] | None:
        """Return the elements of a tensor of at most one dimension as numbers and sizes.

        None if it is too large, or if one of the elements has to be a number.

        Args:
            low: lower bound of the sizes.
            likely: numbers that elements probably have, None for others.
            new: whether sizes may be defined for the value.
        """
        if self._rooms is None or not self._is_small(value):
            return None
        array = self._symbolic(value, _MOST_STEPS)
        sizes = [extent for extent in array.flat if isinstance(extent, Size)]
        names = [symbol.name for size in sizes for symbol in symbols_of(size)]
        own = [name for name in dict.fromkeys(names) if name in self._elements]
        if not new and any(self._elements[name].extent is None for name in own):
            return None
        for name in own:
            element = self._elements[name]
            is_own = element.value is value and element.index < len(likely)
            wanted = likely[element.index] if is_own else None
            if not self._define(name, low if new else 0, wanted):
                return None
        extents = {name: self._elements[name].extent for name in own}
        known = {name: extent for name, extent in extents.items() if extent is not None}
        found = np.empty(array.size, object)
        found[:] = as_extents([substitute(n, known) for n in array.flat])
        if own:
            # Later arithmetic on the value is on the sizes.
            self._builder.sizes[value] = found.reshape(array.shape)
        return list(found)

    def imply_alike(self, a: Extent, b: Extent) -> None:
        """Make extents equal that have to be equal, or one of them 1.

        Equal extents are by far more common. Other runs have programs of their own.
        """
        if minimum(a, b) in (a, b) and not (isinstance(a, int) or isinstance(b, int)):
            # One extent is never more than the other one.
            self.imply_nonnegative(2 * minimum(a, b) - a - b)
            return
        for one, other in ((a, b), (b, a)):
            symbols = symbols_of(one)
            if len(symbols) != 1 or not self._is_own(symbols[0], one):
                continue
            name = symbols[0].name
            if not isinstance(other, int):
                self.implied = replace(self.implied, equal={**self.implied.equal, name: other})
            elif self._sampled(self._elements[name]) in (None, other):
                self._narrow(name, (other, other))
            return

    def _is_own(self, symbol: Symbol, extent: Extent) -> bool:
        """Whether an extent is a size that this object defines."""
        return symbol.name in self.ranges and extent == named_size(symbol.name, *symbol.range)

    def imply_nonnegative(self, extent: Extent) -> None:
        """Narrow the range of the size in an extent that is negative for some of its values.

        The model is imported again with the new range.
        """
        symbols = symbols_of(extent)
        if len(symbols) != 1 or symbols[0].name not in self.ranges:
            return
        (symbol,) = symbols
        values = [n for n in (symbol.low, symbol.high) if _at(extent, symbol, n) >= 0]
        if len(values) != 1:
            return
        # The extent changes its sign between a legal and an illegal end of the range.
        legal, illegal = values[0], symbol.low + symbol.high - values[0]
        while abs(legal - illegal) > 1:
            middle = (legal + illegal) // 2
            if _at(extent, symbol, middle) >= 0:
                legal = middle
            else:
                illegal = middle
        is_upper = legal < illegal
        self._narrow(symbol.name, (0, legal) if is_upper else (legal, _UNBOUNDED))

    def needed_numbers(self, errors: Iterable[TcoptError]) -> Rooms:
        """Return rooms without the sizes that have to be numbers, which errors of nodes name; {}
        if there are none.
        """
        names = {n for error in errors if isinstance(error, OpenSizeError) for n in error.names}
        numbers = dict.fromkeys(names & self.ranges.keys())
        return {**(self._rooms or {}), **numbers} if numbers else {}

    def use_declarations(
        self,
        inputs: Iterable[ModelInput],
        extents: Iterable[tuple[Declared, Extent]],
    ) -> None:
        """Give sizes of outputs the ranges and the names of their declared dimensions, if ranges
        are given for some of them.

        Args:
            extents: declared dimensions of outputs, and their extents.
        """
        given = self._dims.keys() - {name for item in inputs for name in item.declared or ()}
        for declared, extent in extents if given else ():
            if isinstance(declared, int) or declared in given:
                self.imply_declared(declared, extent)

    def imply_declared(self, declared: str | int, extent: Extent) -> None:
        """Give the size that is the extent of an output the name and range of the dimension.

        A number, or a range of another extent with one size, limits the size.

        Args:
            declared: the dimension; a range is given for a name.
        Raises:
            InputError: the extent has no size that is a value.
        """
        low, high = self._given(declared)
        if self._rooms is None or (isinstance(extent, int) and low <= extent <= high):
            return
        symbols = [symbol for symbol in symbols_of(extent) if symbol.name in self.ranges]
        if isinstance(declared, str) and not symbols:
            raise InputError(
                f"the dimension {declared!r} of an output is {extent}, it cannot be {low}..{high}",
                hint="leave it out: the dimension follows from others",
            )
        if len(symbols) == 1 and self._is_own(symbols[0], extent):
            if isinstance(declared, int):
                self._narrow(symbols[0].name, (declared, declared))
            elif declared not in self._elements:
                names = {**self.implied.names, symbols[0].name: declared}
                self.implied = replace(self.implied, names=names)
        elif isinstance(declared, str):
            self.imply_nonnegative(extent - low)
            self.imply_nonnegative(high - extent)

    def _given(self, declared: str | int) -> Range:
        """Return the range that is given for a dimension."""
        given: int | str | SizeRange = declared
        if isinstance(declared, str):
            given = given_size(declared, self._dims[declared])
        if isinstance(given, str):
            raise InputError(
                f"the dimension {declared!r} of an output cannot be {given!r}",
                hint="give a number or a range",
            )
        return (given, given) if isinstance(given, int) else (given.low, given.high)

    def _narrow(self, name: str, range_: Range) -> None:
        low, high = self.implied.ranges.get(name, range_)
        ranges = {**self.implied.ranges, name: (max(low, range_[0]), min(high, range_[1]))}
        self.implied = replace(self.implied, ranges=ranges)

    def _is_small(self, value: SSAValue) -> bool:
        shape, element = shape_of(value), type_of(value).element_type
        count = int(np.prod(shape)) if all(isinstance(n, int) for n in shape) else 0
        is_integer = isinstance(element, IntegerType) and element != i1
        return is_integer and len(shape) <= 1 and 0 < count <= _MOST_ELEMENTS

    def _array(self, value: SSAValue) -> NDArray[Any] | None:
        array = self._builder.sizes.get(value)
        return self._builder.known.get(value) if array is None else array

    def _symbolic(self, value: SSAValue, steps: int) -> NDArray[Any]:
        """Return the elements of a tensor as expressions of sizes that may not be defined yet."""
        known = self._array(value)
        if known is None:
            known = self._builder.value_of(value)
        if known is not None:
            return known
        found = self._evaluated(value, steps) if steps else None
        if found is not None:
            return found
        count = int(np.prod(shape_of(value)))
        array = np.empty(count, object)
        array[:] = [self._element(value, index, count) for index in range(count)]
        return array.reshape(shape_of(value))

    def _evaluated(self, value: SSAValue, steps: int) -> NDArray[Any] | None:
        """Return the elements of the result of an op on small integers; None for other values."""
        op = value.owner
        # The size of a sum is the sum, and a clamped value has the bounds of the clamp.
        if not isinstance(op, GraphOp) or isinstance(op, ReduceOp | MinOp | MaxOp):
            return None
        if len(op.results) != 1 or not op.operands:
            return None
        if not all(self._array(v) is not None or self._is_small(v) for v in op.operands):
            return None
        arrays = [self._symbolic(operand, steps - 1) for operand in op.operands]
        if any(array.dtype.kind not in "iuO" for array in arrays):
            return None
        try:
            found = op.compute_sizes(*arrays)
        except (UndecidedSize, TypeError, ZeroDivisionError):
            return None
        return None if found is None else np.asarray(found, object).reshape(shape_of(value))

    def _element(self, value: SSAValue, index: int, count: int) -> Extent:
        for other in self._elements.values():
            if other.index == index and are_equal(value, other.value):
                return other.size
        hint = value.name_hint or "size"
        name = self._builder.defined.unused_name(
            f"{hint}_{index}" if count > 1 else hint, (*self._elements, *self._dims)
        )
        name = self._known.names.get(name, name)
        size = named_size(name, 0, _UNBOUNDED)
        self._elements[name] = _Element(value, index, size)
        return size

    def _define(self, name: str, low: int, likely: Extent | None) -> bool:
        """Define the size of an element; return whether it may be one."""
        element = self._elements[name]
        if element.extent is not None:
            if name in self.ranges and self.ranges[name][0][0] < low:
                self._narrow(name, (low, _UNBOUNDED))
            return True
        assert self._rooms is not None
        if (given := self._rooms.get(name, (0, 0))) is None:
            return False
        equal = self._known.equal.get(name)
        if equal is not None and self._builder.defined.symbols.issuperset(symbols_of(equal)):
            self._define_equal(name, element, equal)
            return True
        least, most = self._known.ranges.get(name, (0, _UNBOUNDED))
        bounds = value_bounds(element.value, self._array)
        low = max(low if bounds[0] < 0 else 0, least)
        if name in self._known.names.values():
            given = self._given(name)
        elif name not in self._rooms:
            given = whole_range(bounds, low, min(most, _MOST_BOUND))
            if min(bounds[1], most) > _MOST_BOUND:
                known = self._sampled(element)
                given = low, max(room_for(known or 0), low)
                if known is not None and known == likely and known >= low:
                    given = known, known
                self.missing[name] = given
        given = max(given[0], least), min(given[1], most)
        if given[0] > given[1]:
            return False
        count = self._count(element)
        (element.extent,) = as_extents([named_size(name, *given)])
        if isinstance(element.extent, Size):
            self._builder.defined.add(count, element.extent)
        self.ranges[name] = given, count
        return True

    def _define_equal(self, name: str, element: _Element, extent: Extent) -> None:
        """Use another extent for an element; a run checks that their difference is 0."""
        array = np.array([extent], object)
        other = self._builder.size_values(array, np.dtype(np.int64))
        difference = self._builder.emit(SubOp(self._count(element), other))
        (element.extent,) = as_extents([extent])
        self.ranges[f"{name} - {extent}"] = (0, 0), difference

    def _count(self, element: _Element) -> SSAValue:
        """Add ops that return an element as a vector of one i64."""
        count = element.value
        emit = self._builder.emit
        shape = shape_of(count)
        if shape not in ((), (1,)):
            count = emit(SliceOp(count, [element.index], [1]))
        if shape == ():
            count = emit(ReshapeOp(count, (1,)))
        return count if type_of(count).element_type == i64 else emit(CastOp(count, i64))

    def _sampled(self, element: _Element) -> int | None:
        """Return the value of an element for the samples; None if it is not known, or needs much
        work.
        """
        builder, value = self._builder, element.value
        known: dict[SSAValue, NDArray[Any]] = {
            argument: self._samples[name]
            for argument, name in builder.argument_names.items()
            if name in self._samples and argument not in builder.texts
        }
        order = [] if value in known else builder.steps_to(value, known)
        if order is None:
            return None
        try:
            for op in order:
                arrays = [builder.known[v] if v in builder.known else known[v] for v in op.operands]
                with strings_in(builder.strings):
                    known.update(zip(op.results, op.evaluate(*arrays), strict=True))
        # The program computes the value: shapes may be sizes here, and data may be invalid.
        except (TcoptError, ValueError, TypeError, IndexError, ArithmeticError):
            return None
        return int(known[value].reshape(-1)[element.index])


def _at(extent: Extent, symbol: Symbol, value: int) -> int:
    return evaluate(extent, {symbol.name: value})
