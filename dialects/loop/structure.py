"""Functions and loops of the loop dialect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, cast

from xdsl.dialects.builtin import (
    I64,
    IndexType,
    IntegerAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, NoTerminator, RecursiveMemoryEffect, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.loop.attrs import (
    BLOCK_AXES,
    THREAD_AXES,
    LoopKind,
    LoopKindAttr,
    ThreadAxis,
    ThreadAxisAttr,
)
from tcopt.dialects.loop.block import BlockOp
from tcopt.dialects.loop.buffer_function import BufferFunction
from tcopt.dialects.loop.index_ops import IndexOp
from tcopt.dialects.loop.types import verify_buffer_type
from tcopt.dialects.size import extent_text, function_symbols, size_arguments, size_of
from tcopt.support.arithmetic.intervals import Range, range_below
from tcopt.support.arithmetic.sizes import Extent, symbols_of
from tcopt.support.ir.quick_ir import init_op

LIMITED_KINDS = (LoopKind.SERIAL, LoopKind.PARALLEL)
"""Kinds of loops that may have a limit, as loops over blocks of threads may; others run a fixed
number of iterations."""

PRAGMA_UNROLL = "pragma_unroll"
"""Attribute of a loop with the unroll factor to request from the device's compiler."""


@irdl_op_definition
class FuncOp(BufferFunction):
    """A function over buffers, inputs before outputs; it becomes one kernel.

    A function that serves a range of sizes has an index argument for each size, after its buffers.

    `loop.func @f(%x: memref<9x4xf32, #size.dims<s0[1:9], 4>>, %s0: index)
        attributes {size.symbols = #size.dims<s0[1:9]>} { ... }`
    """

    name = "loop.func"
    CALLED: ClassVar[str] = "loop.func"

    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface(), NoTerminator())

    def verify_(self) -> None:
        self.verify_signature(verify_buffer_type)
        seen: set[str] = set()
        declared = function_symbols(self)
        for op in self.walk():
            if isinstance(op, BlockOp):
                for extent in op.live_domain:
                    if any(symbol not in declared for symbol in symbols_of(extent)):
                        text = extent_text(extent)
                        raise VerifyException(f"a block's extent is {text}, not of a size argument")
                if op.block_name.data in seen:
                    raise VerifyException(f'two blocks are named "{op.block_name.data}"')
                seen.add(op.block_name.data)


@irdl_op_definition
class ForOp(IRDLOperation):
    """A loop from 0 to `extent`, executed according to its kind.

    `loop.for %i = 0 to 32 parallel { ... }`, `loop.for %t = 0 to 64 thread threadIdx.x { ... }`

    A loop that is serial, parallel or over blocks of threads may have a limit, an index: iterations
    from the limit on do not run. The limit of a loop over blocks depends on sizes only.

    `loop.for %i = 0 to 64 limit %k { ... }`
    """

    name = "loop.for"

    limit_ = opt_operand_def(IndexType)
    extent = prop_def(IntegerAttr[I64])
    kind = prop_def(LoopKindAttr)
    axis = opt_prop_def(ThreadAxisAttr)
    body = region_def("single_block")

    traits = traits_def(NoTerminator(), RecursiveMemoryEffect())

    def __init__(
        self,
        extent: int,
        body: Region,
        kind: LoopKind = LoopKind.SERIAL,
        axis: ThreadAxis | None = None,
        limit: SSAValue | None = None,
    ):
        properties: dict[str, Attribute] = {
            "extent": IntegerAttr(extent, i64),
            "kind": LoopKindAttr(kind),
        }
        if axis is not None:
            properties["axis"] = ThreadAxisAttr(axis)
        operands = () if limit is None else (limit,)
        init_op(self, operands, (), properties, regions=[body])

    @property
    def trip_count(self) -> int:
        """The number of iterations; the largest number if the loop has a limit."""
        return self.extent.value.data

    @property
    def limit(self) -> SSAValue | None:
        """The number of iterations at run time if it is less than `trip_count`, or None."""
        operands = self.operands
        return operands[0] if operands else None

    @limit.setter
    def limit(self, value: SSAValue | None) -> None:
        self.operands = () if value is None else (value,)

    @property
    def loop_kind(self) -> LoopKind:
        return self.kind.data

    @property
    def induction_variable(self) -> SSAValue:
        return self.regions[0].block.args[0]

    def around(self, body: Region, limit: SSAValue | None) -> ForOp:
        """Return a loop like this one around another body."""
        new = ForOp.create(properties=self.properties, attributes=self.attributes, regions=[body])
        new.limit = limit
        return new

    def verify_(self) -> None:
        if self.trip_count < 0:
            raise VerifyException(f"negative extent {self.trip_count}")
        args = self.body.block.args
        if len(args) != 1 or args[0].type != IndexType():
            raise VerifyException("the body takes the induction variable, an index")
        if (self.axis is not None) != (self.loop_kind is LoopKind.THREAD):
            raise VerifyException("kind 'thread' requires a thread axis, and other kinds have none")
        if self.limit is not None and not may_have_limit(self):
            raise VerifyException(f"a loop of kind '{self.loop_kind.value}' has no limit")

    @classmethod
    def parse(cls, parser: Parser) -> ForOp:
        argument = parser.parse_argument(expect_type=False).resolve(IndexType())
        parser.parse_punctuation("=")
        zero_pos = parser.pos
        if parser.parse_integer(allow_boolean=False) != 0:
            parser.raise_error("loops start at 0", at_position=zero_pos)
        parser.parse_keyword("to")
        extent = parser.parse_integer(allow_boolean=False)
        limit = None
        if parser.parse_optional_keyword("limit"):
            limit = parser.resolve_operand(parser.parse_unresolved_operand(), IndexType())
        kind, axis = LoopKind.SERIAL, None
        # A serial loop has no kind keyword, and `attributes` is None.
        attributes = parser.parse_optional_attr_dict_with_keyword()
        if attributes is None:
            kind = parser.parse_optional_str_enum(LoopKind) or LoopKind.SERIAL
            axis = parser.parse_str_enum(ThreadAxis) if kind is LoopKind.THREAD else None
            attributes = parser.parse_optional_attr_dict_with_keyword()
        op = cls(extent, parser.parse_region([argument]), kind, axis, limit)
        if attributes is not None:
            op.attributes.update(attributes.data)
        return op

    def print(self, printer: Printer) -> None:
        printer.enter_scope()
        printer.print_string(" ")
        printer.print_ssa_value(self.induction_variable)
        printer.print_string(f" = 0 to {self.trip_count}")
        if self.limit is not None:
            printer.print_string(" limit ")
            printer.print_ssa_value(self.limit)
        if self.loop_kind is not LoopKind.SERIAL:
            printer.print_string(f" {self.loop_kind.value}")
        if self.axis is not None:
            printer.print_string(f" {self.axis.data.value}")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)
        printer.exit_scope()


def enclosing_loops(op: Operation) -> Iterator[ForOp]:
    """Yield the loops around `op`, innermost first."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, FuncOp):
        if isinstance(parent, ForOp):
            yield parent
        parent = parent.parent_op()


def path_to(op: Operation) -> list[Operation]:
    """Return the ops around `op` inside the function, outermost first, and `op` itself."""
    found: list[Operation] = []
    current: Operation | None = op
    while current is not None and not isinstance(current, FuncOp):
        found.append(current)
        current = current.parent_op()
    return found[::-1]


def is_thread(loop: ForOp) -> bool:
    """Whether a loop is bound to a thread axis of a block."""
    return loop.axis is not None and loop.axis.data in THREAD_AXES


def is_in_block(loop: ForOp) -> bool:
    """Whether a loop's iterations run in one block and share its memory (virtual threads do)."""
    return loop.loop_kind is LoopKind.VIRTUAL or is_thread(loop)


def loop_of(value: SSAValue) -> ForOp | None:
    """Return the loop that `value` is the induction variable of, if any."""
    owner = value.owner
    parent = owner.parent_op() if isinstance(owner, Block) else None
    return parent if isinstance(parent, ForOp) else None


def may_have_limit(op: ForOp) -> bool:
    """Whether a loop of this kind may have a limit."""
    return op.loop_kind in LIMITED_KINDS or (op.axis is not None and op.axis.data in BLOCK_AXES)


def is_size(value: SSAValue) -> bool:
    """Whether a value is a size of a function, one of its index arguments."""
    owner = value.owner
    is_argument = isinstance(owner, Block) and isinstance(owner.parent_op(), FuncOp)
    return is_argument and value.type == IndexType()


def is_uniform(value: SSAValue) -> bool:
    """Whether an index is known to have the same value in all threads of a block."""
    found = loop_of(value)
    if found is not None:
        return not is_thread(found)
    if isinstance(value.owner, IndexOp):
        return all(map(is_uniform, value.owner.indices))
    return is_size(value)


def size_of_index(value: SSAValue) -> Extent:
    """Return an index that depends on the sizes of its function alone as an extent over them."""
    owner = value.owner
    if isinstance(owner, IndexOp):
        # The operators of affine expressions are those of extents.
        operands = cast("list[int]", [size_of_index(v) for v in owner.indices])
        return owner.map.data.results[0].eval(operands, [])
    function = owner.parent_op() if isinstance(owner, Block) else None
    assert isinstance(function, FuncOp), "an index that depends on other values than sizes"
    (found,) = (
        size_of(symbol)
        for symbol in function_symbols(function)
        if size_arguments(function)[symbol.name] is value
    )
    return found


def variable_range(value: SSAValue) -> Range | None:
    """Return the range of a loop's induction variable, a block's iteration variable or a size; None
    for other values."""
    owner = value.owner
    match owner.parent_op() if isinstance(owner, Block) else None:
        case ForOp() as loop:
            return range_below(loop.trip_count)
        case BlockOp() as block:
            return range_below(block.domain[block.iter_vars.index(value)])
        case FuncOp() as function:
            return size_ranges(function).get(value)
        case _:
            return None


def function_of(op: Operation) -> FuncOp | None:
    """Return the function around an op, or None."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, FuncOp):
        parent = parent.parent_op()
    return parent


def size_ranges(function: FuncOp) -> dict[SSAValue, Range]:
    """Return the range of each size of a function."""
    arguments = size_arguments(function)
    return {arguments[s.name]: (s.low, s.high) for s in function_symbols(function)}
