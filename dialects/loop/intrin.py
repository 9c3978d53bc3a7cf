"""Calls of hardware intrinsics on buffer tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import (
    I64,
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    IndexType,
    MemRefType,
    StringAttr,
    i32,
    i64,
)
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
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
from tcopt.dialects.loop.memory import AllocOp
from tcopt.dialects.loop.scopes import Scope
from tcopt.dialects.loop.types import parse_buffer_type, reach_of
from tcopt.support.errors import UnsupportedError
from tcopt.support.ir.index_maps import verify_index_map
from tcopt.support.ir.literals import integers, parse_rows, print_rows
from tcopt.support.syntax.access_syntax import parse_access, print_expr

if TYPE_CHECKING:
    from tcopt.dialects.intrinsics import Intrinsic

Steps = tuple[tuple[int, ...], ...]
"""For each dimension of a tile, the step along each dimension of the buffer."""


@dataclass(frozen=True)
class OperandTile:
    """A tile of a buffer that is an operand of an intrinsic.

    Attributes:
        first: indices of the tile's first element, over the index operands of the op.
        extents: the extents of the tile's dimensions.
        is_read: whether the intrinsic reads the tile.
        is_padded: whether the tile may leave the buffer; elements outside are `outside`.
    """

    buffer: SSAValue
    is_output: bool
    first: tuple[AffineExpr, ...]
    steps: Steps
    extents: tuple[int, ...]
    is_read: bool = True
    is_padded: bool = False
    outside: int = 0

    @property
    def reaches(self) -> list[tuple[int, int]]:
        """Minimum and maximum offset of elements from the first, per dimension of the buffer."""
        return [
            reach_of([step[dim] for step in self.steps], self.extents)
            for dim in range(len(self.first))
        ]


@irdl_op_definition
class IntrinOp(IRDLOperation):
    """Calls a hardware intrinsic on buffer tiles; it updates its outputs.

        loop.intrin "bf16_dot" outs(%c[%i, %j] : memref<4x16xf32>)
          ins(%a[%i, %k] by [0, 1] : memref<4x64xbf16>,
              %b[%k floordiv 2, %j, 0] by [0, 0, 1] : memref<32x16x2xbf16>)

    Each operand is a buffer with the indices of its tile's first element and, for each dimension
    of the tile, the step along each dimension of the buffer. The intrinsic, declared by name in
    `dialects/intrinsics/`, determines the extents, element types and computation.
    """

    name = "loop.intrin"

    intrin = prop_def(StringAttr)
    outputs = var_operand_def(MemRefType)
    inputs = var_operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    map = prop_def(AffineMapAttr)
    """The first indices of all tiles, outputs first, concatenated."""
    steps = prop_def(ArrayAttr[ArrayAttr[DenseArrayBase[I64]]])

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self,
        intrin: str,
        outputs: Sequence[SSAValue],
        inputs: Sequence[SSAValue],
        map: AffineMap,
        indices: Sequence[SSAValue],
        steps: Sequence[Sequence[Sequence[int]]],
    ):
        """`map` holds the first indices of all tiles; `steps` holds the steps of each tile."""
        super().__init__(
            operands=[outputs, inputs, indices],
            properties={
                "intrin": StringAttr(intrin),
                "map": AffineMapAttr(map),
                "steps": ArrayAttr([_steps_attr(each) for each in steps]),
            },
        )

    @property
    def buffers(self) -> tuple[SSAValue, ...]:
        """The buffers of all tiles, outputs first."""
        return (*self.outputs, *self.inputs)

    @property
    def tiles(self) -> list[OperandTile]:
        """The tiles, outputs first."""
        from tcopt.dialects.intrinsics import intrinsic

        declared = intrinsic(self.intrin.data)
        changes = declared.changes
        places = zip(self._places(), declared.operands, self.steps, strict=True)
        return [
            OperandTile(
                buffer,
                position < len(self.outputs),
                first,
                tuple(integers(each) for each in steps),
                operand.shape,
                position >= len(self.outputs) or changes,
                operand.is_padded,
                operand.outside,
            )
            for position, ((buffer, first), operand, steps) in enumerate(places)
        ]

    @property
    def reads_outputs(self) -> bool:
        """Whether the intrinsic reads the previous contents of its outputs."""
        from tcopt.dialects.intrinsics import intrinsic

        return intrinsic(self.intrin.data).changes

    def _places(self) -> Iterator[tuple[SSAValue, tuple[AffineExpr, ...]]]:
        """Yield each buffer with the first indices of its tile."""
        start, results = 0, self.map.data.results
        for buffer in self.buffers:
            assert isa(buffer.type, MemRefType)
            end = start + len(buffer.type.get_shape())
            yield buffer, tuple(results[start:end])
            start = end

    def set_tile(
        self, position: int, first: Sequence[AffineExpr], values: Sequence[SSAValue]
    ) -> None:
        """Replace the first indices of one tile by expressions over `values`."""
        maps: list[tuple[AffineMap, list[SSAValue]]] = []
        for place, (_, exprs) in enumerate(self._places()):
            if place == position:
                maps.append((AffineMap(len(values), 0, tuple(first)), list(values)))
            else:
                maps.append((AffineMap(len(self.indices), 0, exprs), list(self.indices)))
        map, operands = merge_maps(maps)
        self.map = AffineMapAttr(map)
        self.set_indices(operands)

    def set_tiles(
        self, map: AffineMap, values: Sequence[SSAValue], steps: Sequence[Sequence[Sequence[int]]]
    ) -> None:
        """Replace the first indices of all tiles by expressions over `values`, and their steps."""
        self.map = AffineMapAttr(map)
        self.steps = ArrayAttr([_steps_attr(each) for each in steps])
        self.set_indices(values)

    def set_indices(self, values: Sequence[SSAValue]) -> None:
        """Replace the index operands, to which the dimensions of the map refer."""
        self.operands = [*self.buffers, *values]
        sizes = (len(self.outputs), len(self.inputs), len(values))
        self.properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, sizes)

    def verify_(self) -> None:
        verify_index_map(self.map.data, len(self.indices))
        ranks = [_rank(buffer) for buffer in self.buffers]
        if len(self.map.data.results) != sum(ranks) or len(self.steps) != len(ranks):
            raise VerifyException("each buffer of an intrinsic needs one index per dimension")
        self._verify_operands(ranks)
        self._verify_bounds()

    def _verify_bounds(self) -> None:
        from tcopt.dialects.loop.bounds import verify_in_bounds

        for tile in self.tiles:
            if tile.is_padded:
                continue
            assert isa(tile.buffer.type, MemRefType)
            shape = tile.buffer.type.get_shape()
            verify_in_bounds(self, tile.first, self.indices, tile.reaches, shape)

    def _verify_operands(self, ranks: Sequence[int]) -> None:
        from tcopt.dialects.intrinsics import intrinsic

        try:
            declared = intrinsic(self.intrin.data)
        except UnsupportedError as error:
            raise VerifyException(f"{error.message}; {error.hint}") from None
        operands = declared.operands
        if len(self.outputs) != 1 or len(operands) != len(ranks):
            raise VerifyException(
                f'"{self.intrin.data}" takes 1 output and {len(operands) - 1} inputs'
            )
        for operand, buffer, steps, rank in zip(
            operands, self.buffers, self.steps, ranks, strict=True
        ):
            assert isa(buffer.type, MemRefType)
            if buffer.type.get_element_type() != operand.element:
                raise VerifyException(
                    f"operand '{operand.name}' holds {operand.element}, "
                    f"not {buffer.type.get_element_type()}"
                )
            if len(steps) != len(operand.shape) or any(len(each) != rank for each in steps):
                raise VerifyException(
                    f"operand '{operand.name}' needs {len(operand.shape)} lists of {rank} steps, "
                    "one list for each dimension of its tile"
                )
        if (reason := scope_mismatch(declared, self.buffers)) is not None:
            raise VerifyException(reason)

    @classmethod
    def parse(cls, parser: Parser) -> IntrinOp:
        name = parser.parse_str_literal()
        maps: list[tuple[AffineMap, list[SSAValue]]] = []
        steps: list[list[list[int]]] = []

        def tile() -> SSAValue:
            memref = parser.parse_unresolved_operand()
            maps.append(parse_access(parser))
            steps.append(parse_rows(parser, "by"))
            parser.parse_punctuation(":")
            return parser.resolve_operand(memref, parse_buffer_type(parser))

        parser.parse_keyword("outs")
        outputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, tile)
        parser.parse_keyword("ins")
        inputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, tile)
        map, operands = merge_maps(maps)
        op = cls(name, outputs, inputs, map, operands, steps)
        op.attributes.update(parser.parse_optional_attr_dict())
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.intrin.data)
        places = list(zip(self._places(), self.steps, strict=True))

        def tile(
            place: tuple[tuple[SSAValue, tuple[AffineExpr, ...]], ArrayAttr[DenseArrayBase[I64]]],
        ) -> None:
            (buffer, first), steps = place
            printer.print_ssa_value(buffer)
            with printer.in_square_brackets():
                printer.print_list(first, lambda e: print_expr(printer, e, self.indices))
            print_rows(printer, "by", [integers(row) for row in steps])
            printer.print_string(" : ")
            printer.print_attribute(buffer.type)

        count = len(self.outputs)
        for keyword, of in (("outs", places[:count]), ("ins", places[count:])):
            printer.print_string(f" {keyword}")
            with printer.in_parens():
                printer.print_list(of, tile)
        printer.print_op_attributes(self.attributes)


def scope_mismatch(declared: Intrinsic, buffers: Sequence[SSAValue]) -> str | None:
    """Describe the first operand in an illegal memory scope; None if all are legal.

    Args:
        buffers: the buffers of the operands, the output first.
    """
    if declared.lowering is not None:
        return None
    for operand, buffer in zip(declared.operands, buffers, strict=True):
        alloc = buffer.owner
        scope = alloc.scope.data if isinstance(alloc, AllocOp) else Scope.GLOBAL
        wanted = declared.scopes.get(operand.name)
        if wanted is None and scope.is_placed:
            return f"operand '{operand.name}' is in {scope}, which is not memory"
        if wanted is not None and scope.value != wanted:
            return f"operand '{operand.name}' is in {scope}, not in {wanted}"
    return None


def _rank(buffer: SSAValue) -> int:
    assert isa(buffer.type, MemRefType)
    return len(buffer.type.get_shape())


def _steps_attr(steps: Sequence[Sequence[int]]) -> ArrayAttr[DenseArrayBase[I64]]:
    return ArrayAttr([DenseArrayBase.from_list(i64, row) for row in steps])
