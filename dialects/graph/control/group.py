"""Fused groups: regions of operators that become one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    lazy_traits_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, IsTerminator, Pure, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import FusionKind, FusionKindAttr
from tcopt.dialects.graph.core.interfaces import (
    GraphOp,
    parse_operands,
    parse_properties,
    print_operands,
    print_properties,
)

PLACE = "place"
"""Attribute of a group that is not computed by the host: its kind of target."""


@irdl_op_definition
class GroupOp(IRDLOperation):
    """Operators that are computed by one kernel.

    The region may use outer values and ends in `graph.yield`, whose operands are the results.
    """

    name = "graph.group"
    traits = traits_def(RecursiveMemoryEffect(), Pure())

    kind = prop_def(FusionKindAttr)
    body = region_def("single_block")
    outputs = var_result_def(TensorType)

    def __init__(
        self,
        kind: FusionKind,
        body: Region | Sequence[Operation],
        result_types: Sequence[Attribute] | None = None,
    ):
        """Without `result_types`, use the operand types of the yield that ends the body."""
        region = body if isinstance(body, Region) else Region(Block(body))
        if result_types is None:
            last = region.block.last_op
            if last is None:
                raise VerifyException("the body is empty")
            result_types = last.operand_types
        super().__init__(
            properties={"kind": FusionKindAttr(kind)},
            regions=[region],
            result_types=[result_types],
        )

    @property
    def fusion_kind(self) -> FusionKind:
        """Fusion kind of the group as a whole."""
        return self.kind.data

    def captured(self) -> list[SSAValue]:
        """Return the outer values that the body uses, in order of first use."""
        found: dict[SSAValue, None] = {}
        for op in self.body.block.ops:
            for operand in op.operands:
                if operand.owner is not self.body.block and (
                    not isinstance(operand.owner, Operation)
                    or operand.owner.parent is not self.body.block
                ):
                    found[operand] = None
        return list(found)

    def verify_(self) -> None:
        """Check that the body holds graph ops and yields values of the result types."""
        if self.body.block.args:
            raise VerifyException("the body takes no arguments, it uses outer values")
        last = self.body.block.last_op
        if not isinstance(last, YieldOp):
            raise VerifyException("the body must end in graph.yield")
        for op in self.body.block.ops:
            if op is not last and not isinstance(op, GraphOp):
                raise VerifyException(f"a group holds graph operators, not {op.name}")
        if list(last.operand_types) != list(self.result_types):
            raise VerifyException("results and yielded values differ in type")

    def print(self, printer: Printer) -> None:
        """Print ` kind = injective {..} : types`."""
        printer.print_string(f" kind = {self.kind.data} ")
        printer.print_region(self.body, print_empty_block=False)
        if self.attributes:
            printer.print_string(" attributes")
            print_properties(printer, self, hidden=("kind",))
        printer.print_string(" : ")
        printer.print_list(self.result_types, printer.print_attribute)

    @classmethod
    def parse(cls, parser: Parser) -> GroupOp:
        """Parse the text form that `print` emits."""
        parser.parse_keyword("kind")
        parser.parse_punctuation("=")
        kind = parser.parse_str_enum(FusionKind)
        region = parser.parse_region()
        attributes: dict[str, Attribute] = {}
        if parser.parse_optional_keyword("attributes"):
            _, attributes = parse_properties(parser, cls)
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        op = cls(kind, region, types)
        op.attributes.update(attributes)
        return op


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Terminator of a group's region; its operands are the group's results."""

    name = "graph.yield"
    traits = lazy_traits_def(lambda: (IsTerminator(), HasParent(GroupOp), Pure()))

    values = var_operand_def(TensorType)

    def __init__(self, *values: SSAValue | Operation):
        super().__init__(operands=[values])

    def print(self, printer: Printer) -> None:
        """Print ` %a, %b : types`."""
        print_operands(printer, self.operands)
        print_properties(printer, self)
        if self.operands:
            printer.print_string(" : ")
            printer.print_list(self.operand_types, printer.print_attribute)

    @classmethod
    def parse(cls, parser: Parser) -> YieldOp:
        """Parse the text form that `print` emits; the types may be omitted."""
        operands = parse_operands(parser)
        _, attributes = parse_properties(parser, cls)
        if parser.parse_optional_punctuation(":"):
            types: Any = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
            if types != [value.type for value in operands]:
                parser.raise_error("types differ from those of the values")
        op = cls(*operands)
        op.attributes.update(attributes)
        return op
