"""Loads and stores of the loop dialect."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import (
    AffineMapAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    VectorType,
    i1,
)
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from tcopt.dialects.loop.attrs import IterKind
from tcopt.dialects.loop.operand_access import quick_operands
from tcopt.dialects.loop.types import parse_buffer_type, reach_of
from tcopt.dialects.size import extents_of
from tcopt.support.arithmetic.sizes import Extent
from tcopt.support.ir.index_maps import verify_index_map
from tcopt.support.ir.literals import (
    INTEGERS,
    Integers,
    integers,
    number_attr,
    number_list,
    parse_number,
    parse_rows,
    print_number,
    print_rows,
    segment_sizes,
)
from tcopt.support.ir.quick_ir import init_op
from tcopt.support.memo import memo
from tcopt.support.syntax.access_syntax import parse_access, print_access

LaneSteps = tuple[tuple[int, ...], ...]
"""Steps along the dimensions of the buffer, for each dimension of an accessed vector."""


def is_same_place(one: LoadOp | StoreOp, other: LoadOp | StoreOp) -> bool:
    """Whether two accesses in one body address the same elements, by their index expressions."""
    return (
        one.memref is other.memref
        and one.map == other.map
        and one.lanes == other.lanes
        and one.mask is other.mask
        and tuple(one.indices) == tuple(other.indices)
    )


def _verify_access(access: LoadOp | StoreOp, value_type: Attribute) -> None:
    type_, map = access.memref.type, access.map.data
    assert isa(type_, MemRefType)
    rank = len(type_.get_shape())
    if len(map.results) != rank:
        raise VerifyException(f"{len(map.results)} indices for a buffer of rank {rank}")
    verify_index_map(map, len(access.indices))
    default = access.default if isinstance(access, LoadOp) else None
    if default is not None and default.type != type_.get_element_type():
        raise VerifyException("the default's type differs from the buffer's element type")
    if isa(value_type, VectorType):
        _verify_vector(access, type_, value_type, default is not None)
    elif access.lanes is not None or access.mask is not None:
        raise VerifyException("lanes and mask are legal for vector accesses only")
    elif value_type != type_.get_element_type():
        raise VerifyException("value type differs from the buffer's element type")
    if access.mask is None and default is None:
        _verify_bounds(access, extents_of(type_))


def _verify_vector(
    access: LoadOp | StoreOp, buffer: MemRefType, vector: VectorType, has_default: bool
) -> None:
    rank, dimensions = len(buffer.get_shape()), len(vector.get_shape())
    if access.lanes is None or len(access.lanes) != rank * dimensions or not dimensions:
        raise VerifyException("a vector access needs a lane step for each dimension")
    if vector.get_element_type() != buffer.get_element_type():
        raise VerifyException("vector and buffer element types differ")
    if access.mask is not None and access.mask.type != VectorType(i1, vector.get_shape()):
        raise VerifyException("the mask must hold one i1 for each lane")
    if (access.mask is not None or has_default) and dimensions > 1:
        raise VerifyException("mask and else are legal for vectors of one dimension only")


def _verify_spatial(store: StoreOp) -> None:
    from tcopt.dialects.loop.block import BlockOp

    for index in store.indices:
        block = index.block.parent_op() if isinstance(index, BlockArgument) else None
        if not isinstance(block, BlockOp) or not isinstance(index, BlockArgument):
            continue
        # The block, which is verified later, may have fewer kinds than variables.
        if block.iter_kinds[index.index : index.index + 1] == (IterKind.REDUCE,):
            raise VerifyException(
                "a reduce variable indexes a store; make it spatial, or reduce over it"
            )


def _verify_bounds(access: LoadOp | StoreOp, shape: Sequence[Extent]) -> None:
    from tcopt.dialects.loop.bounds import verify_in_bounds

    verify_in_bounds(access, access.map.data.results, access.indices, access.lane_reaches, shape)


def _parse_lanes_and_mask(
    parser: Parser,
) -> tuple[list[int] | None, UnresolvedOperand | None]:
    rows = parse_rows(parser, "lanes")
    lanes = [step for row in rows for step in row] if rows else None
    mask = parser.parse_unresolved_operand() if parser.parse_optional_keyword("mask") else None
    return lanes, mask


def _print_lanes_and_mask(printer: Printer, rows: LaneSteps, mask: SSAValue | None) -> None:
    print_rows(printer, "lanes", rows)
    if mask is not None:
        printer.print_string(" mask ")
        printer.print_ssa_value(mask)


def _reaches(rows: LaneSteps, vector: Attribute, rank: int) -> list[tuple[int, int]]:
    """Return the minimum and maximum offset of lanes from the first, per buffer dimension."""
    if not rows:
        return [(0, 0)] * rank
    assert isa(vector, VectorType)
    return [reach_of(steps, vector.get_shape()) for steps in zip(*rows, strict=True)]


@memo(4096)
def _rows(lanes: Integers | None, vector: Attribute) -> LaneSteps:
    """Return the lane steps of a vector access, one row per dimension of the vector."""
    if lanes is None:
        return ()
    steps = integers(lanes)
    if not isa(vector, VectorType) or len(vector.get_shape()) == 1:
        return (steps,)
    count = len(vector.get_shape())
    rank = len(steps) // count
    return tuple(steps[rank * row : rank * (row + 1)] for row in range(count))


def _mask_type(vector: Attribute) -> VectorType:
    assert isa(vector, VectorType)
    return VectorType(i1, vector.get_shape())


def _verify_limits(op: LoadOp | StoreOp) -> None:
    """Check that indices computed from data stay inside the buffer."""
    indices = op.indices
    if all(map(_is_loop_variable, indices)):
        return
    # Imported here to avoid an import cycle.
    from tcopt.dialects.loop.computed_indices import verify_limits

    assert isa(op.memref.type, MemRefType)
    shape = op.memref.type.get_shape()
    verify_limits(op, op.map.data, indices, shape, op.lane_reaches, has_mask=op.mask is not None)


def _is_loop_variable(value: SSAValue) -> bool:
    return isinstance(value, BlockArgument) and not isinstance(value.block.parent_op(), scf.ForOp)


@quick_operands("memref", variadic="indices", optional=("mask", VectorType))
@irdl_op_definition
class LoadOp(IRDLOperation):
    """Reads one element, or one vector, from a buffer.

    With `else`, an index outside the buffer reads the default; without it, an index computed from
    data must be provably in bounds. A vector load reads lane `l` at `indices + l * lanes`; lanes
    whose mask is false hold the default, or zero. A vector of several dimensions has lane steps
    for each: `lanes [0, 1, 0] [0, 0, 1]`.
    """

    name = "loop.load"

    memref = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    mask = opt_operand_def(VectorType)
    map = prop_def(AffineMapAttr)
    lanes = opt_prop_def(INTEGERS)
    default = opt_prop_def(IntegerAttr | FloatAttr)
    result = result_def()

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect())

    def __init__(
        self,
        memref: SSAValue | Operation,
        map: AffineMap,
        indices: Sequence[SSAValue],
        *,
        default: IntegerAttr | FloatAttr | None = None,
        lanes: Sequence[int] | None = None,
        mask: SSAValue | None = None,
        result_type: Attribute | None = None,
    ):
        memref = SSAValue.get(memref)
        if result_type is None:
            assert isa(memref.type, MemRefType)
            result_type = memref.type.get_element_type()
        operands = [memref, *indices] if mask is None else [memref, *indices, mask]
        properties: dict[str, Attribute] = {
            "map": AffineMapAttr(map),
            "operandSegmentSizes": segment_sizes(1, len(indices), int(mask is not None)),
        }
        if lanes is not None:
            properties["lanes"] = number_list(*lanes)
        if default is not None:
            properties["default"] = default
        init_op(self, operands, [result_type], properties)

    def set_indices(self, values: Sequence[SSAValue]) -> None:
        """Replace the index operands, to which the dimensions of the map refer."""
        mask = self.mask
        self.operands = [self.memref, *values] if mask is None else [self.memref, *values, mask]
        sizes = segment_sizes(1, len(values), int(mask is not None))
        self.properties["operandSegmentSizes"] = sizes

    @property
    def lane_steps(self) -> LaneSteps:
        """The step of each index per dimension of the vector; () for a scalar."""
        return _rows(self.lanes, self.result.type)

    @property
    def lane_reaches(self) -> list[tuple[int, int]]:
        """Minimum and maximum offset of the lanes from the first, per dimension of the buffer."""
        return _reaches(self.lane_steps, self.result.type, len(self.map.data.results))

    def verify_(self) -> None:
        _verify_access(self, self.result.type)
        if self.default is None:
            _verify_limits(self)

    @classmethod
    def parse(cls, parser: Parser) -> LoadOp:
        memref = parser.parse_unresolved_operand()
        map, indices = parse_access(parser)
        lanes, mask = _parse_lanes_and_mask(parser)
        number = parse_number(parser) if parser.parse_optional_keyword("else") else None
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type_ = parse_buffer_type(parser)
        result_type: Attribute = type_.get_element_type()
        if parser.parse_optional_punctuation(","):
            result_type = parser.parse_type()
        op = cls(
            parser.resolve_operand(memref, type_),
            map,
            indices,
            default=None if number is None else number_attr(number, type_.get_element_type()),
            lanes=lanes,
            mask=None if mask is None else parser.resolve_operand(mask, _mask_type(result_type)),
            result_type=result_type,
        )
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.memref)
        print_access(printer, self.map.data, self.indices)
        _print_lanes_and_mask(printer, self.lane_steps, self.mask)
        if self.default is not None:
            printer.print_string(" else ")
            print_number(printer, self.default)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.memref.type)
        if self.lanes is not None:
            printer.print_string(", ")
            printer.print_attribute(self.result.type)


@quick_operands("value", "memref", variadic="indices", optional=("mask", VectorType))
@irdl_op_definition
class StoreOp(IRDLOperation):
    """Writes one element, or one vector, to a buffer; masked-off lanes are not written.

    An index computed from data must be provably in bounds.
    """

    name = "loop.store"

    value = operand_def()
    memref = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    mask = opt_operand_def(VectorType)
    map = prop_def(AffineMapAttr)
    lanes = opt_prop_def(INTEGERS)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryWriteEffect())

    def __init__(
        self,
        value: SSAValue | Operation,
        memref: SSAValue | Operation,
        map: AffineMap,
        indices: Sequence[SSAValue],
        *,
        lanes: Sequence[int] | None = None,
        mask: SSAValue | None = None,
    ):
        operands = [SSAValue.get(value), SSAValue.get(memref), *indices]
        if mask is not None:
            operands.append(mask)
        properties: dict[str, Attribute] = {
            "map": AffineMapAttr(map),
            "operandSegmentSizes": segment_sizes(1, 1, len(indices), int(mask is not None)),
        }
        if lanes is not None:
            properties["lanes"] = number_list(*lanes)
        init_op(self, operands, (), properties)

    def set_indices(self, values: Sequence[SSAValue]) -> None:
        """Replace the index operands, to which the dimensions of the map refer."""
        mask = self.mask
        kept = [self.value, self.memref, *values]
        self.operands = kept if mask is None else [*kept, mask]
        sizes = segment_sizes(1, 1, len(values), int(mask is not None))
        self.properties["operandSegmentSizes"] = sizes

    @property
    def lane_steps(self) -> LaneSteps:
        """The step of each index per dimension of the vector; () for a scalar."""
        return _rows(self.lanes, self.value.type)

    @property
    def lane_reaches(self) -> list[tuple[int, int]]:
        """Minimum and maximum offset of the lanes from the first, per dimension of the buffer."""
        return _reaches(self.lane_steps, self.value.type, len(self.map.data.results))

    def verify_(self) -> None:
        _verify_access(self, self.value.type)
        _verify_limits(self)
        _verify_spatial(self)

    @classmethod
    def parse(cls, parser: Parser) -> StoreOp:
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        memref = parser.parse_unresolved_operand()
        map, indices = parse_access(parser)
        lanes, mask = _parse_lanes_and_mask(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type_ = parse_buffer_type(parser)
        value_type: Attribute = type_.get_element_type()
        if parser.parse_optional_punctuation(","):
            value_type = parser.parse_type()
        op = cls(
            parser.resolve_operand(value, value_type),
            parser.resolve_operand(memref, type_),
            map,
            indices,
            lanes=lanes,
            mask=None if mask is None else parser.resolve_operand(mask, _mask_type(value_type)),
        )
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.value)
        printer.print_string(", ")
        printer.print_ssa_value(self.memref)
        print_access(printer, self.map.data, self.indices)
        _print_lanes_and_mask(printer, self.lane_steps, self.mask)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.memref.type)
        if self.lanes is not None:
            printer.print_string(", ")
            printer.print_attribute(self.value.type)
