"""Calls of hardware intrinsics on buffer tiles."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, IndexType, MemRefType, StringAttr
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from tcopt.dialects.loop.conditions import merge_maps
from tcopt.support.access_syntax import parse_access, print_access


@irdl_op_definition
class IntrinOp(IRDLOperation):
    """Calls a hardware intrinsic on buffer tiles.

    `loop.intrin "dp4a" outs(%c[%i, %j]) ins(%a[%i, %k * 4], %b[%j, %k * 4])`: each operand
    is a buffer with the indices of its tile's first element; `sizes` gives the tile shapes.
    """

    name = "loop.intrin"

    intrin = prop_def(StringAttr)
    outputs = var_operand_def(MemRefType)
    inputs = var_operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    maps = prop_def(ArrayAttr[AffineMapAttr])

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self,
        intrin: str,
        outputs: Sequence[SSAValue],
        inputs: Sequence[SSAValue],
        maps: Sequence[AffineMap],
        indices: Sequence[SSAValue],
    ):
        super().__init__(
            operands=[outputs, inputs, indices],
            properties={
                "intrin": StringAttr(intrin),
                "maps": ArrayAttr([AffineMapAttr(m) for m in maps]),
            },
        )

    def verify_(self) -> None:
        tiles = (*self.outputs, *self.inputs)
        if len(self.maps) != len(tiles):
            raise VerifyException("each buffer of an intrinsic has an access map")
        for tile, map in zip(tiles, self.maps, strict=True):
            assert isa(tile.type, MemRefType)
            if len(map.data.results) != len(tile.type.get_shape()):
                raise VerifyException("an access map's rank differs from its buffer's")
            if map.data.num_dims != len(self.indices):
                raise VerifyException("access maps range over all index operands")

    @classmethod
    def parse(cls, parser: Parser) -> IntrinOp:
        name = parser.parse_str_literal()
        maps: list[tuple[AffineMap, list[SSAValue]]] = []

        def tile() -> SSAValue:
            memref = parser.parse_unresolved_operand()
            maps.append(parse_access(parser))
            parser.parse_punctuation(":")
            return parser.resolve_operand(memref, parser.parse_type())

        parser.parse_keyword("outs")
        outputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, tile)
        parser.parse_keyword("ins")
        inputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, tile)
        merged, operands = merge_maps(maps)
        rest = list(merged.results)
        split: list[AffineMap] = []
        for map, _ in maps:
            split.append(AffineMap(len(operands), 0, tuple(rest[: len(map.results)])))
            del rest[: len(map.results)]
        return cls(name, outputs, inputs, split, operands)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.intrin.data)
        maps = list(self.maps)

        def tile(pair: tuple[SSAValue, AffineMapAttr]) -> None:
            printer.print_ssa_value(pair[0])
            print_access(printer, pair[1].data, self.indices)
            printer.print_string(" : ")
            printer.print_attribute(pair[0].type)

        count = len(self.outputs)
        for keyword, tiles, of in (
            ("outs", self.outputs, maps[:count]),
            ("ins", self.inputs, maps[count:]),
        ):
            printer.print_string(f" {keyword}")
            with printer.in_parens():
                printer.print_list(zip(tiles, of, strict=True), tile)
