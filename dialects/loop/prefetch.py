"""Prefetch hints for buffers."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AffineMapAttr, IndexType, IntegerAttr, MemRefType, i64
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineMap
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

from tcopt.support.ir.index_maps import verify_index_map
from tcopt.support.syntax.access_syntax import parse_access, print_access

MAX_LOCALITY = 3
"""Highest locality: keep the line in all caches; 2 is all but L1, 0 is none."""


@irdl_op_definition
class PrefetchOp(IRDLOperation):
    """Prefetches the cache line of an element; it has no effect on values.

    `loop.prefetch %w[%j + 1, %k, 0] locality 2 : memref<8x64x16xf32>` fetches the line into L2
    because it will be read soon. Indices may be out of bounds: they are linearised without checks,
    and prefetching an address outside the buffer has no visible effect.
    """

    name = "loop.prefetch"

    memref = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    map = prop_def(AffineMapAttr)
    locality = prop_def(IntegerAttr[i64])

    def __init__(
        self,
        memref: SSAValue | Operation,
        map: AffineMap,
        indices: Sequence[SSAValue],
        locality: int,
    ):
        super().__init__(
            operands=[memref, indices],
            properties={"map": AffineMapAttr(map), "locality": IntegerAttr(locality, i64)},
        )

    def verify_(self) -> None:
        type_ = self.memref.type
        assert isa(type_, MemRefType)
        map = self.map.data
        if len(map.results) != len(type_.get_shape()):
            raise VerifyException(
                f"{len(map.results)} indices for a buffer of rank {len(type_.get_shape())}"
            )
        verify_index_map(map, len(self.indices))
        if not 0 <= self.locality.value.data <= MAX_LOCALITY:
            raise VerifyException(f"locality must be an integer from 0 to {MAX_LOCALITY}")

    @classmethod
    def parse(cls, parser: Parser) -> PrefetchOp:
        memref = parser.parse_unresolved_operand()
        map, indices = parse_access(parser)
        parser.parse_keyword("locality")
        locality = parser.parse_integer(allow_boolean=False)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        op = cls(parser.resolve_operand(memref, parser.parse_type()), map, indices, locality)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.memref)
        print_access(printer, self.map.data, self.indices)
        printer.print_string(f" locality {self.locality.value.data}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.memref.type)
