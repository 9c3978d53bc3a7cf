"""table: products with entries of small constant tables, and functions of bytes as tables.

Fast algorithms for convolutions and transforms multiply by small constant matrices whose entries
are mostly 0, 1 or -1. `table.scale` keeps such a matrix with the product, so that one loop body
covers all rows; once the loop is unrolled, the entry is known and the product simplifies to
nothing, the operand, its negation, or a multiplication by a constant.

A function from bytes to bytes is a table of 256 entries. `table.lookup` keeps the table with the
operand, because vector lanes may select different entries: CPUs look up bytes in registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    IndexType,
    IntegerType,
    Signedness,
    f64,
    i8,
)
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa
from xdsl.utils.type import get_element_type_or_self

from tcopt.support.ir.literals import float_text, parse_number
from tcopt.support.ir.quick_ir import init_op


def is_scaled_integer(element: Attribute) -> bool:
    """Whether a type is an integer type that `table.scale` supports: signless and wider than i1."""
    return (
        isa(element, IntegerType)
        and element.width.data > 1
        and element.signedness.data is Signedness.SIGNLESS
    )


@irdl_op_definition
class ScaleOp(IRDLOperation):
    """`x` times the entry of a constant table at an index.

    If the entry is 0, the result is zero for any `x`, even infinities and NaNs: the term is
    absent. For floats this is the negative zero, which is the identity of addition. Integer
    operands need tables of integers, and products wrap around.
    ```mlir
    %r = table.scale %x by %i of [4.0, 0.0, -5.0, 0.0, 1.0, 0.0] : f32
    ```
    With `fastmath<contract>` after the table, the product may be contracted with a sum.
    """

    name = "table.scale"

    x = operand_def()
    index = operand_def(IndexType)
    table = prop_def(DenseArrayBase.constr(f64))
    fastmath = prop_def(FastMathFlagsAttr, default_value=FastMathFlagsAttr("none"))
    result = result_def()

    traits = traits_def(Pure())

    def __init__(
        self,
        x: SSAValue | Operation,
        index: SSAValue | Operation,
        table: Sequence[float],
        fastmath: FastMathFlagsAttr | None = None,
    ):
        x = SSAValue.get(x)
        properties: dict[str, Attribute] = {"table": DenseArrayBase.from_list(f64, table)}
        if fastmath is not None:
            properties["fastmath"] = fastmath
        init_op(self, [x, SSAValue.get(index)], [x.type], properties)

    @property
    def entries(self) -> tuple[float, ...]:
        """The entries of the table."""
        return tuple(float(v) for v in self.table.get_values())

    def verify_(self) -> None:
        element = get_element_type_or_self(self.x.type)
        if not isinstance(element, AnyFloat) and not is_scaled_integer(element):
            raise VerifyException(f"scales floats or integers, not {self.x.type}")
        if self.result.type != self.x.type:
            raise VerifyException(f"result type {self.result.type} should be {self.x.type}")
        if not len(self.table):
            raise VerifyException("the table is empty")
        if not isinstance(element, AnyFloat):
            rest = next((e for e in self.entries if not e.is_integer()), None)
            if rest is not None:
                raise VerifyException(
                    f"the entry {rest} of a table for {element} is not an integer"
                )

    @classmethod
    def parse(cls, parser: Parser) -> ScaleOp:
        x = parser.parse_unresolved_operand()
        parser.parse_characters("by")
        position = parser.parse_unresolved_operand()
        parser.parse_characters("of")
        square = parser.Delimiter.SQUARE
        table = parser.parse_comma_separated_list(square, lambda: float(parse_number(parser)))
        flags = None
        if parser.parse_optional_keyword("fastmath"):
            flags = FastMathFlagsAttr(FastMathFlagsAttr.parse_parameter(parser))
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        value = parser.resolve_operand(x, parser.parse_type())
        op = cls(value, parser.resolve_operand(position, IndexType()), table, flags)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.x)
        printer.print_string(" by ")
        printer.print_ssa_value(self.index)
        printer.print_string(" of [")
        printer.print_list(self.entries, lambda v: printer.print_string(float_text(v)))
        printer.print_string("]")
        if self.fastmath.data:
            printer.print_string(" fastmath")
            self.fastmath.print_parameter(printer)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


BYTES = 256
"""Number of entries in the table of a function of bytes."""


@irdl_op_definition
class LookupOp(IRDLOperation):
    """Looks up each byte, taken as unsigned, in a constant table.

    ```mlir
    %r = table.lookup %x of [7, 6, 5, ..., -128] : i8
    %s = table.lookup %y of [7, 6, 5, ..., -128] : vector<64xi8>
    ```
    """

    name = "table.lookup"

    x = operand_def()
    table = prop_def(DenseArrayBase.constr(i8))
    result = result_def()

    traits = traits_def(Pure())

    def __init__(self, x: SSAValue | Operation, table: Sequence[int]):
        x = SSAValue.get(x)
        init_op(self, [x], [x.type], {"table": DenseArrayBase.from_list(i8, table)})

    @property
    def entries(self) -> tuple[int, ...]:
        """The bytes of the table, from -128 to 127."""
        return tuple(int(v) for v in self.table.get_values())

    def verify_(self) -> None:
        if get_element_type_or_self(self.x.type) != i8:
            raise VerifyException(f"looks up bytes, not {self.x.type}")
        if self.result.type != self.x.type:
            raise VerifyException(f"result type {self.result.type} should be {self.x.type}")
        if len(self.table) != BYTES:
            raise VerifyException(f"the table has {len(self.table)} entries, not {BYTES}")

    @classmethod
    def parse(cls, parser: Parser) -> LookupOp:
        x = parser.parse_unresolved_operand()
        parser.parse_characters("of")
        square = parser.Delimiter.SQUARE
        table = parser.parse_comma_separated_list(square, parser.parse_integer)
        if any(not -128 <= entry <= 127 for entry in table):
            parser.raise_error("entries are from -128 to 127")
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        op = cls(parser.resolve_operand(x, parser.parse_type()), table)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.x)
        printer.print_string(" of [")
        printer.print_list(self.entries, lambda v: printer.print_string(str(v)))
        printer.print_string("]")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


DIALECT = Dialect("table", [ScaleOp, LookupOp], [])
