"""Base of functions over buffers: loop functions, and programs of accelerators."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence
from typing import ClassVar, Self

from xdsl.dialects.builtin import FunctionType, StringAttr
from xdsl.ir import Attribute, Region
from xdsl.irdl import IRDLOperation, prop_def, region_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.size import function_symbols, verify_symbols
from tcopt.support.syntax.func_syntax import parse_function, print_function


class BufferFunction(IRDLOperation, ABC):
    """A symbol with a single-block body that returns nothing.

    Its arguments are buffers, followed by an index for each size that their types have.

    Attributes:
        CALLED: the name of the op in messages.
    """

    CALLED: ClassVar[str] = "a program"

    sym_name = prop_def(StringAttr)
    function_type = prop_def(FunctionType)
    body = region_def("single_block")

    def __init__(self, name: str, arg_types: Sequence[Attribute], body: Region):
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "function_type": FunctionType.from_lists(arg_types, []),
            },
            regions=[body],
        )

    def verify_signature(self, verify_buffer: Callable[[Attribute], None]) -> None:
        """Check that the signature has no results and that the arguments are declared buffers."""
        if tuple(self.body.block.arg_types) != self.function_type.inputs.data:
            raise VerifyException("argument types differ from the function type")
        if self.function_type.outputs.data:
            raise VerifyException(f"{self.CALLED} writes into its arguments and returns nothing")
        inputs = self.function_type.inputs.data
        verify_symbols(self, inputs, arguments=True)
        for type_ in inputs[: len(inputs) - len(function_symbols(self))]:
            verify_buffer(type_)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        name, type_, body, attributes = parse_function(parser)
        op = cls(name, type_.inputs.data, body)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        print_function(printer, self.sym_name, self.function_type, self.body, self.attributes)
