"""Filling the border of a buffer whose interior is written by blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, MemRefType, i64
from xdsl.ir import SSAValue
from xdsl.irdl import BaseAttr, IRDLOperation, irdl_op_definition, operand_def, prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from tcopt.dialects.loop.types import parse_buffer_type
from tcopt.dialects.size import DimsAttr, dims_attr, extent_text, extents_of, parse_extent
from tcopt.support.arithmetic.sizes import lower_bound
from tcopt.support.ir.literals import (
    INTEGERS,
    integers,
    number_attr,
    number_list,
    parse_number,
    print_number,
)


class Side(NamedTuple):
    """A box of a buffer: its first index and its extent in each dimension; they may be sizes."""

    first: tuple[int, ...]
    extents: tuple[int, ...]


@irdl_op_definition
class BorderOp(IRDLOperation):
    """Writes one value to every element of a buffer outside a box.

    `loop.border %y outside [0 to 1, 1 to 7] = 0.0 : memref<1x8xf32>` does not write row 0, columns
    1 to 6. It is not a block: schedules do not see it, and `expand-borders` lowers it to loops.
    An end of the box may be a size, as in `[0 to s0[1:8], 1 to 7]`; the border ends with the
    extents of the buffer.
    """

    name = "loop.border"

    buffer = operand_def(MemRefType)
    first = prop_def(INTEGERS)
    end = prop_def(INTEGERS | BaseAttr(DimsAttr))
    value = prop_def(IntegerAttr | FloatAttr)

    def __init__(
        self,
        buffer: SSAValue,
        first: Sequence[int],
        end: Sequence[int],
        value: IntegerAttr | FloatAttr,
    ):
        super().__init__(
            operands=[buffer],
            properties={
                "first": DenseArrayBase.from_list(i64, first),
                "end": dims_attr(end) or number_list(*end),
                "value": value,
            },
        )

    @property
    def ends(self) -> tuple[int, ...]:
        """The end of the box in each dimension; it may be a size."""
        end = self.end
        if isinstance(end, DimsAttr):
            return cast("tuple[int, ...]", end.extents)
        return integers(end)

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the buffer; they may be sizes."""
        return cast("tuple[int, ...]", extents_of(self.type))

    @property
    def type(self) -> MemRefType:
        """The type of the buffer."""
        assert isa(self.buffer.type, MemRefType)
        return self.buffer.type

    def sides(self) -> list[Side]:
        """Return disjoint boxes that together cover the border.

        The boxes of each dimension are restricted to the interior of the dimensions before it.
        """
        found: list[Side] = []
        first, extents = [0] * len(self.shape), list(self.shape)
        for axis, (low, high) in enumerate(zip(integers(self.first), self.ends, strict=True)):
            for start, count in ((0, low), (high, extents[axis] - high)):
                if count != 0:
                    found.append(
                        Side(
                            (*first[:axis], start, *first[axis + 1 :]),
                            (*extents[:axis], count, *extents[axis + 1 :]),
                        )
                    )
            first[axis], extents[axis] = low, high - low
        return found

    def verify_(self) -> None:
        shape, first, end = self.shape, integers(self.first), self.ends
        if not len(first) == len(end) == len(shape):
            raise VerifyException(f"the box has {len(first)} dimensions, the buffer {len(shape)}")
        spans = [(a, b - a, n - b) for a, b, n in zip(first, end, shape, strict=True)]
        if any(lower_bound(extent) < 0 for span in spans for extent in span):
            raise VerifyException(f"the box {list(first)} to {list(end)} exceeds {self.type}")
        if self.value.type != self.type.get_element_type():
            raise VerifyException("the value's type differs from the element type")

    @classmethod
    def parse(cls, parser: Parser) -> BorderOp:
        buffer = parser.parse_unresolved_operand()
        parser.parse_keyword("outside")

        def span() -> tuple[int, int]:
            low = parser.parse_integer(allow_boolean=False)
            parser.parse_keyword("to")
            return low, cast(int, parse_extent(parser))

        spans = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, span)
        parser.parse_punctuation("=")
        number = parse_number(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type_ = parse_buffer_type(parser)
        value = number_attr(number, type_.get_element_type())
        first, end = [low for low, _ in spans], [high for _, high in spans]
        op = cls(parser.resolve_operand(buffer, type_), first, end, value)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.buffer)
        spans = zip(integers(self.first), self.ends, strict=True)
        box = ", ".join(f"{low} to {extent_text(high)}" for low, high in spans)
        printer.print_string(f" outside [{box}] = ")
        print_number(printer, self.value)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.buffer.type)
