"""Primitives on blocks: where they compute, and in which memory."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer

from tcopt.dialects.loop import Scope, ScopeAttr
from tcopt.dialects.loop.scopes import parse_scope
from tcopt.dialects.sched.base import Resolve, SchedOp
from tcopt.dialects.sched.types import BlockType, LoopType


class _MoveOp(SchedOp):
    """A primitive on a block and a loop."""

    block = operand_def(BlockType())
    loop = operand_def(LoopType())

    assembly_format = "$block `at` $loop attr-dict"

    def __init__(self, block: SSAValue, loop: SSAValue):
        super().__init__(operands=[block, loop])

    def arguments(self, resolve: Resolve) -> tuple[object, ...]:
        return (
            resolve(self.block),
            resolve(self.loop),
        )


@irdl_op_definition
class ComputeAtOp(_MoveOp):
    """Move a producer into a loop of its consumers: `sched.compute_at %pad at %i`."""

    name = "sched.compute_at"


@irdl_op_definition
class ReverseComputeAtOp(_MoveOp):
    """Move a consumer into a loop of its producer: `sched.reverse_compute_at %relu at %jo`."""

    name = "sched.reverse_compute_at"


@irdl_op_definition
class DecomposeReductionOp(SchedOp):
    """Separate a reduction's initialisation: `%init = sched.decompose_reduction %mm at %k`."""

    name = "sched.decompose_reduction"

    block = operand_def(BlockType())
    loop = operand_def(LoopType())
    result = result_def(BlockType())

    assembly_format = "$block `at` $loop attr-dict"

    def __init__(self, block: SSAValue, loop: SSAValue):
        super().__init__(operands=[block, loop], result_types=[BlockType()])

    def arguments(self, resolve: Resolve) -> tuple[object, ...]:
        return (
            resolve(self.block),
            resolve(self.loop),
        )


class _BlockOp(SchedOp):
    """A primitive on one block."""

    block = operand_def(BlockType())

    assembly_format = "$block attr-dict"

    def __init__(self, block: SSAValue):
        super().__init__(operands=[block])

    def arguments(self, resolve: Resolve) -> tuple[object, ...]:
        return (resolve(self.block),)


@irdl_op_definition
class ComputeInlineOp(_BlockOp):
    """Recompute a producer wherever it is read: `sched.compute_inline %pad`."""

    name = "sched.compute_inline"


@irdl_op_definition
class ReverseComputeInlineOp(_BlockOp):
    """Append a consumer to its producer's computation: `sched.reverse_compute_inline %relu`."""

    name = "sched.reverse_compute_inline"


@irdl_op_definition
class DoubleBufferOp(SchedOp):
    """Fetch the next tile while the current one is in use: `sched.double_buffer %x_shared`.

    Tiles may rotate among more slots: `sched.double_buffer %x_shared slots 3`.
    """

    name = "sched.double_buffer"

    block = operand_def(BlockType())
    slots = prop_def(IntegerAttr[i64], default_value=IntegerAttr(2, i64))

    def __init__(self, block: SSAValue, slots: int = 2):
        super().__init__(operands=[block], properties={"slots": IntegerAttr(slots, i64)})

    def arguments(self, resolve: Resolve) -> tuple[object, ...]:
        return resolve(self.block), self.slots.value.data

    @classmethod
    def parse(cls, parser: Parser) -> DoubleBufferOp:
        block = parser.parse_operand(BlockType())
        slots = 2
        if parser.parse_optional_keyword("slots"):
            slots = parser.parse_integer(allow_boolean=False)
        op = cls(block, slots)
        op.attributes.update(parser.parse_optional_attr_dict())
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.block)
        if self.slots.value.data != 2:
            printer.print_string(f" slots {self.slots.value.data}")
        printer.print_op_attributes(self.attributes)


@irdl_op_definition
class CacheReadOp(SchedOp):
    """Make a block read a copy in another memory: `%c = sched.cache_read %mm of 0 into shared`.

    The buffer is given by name, `of "x"`, or by its position among the block's reads. With `steps
    [1, 2]`, only every second index along the second dimension is copied.
    """

    name = "sched.cache_read"

    block = operand_def(BlockType())
    buffer = prop_def(IntegerAttr | StringAttr)
    scope = prop_def(ScopeAttr)
    steps = opt_prop_def(DenseArrayBase.constr(i64))
    result = result_def(BlockType())

    def __init__(
        self,
        block: SSAValue,
        buffer: int | str,
        scope: Scope,
        steps: Sequence[int] | None = None,
    ):
        which = StringAttr(buffer) if isinstance(buffer, str) else IntegerAttr(buffer, i64)
        super().__init__(
            operands=[block],
            properties={
                "buffer": which,
                "scope": ScopeAttr(scope),
                "steps": None if steps is None else DenseArrayBase.from_list(i64, steps),
            },
            result_types=[BlockType()],
        )

    @property
    def which(self) -> int | str:
        """The buffer's name or position."""
        named = self.buffer
        return named.data if isinstance(named, StringAttr) else named.value.data

    def arguments(self, resolve: Resolve) -> tuple[object, ...]:
        return (
            resolve(self.block),
            self.which,
            self.scope.data,
            None if self.steps is None else self.steps.get_values(),
        )

    @classmethod
    def parse(cls, parser: Parser) -> CacheReadOp:
        block = parser.parse_operand(BlockType())
        parser.parse_keyword("of")
        buffer: int | str | None = parser.parse_optional_str_literal()
        if buffer is None:
            buffer = parser.parse_integer(allow_boolean=False)
        parser.parse_keyword("into")
        scope, steps = parse_scope(parser), None
        if parser.parse_optional_keyword("steps"):
            steps = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False)
            )
        return cls(block, buffer, scope, steps)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.block)
        printer.print_string(" of ")
        if isinstance(self.which, str):
            printer.print_string_literal(self.which)
        else:
            printer.print_string(str(self.which))
        printer.print_string(f" into {self.scope.data.value}")
        if self.steps is not None:
            printer.print_string(f" steps {list(self.steps.get_values())}")


@irdl_op_definition
class CacheWriteOp(SchedOp):
    """Make a block write to another memory first: `%copy = sched.cache_write %mm into register`."""

    name = "sched.cache_write"

    block = operand_def(BlockType())
    scope = prop_def(ScopeAttr)
    result = result_def(BlockType())

    assembly_format = "$block `into` $scope attr-dict"

    def __init__(self, block: SSAValue, scope: Scope):
        super().__init__(
            operands=[block], properties={"scope": ScopeAttr(scope)}, result_types=[BlockType()]
        )

    def arguments(self, resolve: Resolve) -> tuple[object, ...]:
        return (
            resolve(self.block),
            self.scope.data,
        )


@irdl_op_definition
class ComputeInPlaceOp(SchedOp):
    """Make a block store into the buffer that it reads, instead of its own:
    `sched.compute_in_place %add of 0`. The buffer is given by its position among the block's
    reads."""

    name = "sched.compute_in_place"

    block = operand_def(BlockType())
    buffer = prop_def(IntegerAttr[i64])

    assembly_format = "$block `of` $buffer attr-dict"

    def __init__(self, block: SSAValue, buffer: int):
        super().__init__(operands=[block], properties={"buffer": IntegerAttr(buffer, i64)})

    def arguments(self, resolve: Resolve) -> tuple[object, ...]:
        return (resolve(self.block), self.buffer.value.data)


@irdl_op_definition
class SetScopeOp(SchedOp):
    """Move the buffer that a block writes to another memory: `sched.set_scope %mm to register`."""

    name = "sched.set_scope"

    block = operand_def(BlockType())
    scope = prop_def(ScopeAttr)

    assembly_format = "$block `to` $scope attr-dict"

    def __init__(self, block: SSAValue, scope: Scope):
        super().__init__(operands=[block], properties={"scope": ScopeAttr(scope)})

    def arguments(self, resolve: Resolve) -> tuple[object, ...]:
        return (
            resolve(self.block),
            self.scope.data,
        )


@irdl_op_definition
class StorageAlignOp(SchedOp):
    """Pad the rows of a block's buffer: `sched.storage_align %mm dim 0 by 32 + 16`.

    The stride of the dimension becomes a multiple of the first number, plus the second.
    """

    name = "sched.storage_align"

    block = operand_def(BlockType())
    dim = prop_def(IntegerAttr[i64])
    factor = prop_def(IntegerAttr[i64])
    offset = prop_def(IntegerAttr[i64])

    assembly_format = "$block `dim` $dim `by` $factor `+` $offset attr-dict"

    def __init__(self, block: SSAValue, dim: int, factor: int, offset: int):
        numbers = {"dim": dim, "factor": factor, "offset": offset}
        properties = {name: IntegerAttr(number, i64) for name, number in numbers.items()}
        super().__init__(operands=[block], properties=properties)

    def arguments(self, resolve: Resolve) -> tuple[object, ...]:
        numbers = (self.dim, self.factor, self.offset)
        return (resolve(self.block), *(number.value.data for number in numbers))


@irdl_op_definition
class PermuteLayoutOp(SchedOp):
    """Permute the dimensions of a block's buffer: `sched.permute_layout %x to [1, 0]` lists the
    old dimension of each new one."""

    name = "sched.permute_layout"

    block = operand_def(BlockType())
    order = prop_def(DenseArrayBase.constr(i64))

    assembly_format = "$block `to` $order attr-dict"

    def __init__(self, block: SSAValue, order: Sequence[int]):
        super().__init__(
            operands=[block], properties={"order": DenseArrayBase.from_list(i64, order)}
        )

    def arguments(self, resolve: Resolve) -> tuple[object, ...]:
        return (resolve(self.block), self.order.get_values())


@irdl_op_definition
class PadEinsumOp(SchedOp):
    """Pad a contraction to whole tiles: `sched.pad_einsum %mm to [16, 8, 16]` rounds the extent of
    each of its variables up to a multiple."""

    name = "sched.pad_einsum"

    block = operand_def(BlockType())
    multiples = prop_def(DenseArrayBase.constr(i64))

    assembly_format = "$block `to` $multiples attr-dict"

    def __init__(self, block: SSAValue, multiples: Sequence[int]):
        super().__init__(
            operands=[block], properties={"multiples": DenseArrayBase.from_list(i64, multiples)}
        )

    def arguments(self, resolve: Resolve) -> tuple[object, ...]:
        return (resolve(self.block), self.multiples.get_values())


@irdl_op_definition
class PrefetchOp(SchedOp):
    """Prefetch what a block will read from a buffer in the next iteration of a loop.

    In `sched.prefetch %mm buffer 1 ahead %panel at %k`, the buffer is given by its position among
    the block's reads; the iterations of the loops inside `%panel`, down to `%k`, share the
    prefetches.
    """

    name = "sched.prefetch"

    block = operand_def(BlockType())
    ahead = operand_def(LoopType())
    at = operand_def(LoopType())
    buffer = prop_def(IntegerAttr[i64])

    assembly_format = "$block `buffer` $buffer `ahead` $ahead `at` $at attr-dict"

    def __init__(self, block: SSAValue, buffer: int, ahead: SSAValue, at: SSAValue):
        super().__init__(
            operands=[block, ahead, at], properties={"buffer": IntegerAttr(buffer, i64)}
        )

    def arguments(self, resolve: Resolve) -> tuple[object, ...]:
        return (
            resolve(self.block),
            self.buffer.value.data,
            resolve(self.ahead),
            resolve(self.at),
        )


@irdl_op_definition
class AnnotateOp(SchedOp):
    """Set an attribute of a block or loop: `sched.annotate %k "pragma" = "nounroll"`."""

    name = "sched.annotate"

    target = operand_def(BlockType | LoopType)
    key = prop_def(StringAttr)
    value = prop_def()

    def __init__(self, target: SSAValue, key: str, value: Attribute):
        super().__init__(operands=[target], properties={"key": StringAttr(key), "value": value})

    def arguments(self, resolve: Resolve) -> tuple[object, ...]:
        return (
            resolve(self.target),
            self.key.data,
            self.value,
        )

    @classmethod
    def parse(cls, parser: Parser) -> AnnotateOp:
        target = _parse_handle(parser)
        key = parser.parse_str_literal()
        parser.parse_punctuation("=")
        return cls(target, key, parser.parse_attribute())

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.target)
        printer.print_string(" ")
        printer.print_string_literal(self.key.data)
        printer.print_string(" = ")
        printer.print_attribute(self.value)


@irdl_op_definition
class TensorizeOp(SchedOp):
    """Replace loops by a hardware intrinsic: `sched.tensorize %ki as "bf16_dot"`.

    The target is the outermost of the loops, or the block inside.
    """

    name = "sched.tensorize"

    target = operand_def(BlockType | LoopType)
    intrin = prop_def(StringAttr)

    def __init__(self, target: SSAValue, intrin: str):
        super().__init__(operands=[target], properties={"intrin": StringAttr(intrin)})

    def arguments(self, resolve: Resolve) -> tuple[object, ...]:
        return resolve(self.target), self.intrin.data

    @classmethod
    def parse(cls, parser: Parser) -> TensorizeOp:
        target = _parse_handle(parser)
        parser.parse_keyword("as")
        return cls(target, parser.parse_str_literal())

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.target)
        printer.print_string(" as ")
        printer.print_string_literal(self.intrin.data)


@irdl_op_definition
class AddUnitLoopOp(SchedOp):
    """Wrap a block or loop in a loop with one iteration: `%u = sched.add_unit_loop %total`."""

    name = "sched.add_unit_loop"

    target = operand_def(BlockType | LoopType)
    result = result_def(LoopType())

    def __init__(self, target: SSAValue):
        super().__init__(operands=[target], result_types=[LoopType()])

    def arguments(self, resolve: Resolve) -> tuple[object, ...]:
        return (resolve(self.target),)

    @classmethod
    def parse(cls, parser: Parser) -> AddUnitLoopOp:
        return cls(_parse_handle(parser))

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.target)


def _parse_handle(parser: Parser) -> SSAValue:
    """Parse a handle of a block or loop; its type is that of its definition, which precedes it."""
    name = parser.parse_unresolved_operand()
    known = parser.ssa_values.get(name.operand_name)
    return parser.resolve_operand(name, known[name.index].type if known else BlockType())
