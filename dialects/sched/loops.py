"""Primitives on loops: loop structure and loop kinds."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import I64, DenseArrayBase, IndexType, IntegerAttr, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.loop import ThreadAxis, ThreadAxisAttr
from tcopt.dialects.sched.base import Resolve, SchedOp
from tcopt.dialects.sched.types import BlockType, LoopType
from tcopt.support.ir.literals import number_list
from tcopt.support.ir.quick_ir import init_op

INFERRED = -1
"""Encodes `?` among the factors of a split."""

KNOB = -2
"""Encodes the next knob operand among the factors of a split."""


@irdl_op_definition
class SplitOp(SchedOp):
    """Split a loop into a nest: `%jo, %ji = sched.split %j by [?, %tile]`.

    A factor is a number, a knob, or `?`, which is inferred.
    """

    name = "sched.split"

    loop = operand_def(LoopType())
    knobs = var_operand_def(IndexType)
    factors = prop_def(DenseArrayBase[I64])
    loops = var_result_def(LoopType())

    def __init__(self, loop: SSAValue, factors: Sequence[int | SSAValue | None]):
        static = [
            INFERRED if f is None else KNOB if isinstance(f, SSAValue) else f for f in factors
        ]
        knobs = [f for f in factors if isinstance(f, SSAValue)]
        properties = {"factors": number_list(*static)}
        init_op(self, [loop, *knobs], [LoopType()] * len(static), properties)

    @property
    def factor_values(self) -> list[int | SSAValue | None]:
        """Factors as numbers, knobs, and None for an inferred one."""
        knobs = iter(self.knobs)
        return [
            next(knobs) if f == KNOB else None if f == INFERRED else int(f)
            for f in self.factors.get_values()
        ]

    def verify_(self) -> None:
        static = [int(f) for f in self.factors.get_values()]
        if len(static) < 2 or len(self.loops) != len(static):
            raise VerifyException("a split has two or more factors and one result for each")
        if static.count(KNOB) != len(self.knobs):
            raise VerifyException("each knob must be one of the factors")
        if static.count(INFERRED) > 1:
            raise VerifyException("at most one factor may be inferred")
        if any(f < 1 and f not in (KNOB, INFERRED) for f in static):
            raise VerifyException("a factor is below 1")

    def arguments(self, resolve: Resolve) -> tuple[object, ...]:
        factors = [resolve(f) if isinstance(f, SSAValue) else f for f in self.factor_values]
        return (
            resolve(self.loop),
            factors,
        )

    @classmethod
    def parse(cls, parser: Parser) -> SplitOp:
        loop = parser.parse_operand(LoopType())
        parser.parse_keyword("by")

        def factor() -> int | SSAValue | None:
            if parser.parse_optional_punctuation("?"):
                return None
            if (knob := parser.parse_optional_operand(IndexType())) is not None:
                return knob
            start = parser.pos
            number = parser.parse_integer(allow_boolean=False)
            if number < 1:
                parser.raise_error("a factor is below 1", start, parser.pos)
            return number

        return cls(loop, parser.parse_comma_separated_list(parser.Delimiter.SQUARE, factor))

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.loop)
        printer.print_string(" by ")

        def factor(value: int | SSAValue | None) -> None:
            if isinstance(value, SSAValue):
                printer.print_ssa_value(value)
            else:
                printer.print_string("?" if value is None else str(value))

        with printer.in_square_brackets():
            printer.print_list(self.factor_values, factor)


def _parse_loops(parser: Parser) -> list[SSAValue]:
    return parser.parse_comma_separated_list(
        parser.Delimiter.NONE, lambda: parser.parse_operand(LoopType())
    )


class _LoopsOp(SchedOp):
    """A primitive on several loops."""

    def arguments(self, resolve: Resolve) -> tuple[object, ...]:
        return tuple(resolve(v) for v in self.operands)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)


@irdl_op_definition
class FuseOp(_LoopsOp):
    """Fuse perfectly nested loops into one: `%f = sched.fuse %i, %j`."""

    name = "sched.fuse"

    loops = var_operand_def(LoopType())
    result = result_def(LoopType())

    def __init__(self, loops: Sequence[SSAValue]):
        super().__init__(operands=[loops], result_types=[LoopType()])

    def verify_(self) -> None:
        if len(self.loops) < 2:
            raise VerifyException("fuse takes two or more loops")

    @classmethod
    def parse(cls, parser: Parser) -> FuseOp:
        return cls(_parse_loops(parser))


@irdl_op_definition
class ReorderOp(_LoopsOp):
    """Reorder the loops of one nest, outermost first: `sched.reorder %k, %i`."""

    name = "sched.reorder"

    loops = var_operand_def(LoopType())

    def __init__(self, loops: Sequence[SSAValue]):
        super().__init__(operands=[loops])

    def verify_(self) -> None:
        if len(set(self.loops)) != len(self.loops) or len(self.loops) < 2:
            raise VerifyException("reorder takes two or more different loops")

    @classmethod
    def parse(cls, parser: Parser) -> ReorderOp:
        return cls(_parse_loops(parser))


class _KindOp(SchedOp):
    """A primitive that sets the kind of one loop."""

    loop = operand_def(LoopType())

    assembly_format = "$loop attr-dict"

    def __init__(self, loop: SSAValue):
        super().__init__(operands=[loop])

    def arguments(self, resolve: Resolve) -> tuple[object, ...]:
        return (resolve(self.loop),)


@irdl_op_definition
class ParallelOp(_KindOp):
    """Run a loop's iterations on several threads: `sched.parallel %i`."""

    name = "sched.parallel"


@irdl_op_definition
class VectorizeOp(_KindOp):
    """Turn a loop's iterations into lanes of vectors: `sched.vectorize %j`."""

    name = "sched.vectorize"


@irdl_op_definition
class UnrollOp(_KindOp):
    """Unroll a loop fully: `sched.unroll %k`."""

    name = "sched.unroll"


@irdl_op_definition
class VirtualThreadOp(_KindOp):
    """Interleave a loop's iterations in one instruction stream: `sched.virtual_thread %t`."""

    name = "sched.virtual_thread"


@irdl_op_definition
class BindOp(SchedOp):
    """Bind a loop to a thread axis: `sched.bind %i to threadIdx.x`."""

    name = "sched.bind"

    loop = operand_def(LoopType())
    axis = prop_def(ThreadAxisAttr)

    def __init__(self, loop: SSAValue, axis: ThreadAxis):
        super().__init__(operands=[loop], properties={"axis": ThreadAxisAttr(axis)})

    def arguments(self, resolve: Resolve) -> tuple[object, ...]:
        return (
            resolve(self.loop),
            self.axis.data,
        )

    @classmethod
    def parse(cls, parser: Parser) -> BindOp:
        loop = parser.parse_operand(LoopType())
        parser.parse_keyword("to")
        return cls(loop, parser.parse_str_enum(ThreadAxis))

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.loop)
        printer.print_string(f" to {self.axis.data.value}")


@irdl_op_definition
class RfactorOp(SchedOp):
    """Compute partial results of a reduction, one per iteration: `%rf = sched.rfactor %ki`.

    `%rf = sched.rfactor %ki axis 1` inserts the new dimension as the second one.
    """

    name = "sched.rfactor"

    loop = operand_def(LoopType())
    axis = prop_def(IntegerAttr)
    result = result_def(BlockType())

    def __init__(self, loop: SSAValue, axis: int = 0):
        super().__init__(
            operands=[loop],
            properties={"axis": IntegerAttr(axis, i64)},
            result_types=[BlockType()],
        )

    def arguments(self, resolve: Resolve) -> tuple[object, ...]:
        return (
            resolve(self.loop),
            self.axis.value.data,
        )

    @classmethod
    def parse(cls, parser: Parser) -> RfactorOp:
        loop = parser.parse_operand(LoopType())
        has_axis = parser.parse_optional_keyword("axis")
        return cls(loop, parser.parse_integer(allow_boolean=False) if has_axis else 0)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.loop)
        if self.axis.value.data:
            printer.print_string(f" axis {self.axis.value.data}")
