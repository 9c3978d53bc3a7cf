"""Buffers, weights, host calls, and ops that order memory accesses between threads."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IndexType,
    IntegerAttr,
    MemRefType,
    StringAttr,
    SymbolRefAttr,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr
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
from xdsl.traits import NoMemoryEffect
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from tcopt.dialects.loop.scopes import Scope, ScopeAttr
from tcopt.dialects.loop.types import parse_buffer_type, verify_buffer_type
from tcopt.dialects.size import DimsAttr, extents_of, sized_memref, verify_call, verify_uses
from tcopt.support.ir.literals import Integers, integers

FENCE = "fence"
"""Attribute of a barrier that also orders accesses to the named memory: `global`."""

SLOTS = "slots"
"""Attribute of a `loop.alloc`: the number of slots that its buffers use in rotation."""

ASYNC = "async"
"""Attribute of a `loop.alloc` in shared memory that is filled by asynchronous copies: its stores
are complete after a `simt.wait_copies`."""

PLACES = "places"
"""Attribute of a `loop.alloc`: the first entry of each slot in the accelerator's memory."""

STORAGE_ALIGN = "storage_align"
"""Attribute of a `loop.alloc` that constrains strides: dimension, factor and offset."""


@irdl_op_definition
class AllocOp(IRDLOperation):
    """A buffer in a memory scope, live inside the loop that contains it."""

    name = "loop.alloc"

    scope = prop_def(ScopeAttr)
    result = result_def(MemRefType)

    assembly_format = "$scope attr-dict `:` type($result)"

    def __init__(self, type: MemRefType, scope: Scope = Scope.GLOBAL):
        super().__init__(properties={"scope": ScopeAttr(scope)}, result_types=[type])

    def verify_(self) -> None:
        verify_buffer_type(self.result.type)
        if (wanted := self.attributes.get(STORAGE_ALIGN)) is not None:
            _verify_strides(wanted, self.result.type)
        if SLOTS in self.attributes or PLACES in self.attributes:
            _verify_slots(self)
        if ASYNC in self.attributes and not self.scope.data.is_shared:
            raise VerifyException(f"buffers in {self.scope.data} have no asynchronous copies")

    @property
    def slots(self) -> int:
        """The number of slots that its buffers use in rotation."""
        count = self.attributes.get(SLOTS)
        return count.value.data if isinstance(count, IntegerAttr) else 1

    @property
    def places(self) -> tuple[int, ...] | None:
        """The first entry of each slot; None before buffers are placed."""
        found = self.attributes.get(PLACES)
        return integers(found) if isa(found, Integers) else None


def _verify_slots(op: AllocOp) -> None:
    scope, places = op.scope.data, op.attributes.get(PLACES)
    if not scope.is_placed and not scope.is_shared:
        raise VerifyException(f"buffers in {scope} have no slots")
    if places is not None and not scope.is_placed:
        raise VerifyException(f"buffers in {scope} are not placed by programs")
    count = op.attributes.get(SLOTS)
    if count is not None and (not isinstance(count, IntegerAttr) or count.value.data < 1):
        raise VerifyException(f"{SLOTS} must be an integer of at least 1")
    if places is not None and (not isa(places, Integers) or len(places) != op.slots):
        raise VerifyException(f"{PLACES} must have an entry for each of {op.slots} slots")


def _verify_strides(wanted: Attribute, type: Attribute) -> None:
    assert isa(type, MemRefType)
    if not isa(wanted, Integers) or len(wanted) != 3:
        raise VerifyException(f"{STORAGE_ALIGN} must be a dimension, a factor and an offset")
    dim, factor, offset = integers(wanted)
    if not 0 <= dim < len(type.get_shape()) - 1:
        raise VerifyException(
            f"{STORAGE_ALIGN}: {dim} is not a dimension of {type} before the last"
        )
    if not 0 <= offset < factor:
        raise VerifyException(f"{STORAGE_ALIGN}: {offset} is not in [0, {factor})")


@irdl_op_definition
class CallOp(IRDLOperation):
    """A call of a `loop.func` from host code.

    `loop.call @f(%x, %y) sizes <batch[1:32]> : ...`: the value of each size of the function.
    """

    name = "loop.call"

    callee = prop_def(SymbolRefAttr)
    arguments = var_operand_def(MemRefType)
    sizes = opt_prop_def(DimsAttr)

    assembly_format = "$callee `(` $arguments `)` (`sizes` $sizes^)? attr-dict `:` type($arguments)"

    def __init__(self, callee: str, arguments: Sequence[SSAValue], sizes: DimsAttr | None = None):
        properties: dict[str, Attribute] = {"callee": SymbolRefAttr(callee)}
        if sizes is not None:
            properties["sizes"] = sizes
        super().__init__(operands=[arguments], properties=properties)

    def verify_(self) -> None:
        verify_call(self, self.callee, self.arguments.types, (), self.sizes)
        verify_uses(self)


@irdl_op_definition
class WeightOp(IRDLOperation):
    """A weight of the weight store as a buffer: `loop.weight @fc.weight : memref<..>`."""

    name = "loop.weight"

    weight = prop_def(StringAttr)
    result = result_def(MemRefType)

    def __init__(self, name: str, type: MemRefType):
        super().__init__(properties={"weight": StringAttr(name)}, result_types=[type])

    @classmethod
    def parse(cls, parser: Parser) -> WeightOp:
        name = parser.parse_symbol_name().data
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type_ = parse_buffer_type(parser)
        op = cls(name, type_)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.weight.data)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """A barrier that all threads of a thread block reach before any passes it.

    It makes earlier writes to shared memory visible to all threads of the block; with `{fence =
    "global"}`, writes to global memory as well.
    """

    name = "loop.barrier"

    assembly_format = "attr-dict"

    def __init__(self, *, is_global: bool = False):
        attributes = {FENCE: StringAttr("global")} if is_global else {}
        super().__init__(attributes=attributes)


@irdl_op_definition
class PushTokenOp(IRDLOperation):
    """Sends a dependence token from one accelerator unit to another (TVM paper, section 4.4)."""

    name = "loop.push_token"

    source = prop_def(StringAttr)
    target = prop_def(StringAttr)

    assembly_format = "$source `->` $target attr-dict"

    def __init__(self, source: str, target: str):
        super().__init__(properties={"source": StringAttr(source), "target": StringAttr(target)})


@irdl_op_definition
class PopTokenOp(IRDLOperation):
    """Waits for a dependence token that `source` sent to `target`."""

    name = "loop.pop_token"

    source = prop_def(StringAttr)
    target = prop_def(StringAttr)

    assembly_format = "$source `->` $target attr-dict"

    def __init__(self, source: str, target: str):
        super().__init__(properties={"source": StringAttr(source), "target": StringAttr(target)})


@irdl_op_definition
class SliceOp(IRDLOperation):
    """A view of slice `index` along a buffer's first dimension.

        %xt = loop.slice %xs[%t] : memref<35x1x8xf32>

    The result, memref<1x8xf32> here, is contiguous but need not start at an aligned address.
    """

    name = "loop.slice"
    traits = traits_def(NoMemoryEffect())

    source = operand_def(MemRefType)
    index = operand_def(IndexType)
    result = result_def(MemRefType)

    def __init__(self, source: SSAValue, index: SSAValue):
        super().__init__(operands=[source, index], result_types=[_slice_type(source)])

    def verify_(self) -> None:
        if self.result.type != _slice_type(self.source):
            raise VerifyException(f"a slice of {self.source.type} is not {self.result.type}")
        from tcopt.dialects.loop.bounds import verify_in_bounds

        assert isa(self.source.type, MemRefType)
        extent = self.source.type.get_shape()[0]
        if extent != DYNAMIC_INDEX:
            verify_in_bounds(self, [AffineDimExpr(0)], [self.index], [(0, 0)], [extent])

    @classmethod
    def parse(cls, parser: Parser) -> SliceOp:
        source = parser.parse_unresolved_operand()
        parser.parse_punctuation("[")
        index = parser.parse_unresolved_operand()
        parser.parse_punctuation("]")
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        op = cls(parser.resolve_operand(source, type_), parser.resolve_operand(index, IndexType()))
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        printer.print_string("[")
        printer.print_ssa_value(self.index)
        printer.print_string("]")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)


def _slice_type(source: SSAValue) -> MemRefType:
    type_ = source.type
    if not isa(type_, MemRefType) or not type_.get_shape():
        raise VerifyException(f"{type_} has no first dimension")
    return sized_memref(extents_of(type_)[1:], type_.get_element_type())
