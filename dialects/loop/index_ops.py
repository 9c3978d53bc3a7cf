"""Index expressions and lane masks as values."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AffineMapAttr, DenseArrayBase, IndexType, VectorType, i1, i64
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from tcopt.dialects.loop.conditions import parse_conditions, print_conditions
from tcopt.support.ir.index_maps import verify_index_map
from tcopt.support.ir.literals import INTEGERS, integers
from tcopt.support.ir.quick_ir import init_op
from tcopt.support.syntax.access_syntax import parse_access, print_access


@irdl_op_definition
class IndexOp(IRDLOperation):
    """The value of an index expression: `loop.index [%i * 4 + %j]`."""

    name = "loop.index"

    indices = var_operand_def(IndexType)
    map = prop_def(AffineMapAttr)
    result = result_def(IndexType())

    traits = traits_def(Pure())

    def __init__(self, map: AffineMap, indices: Sequence[SSAValue]):
        init_op(self, indices, [IndexType()], {"map": AffineMapAttr(map)})

    def set_indices(self, values: Sequence[SSAValue]) -> None:
        """Replace the index operands, to which the dimensions of the map refer."""
        self.operands = values

    def verify_(self) -> None:
        if len(self.map.data.results) != 1:
            raise VerifyException("loop.index takes one expression over its operands")
        verify_index_map(self.map.data, len(self.indices))

    @classmethod
    def parse(cls, parser: Parser) -> IndexOp:
        op = cls(*parse_access(parser))
        op.attributes.update(parser.parse_optional_attr_dict())
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_access(printer, self.map.data, self.indices)
        printer.print_op_attributes(self.attributes)


@irdl_op_definition
class MaskOp(IRDLOperation):
    """A mask whose lane `l` is true if `0 <= expr + l * step < extent` holds for every condition.

    `%m = loop.mask [%i * 16 in 1000 step 1] : vector<16xi1>`
    """

    name = "loop.mask"

    indices = var_operand_def(IndexType)
    map = prop_def(AffineMapAttr)
    extents = prop_def(INTEGERS)
    steps = prop_def(INTEGERS)
    result = result_def(VectorType)

    traits = traits_def(Pure())

    def __init__(
        self,
        map: AffineMap,
        indices: Sequence[SSAValue],
        extents: Sequence[int],
        steps: Sequence[int],
        result_type: VectorType,
    ):
        super().__init__(
            operands=[indices],
            properties={
                "map": AffineMapAttr(map),
                "extents": DenseArrayBase.from_list(i64, extents),
                "steps": DenseArrayBase.from_list(i64, steps),
            },
            result_types=[result_type],
        )

    @property
    def conditions(self) -> tuple[tuple[int, int], ...]:
        """`(extent, step)` of each condition, in the order of the map."""
        pairs = zip(integers(self.extents), integers(self.steps), strict=True)
        return tuple(pairs)

    def verify_(self) -> None:
        count = len(self.map.data.results)
        if not len(self.extents) == len(self.steps) == count:
            raise VerifyException("each condition needs an expression, an extent and a step")
        verify_index_map(self.map.data, len(self.indices))
        result = self.result.type
        if not isa(result, VectorType) or result.get_element_type() != i1:
            raise VerifyException("a mask must be a vector of i1")
        if len(result.get_shape()) != 1:
            raise VerifyException("a mask must be a vector of one dimension")

    @classmethod
    def parse(cls, parser: Parser) -> MaskOp:
        map, indices, extents, steps = parse_conditions(parser, with_steps=True)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        if not isa(type_, VectorType):
            parser.raise_error("expected a vector type")
        op = cls(map, indices, extents, steps, type_)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        extents, steps = integers(self.extents), integers(self.steps)
        print_conditions(printer, self.map.data, self.indices, extents, steps)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)
