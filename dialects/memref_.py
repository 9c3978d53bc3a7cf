"""xDSL's memref dialect, completed by `memref.prefetch` with MLIR's name and syntax.

Source: https://mlir.llvm.org/docs/Dialects/MemRef/
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import BoolAttr, IndexType, IntegerAttr, MemRefType, i32
from xdsl.dialects.memref import MemRef
from xdsl.ir import Dialect, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa


@irdl_op_definition
class PrefetchOp(IRDLOperation):
    """Prefetches the cache line of an element.

    ```mlir
    memref.prefetch %w[%i, %j], read, locality<2>, data : memref<64x16xf32>
    ```
    A locality of 3 keeps data in all caches; 0 is for data that is used once. Only data prefetches
    for reading are supported.
    """

    name = "memref.prefetch"

    memref = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    isWrite = prop_def(BoolAttr)
    localityHint = prop_def(IntegerAttr)
    isDataCache = prop_def(BoolAttr)

    def __init__(self, memref: SSAValue | Operation, indices: Sequence[SSAValue], locality: int):
        properties = {
            "isWrite": IntegerAttr.from_bool(False),
            "localityHint": IntegerAttr(locality, i32),
            "isDataCache": IntegerAttr.from_bool(True),
        }
        super().__init__(operands=[memref, indices], properties=properties)

    def verify_(self) -> None:
        type_ = self.memref.type
        assert isa(type_, MemRefType)
        if len(self.indices) != len(type_.get_shape()):
            raise VerifyException(
                f"{len(self.indices)} indices for a buffer of rank {len(type_.get_shape())}"
            )
        if not 0 <= self.localityHint.value.data <= 3:
            raise VerifyException("locality must be an integer from 0 to 3")

    @classmethod
    def parse(cls, parser: Parser) -> PrefetchOp:
        memref = parser.parse_unresolved_operand()
        indices = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, parser.parse_unresolved_operand
        )
        parser.parse_punctuation(",")
        parser.parse_keyword("read")
        parser.parse_punctuation(",")
        parser.parse_keyword("locality")
        parser.parse_punctuation("<")
        locality = parser.parse_integer(allow_boolean=False)
        parser.parse_punctuation(">")
        parser.parse_punctuation(",")
        parser.parse_keyword("data")
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        buffer = parser.resolve_operand(memref, parser.parse_type())
        op = cls(buffer, [parser.resolve_operand(i, IndexType()) for i in indices], locality)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.memref)
        printer.print_string("[")
        printer.print_list(self.indices, printer.print_ssa_value)
        locality = self.localityHint.value.data
        printer.print_string(f"], read, locality<{locality}>, data")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.memref.type)


DIALECT = Dialect("memref", [*MemRef.operations, PrefetchOp], list(MemRef.attributes))
