"""Reads and index values of the tensor-expression dialect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects.arith import MinSIOp
from xdsl.dialects.builtin import AffineMapAttr, FloatAttr, IndexType, IntegerAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
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

from tcopt.dialects.size import extents_of, function_symbols, size_arguments, size_of
from tcopt.dialects.te.ops import ComputeOp, FuncOp
from tcopt.dialects.value_ranges import ValueRanges
from tcopt.support.arithmetic.affine import bounds, linear_sum
from tcopt.support.arithmetic.extent_ranges import (
    ExtentRange,
    below,
    expression_range,
    is_in_range,
    number_range,
    number_ranges,
)
from tcopt.support.arithmetic.intervals import UNBOUNDED, Range
from tcopt.support.arithmetic.sizes import Size
from tcopt.support.ir.index_maps import verify_index_map
from tcopt.support.ir.literals import number_attr, parse_number, print_number
from tcopt.support.ir.quick_ir import init_op
from tcopt.support.syntax.access_syntax import parse_access, print_access


@irdl_op_definition
class ReadOp(IRDLOperation):
    """One element of a tensor, at indices affine in axes and computed index values.

    With `else`, an index outside the tensor reads the default, which expresses padding. Without
    it, indices must be in bounds.
    """

    name = "te.read"

    source = operand_def(TensorType)
    indices = var_operand_def(IndexType)
    map = prop_def(AffineMapAttr)
    default = opt_prop_def(IntegerAttr | FloatAttr)
    result = result_def()

    traits = traits_def(Pure())

    def __init__(
        self,
        source: SSAValue | Operation,
        map: AffineMap,
        indices: Sequence[SSAValue],
        default: IntegerAttr | FloatAttr | None = None,
    ):
        source = SSAValue.get(source)
        assert isa(source.type, TensorType)
        properties: dict[str, Attribute] = {"map": AffineMapAttr(map)}
        if default is not None:
            properties["default"] = default
        init_op(self, [source, *indices], [source.type.get_element_type()], properties)

    @property
    def source_shape(self) -> tuple[int, ...]:
        """The extents of the tensor that is read; they may be sizes."""
        assert isa(self.source.type, TensorType)
        return cast("tuple[int, ...]", extents_of(self.source.type))

    @classmethod
    def parse(cls, parser: Parser) -> ReadOp:
        source = parser.parse_unresolved_operand()
        map, indices = parse_access(parser)
        number = parse_number(parser) if parser.parse_optional_keyword("else") else None
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type_pos = parser.pos
        type_ = parser.parse_type()
        if not isa(type_, TensorType):
            parser.raise_error("expected the tensor's type", at_position=type_pos)
        default = None if number is None else number_attr(number, type_.get_element_type())
        op = cls(parser.resolve_operand(source, type_), map, indices, default)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        print_access(printer, self.map.data, self.indices)
        if self.default is not None:
            printer.print_string(" else ")
            print_number(printer, self.default)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)

    def verify_(self) -> None:
        source = self.source.type
        assert isa(source, TensorType)
        if len(self.map.data.results) != len(source.get_shape()):
            raise VerifyException(
                f"{len(self.map.data.results)} indices for a tensor of rank "
                f"{len(source.get_shape())}"
            )
        verify_index_map(self.map.data, len(self.indices))
        if self.result.type != source.get_element_type():
            raise VerifyException("result type differs from the tensor's element type")
        if self.default is None:
            self._verify_bounds(self.source_shape)
        elif self.default.type != self.result.type:
            raise VerifyException("the default's type differs from the element type")

    def _verify_bounds(self, shape: Sequence[int]) -> None:
        if runs_never(self):
            return
        ranges = extent_ranges(self.indices)
        computed = [is_computed(value) for value in self.indices]
        for position, (expr, size) in enumerate(zip(self.map.data.results, shape, strict=True)):
            if any(computed[dim] for dim in expr.used_dims()):
                self._verify_computed(position, expr, size, ranges)
            elif certainly_outside(expr, size, ranges):
                low, high = expression_range(expr, ranges)
                raise VerifyException(
                    f"index {position} ranges over [{low}, {high}], outside of [0, {size - 1}]; "
                    "add a default with 'else' or correct the index"
                )

    def _verify_computed(
        self, position: int, expr: AffineExpr, size: int, ranges: Sequence[ExtentRange]
    ) -> None:
        if is_in_range(expr, size, ranges):
            return
        raise VerifyException(
            f"index {position} is computed from data and {describe_range(expr, ranges)}; limit it "
            f"to [0, {size - 1}], or add a default with 'else'"
        )


@irdl_op_definition
class IndexOp(IRDLOperation):
    """The value of an index expression: `te.index [%i * 4 + %j]`."""

    name = "te.index"

    indices = var_operand_def(IndexType)
    map = prop_def(AffineMapAttr)
    result = result_def(IndexType())

    traits = traits_def(Pure())

    def __init__(self, map: AffineMap, indices: Sequence[SSAValue]):
        init_op(self, indices, [IndexType()], {"map": AffineMapAttr(map)})

    @property
    def expr(self) -> AffineExpr:
        """The expression over the operands."""
        return self.map.data.results[0]

    def verify_(self) -> None:
        if len(self.map.data.results) != 1:
            raise VerifyException("te.index takes one expression")
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


AxisRange = Callable[[SSAValue], Range]
"""The range of an axis of a stage, which may still be under construction."""


def index_range(value: SSAValue) -> Range:
    """Return the range of an index value: an axis, a size, `te.index`, or a computed value. It is
    unbounded if nothing is known about a computed value."""
    return index_range_by(value, _argument_range)


def index_range_by(value: SSAValue, axis_range: AxisRange) -> Range:
    """Return the range of an index value like `index_range`, given the ranges of axes."""
    owner = value.owner
    if isinstance(owner, IndexOp):
        return bounds(owner.expr, [index_range_by(v, axis_range) for v in owner.indices])
    if isinstance(owner, Block):
        return axis_range(value)

    def leaf(value: SSAValue, ranges: ValueRanges) -> Range | None:
        match value.owner:
            case Block():
                return axis_range(value)
            case IndexOp() as op:
                return bounds(op.expr, [ranges.integers(operand) for operand in op.indices])
            case _:
                return None

    low, high = ValueRanges(leaf).integers(value)
    return UNBOUNDED if low < UNBOUNDED[0] or high > UNBOUNDED[1] else (low, high)


def index_ranges(indices: Sequence[SSAValue]) -> tuple[Range, ...]:
    """The range of each index value."""
    return tuple(index_range(value) for value in indices)


ExtentRangeOf = Callable[[SSAValue], ExtentRange]
"""The range of an axis or size, with ends that may be sizes."""


def extent_range(value: SSAValue) -> ExtentRange:
    """Return the range of an index value like `index_range`, with ends that may be sizes.

    An axis of extent `n` has the range `[0, n - 1]`, and the argument with the value of `n` has
    `[n, n]`.
    """
    return extent_range_by(value, argument_range)


def extent_range_by(value: SSAValue, argument_range: ExtentRangeOf) -> ExtentRange:
    """Return the range of an index value like `extent_range`, given the ranges of arguments."""
    owner = value.owner
    if isinstance(owner, Block):
        return argument_range(value)
    if isinstance(owner, IndexOp):
        inner = [extent_range_by(v, argument_range) for v in owner.indices]
        return expression_range(owner.expr, inner)
    low, high = index_range_by(value, lambda v: number_range(argument_range(v)))
    if isinstance(owner, MinSIOp):
        # A value computed from data is limited by a size: `arith.minsi %0, %last`.
        ends = [extent_range_by(operand, argument_range)[1] for operand in owner.operands]
        return low, next((end for end in ends if isinstance(end, Size)), high)
    return low, high


def extent_ranges(indices: Sequence[SSAValue]) -> tuple[ExtentRange, ...]:
    """The range of each index value, with ends that may be sizes."""
    return tuple(extent_range(value) for value in indices)


def argument_range(value: SSAValue) -> ExtentRange:
    """Return the range of an axis of a stage, or of a size of a function."""
    block = value.owner
    parent = block.parent_op() if isinstance(block, Block) else None
    if isinstance(parent, ComputeOp):
        return below(parent.all_extents[parent.body.block.args.index(value)])
    if isinstance(parent, FuncOp):
        arguments = size_arguments(parent)
        for symbol in function_symbols(parent):
            if arguments[symbol.name] is value:
                size = size_of(symbol)
                return size, size
    return UNBOUNDED


def _argument_range(value: SSAValue) -> Range:
    return number_range(argument_range(value))


def is_axis(value: SSAValue) -> bool:
    """Whether an index value is an axis of a stage."""
    block = value.owner
    return isinstance(block, Block) and isinstance(block.parent_op(), ComputeOp)


def is_computed(value: SSAValue) -> bool:
    """Whether an index depends on computed values, not on axes and sizes alone."""
    owner = value.owner
    if isinstance(owner, IndexOp):
        return any(is_computed(operand) for operand in owner.indices)
    return not isinstance(owner, Block)


def runs_never(op: Operation) -> bool:
    """Whether the stage around `op` has an axis of extent 0."""
    stage = op.parent_op()
    return isinstance(stage, ComputeOp) and 0 in stage.all_extents


def describe_range(expr: AffineExpr, ranges: Sequence[ExtentRange]) -> str:
    """Describe the known range of an index, for messages."""
    if any(ranges[dim] == UNBOUNDED for dim in expr.used_dims()):
        return "may be any number"
    low, high = expression_range(expr, ranges)
    return f"ranges over [{low}, {high}]"


def certainly_outside(expr: AffineExpr, extent: int, ranges: Sequence[ExtentRange]) -> bool:
    """Whether `expr` leaves `[0, extent)` for some point: its bounds are known and exact.

    If sizes are involved, bounds that do not prove that it is inside count as outside.
    """
    value = linear_sum(expr, number_ranges(ranges))
    if not value.is_linear or any(ranges[d] == UNBOUNDED for d in expr.used_dims()):
        return False
    return not is_in_range(expr, extent, ranges)
