"""sched.sequence: a schedule of one function."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr, SymbolRefAttr
from xdsl.ir import Block, Region, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def, region_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, NoTerminator, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.sched.base import SchedOp


@irdl_op_definition
class SequenceOp(IRDLOperation):
    """The steps that schedule one `loop.func`, in order.

    `sched.sequence @fc_schedule for @fc { ... }`

    The attribute `rule` names the schedule rule that produced it; `declined` records why each rule
    tried before did not apply.
    """

    name = "sched.sequence"

    sym_name = prop_def(StringAttr)
    function = prop_def(SymbolRefAttr)
    body = region_def("single_block")

    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolOpInterface())

    def __init__(self, name: str, function: str, body: Region | None = None):
        super().__init__(
            properties={"sym_name": StringAttr(name), "function": SymbolRefAttr(function)},
            regions=[Region(Block()) if body is None else body],
        )

    def verify_(self) -> None:
        if self.body.block.args:
            raise VerifyException("a sequence takes no arguments")
        knobs: set[str] = set()
        defined: set[SSAValue] = set()
        for op in self.body.block.ops:
            if not isinstance(op, SchedOp):
                raise VerifyException(f"'{op.name}' is not a step of a schedule")
            for operand in op.operands:
                if operand not in defined:
                    name = operand.name_hint or "a handle"
                    raise VerifyException(f"%{name} is used before the step that defines it")
            defined.update(op.results)
            knob = op.properties.get("knob_name")
            if isinstance(knob, StringAttr):
                if knob.data in knobs:
                    raise VerifyException(f'two knobs are named "{knob.data}"')
                knobs.add(knob.data)

    @classmethod
    def parse(cls, parser: Parser) -> SequenceOp:
        name = parser.parse_symbol_name().data
        parser.parse_keyword("for")
        function = parser.parse_symbol_name().data
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region()
        if not body.blocks:
            body.add_block(Block())
        op = cls(name, function, body)
        if attributes is not None:
            op.attributes.update(attributes.data)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string(" for ")
        printer.print_symbol_name(self.function.root_reference.data)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_empty_block=False)
